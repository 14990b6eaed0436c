"""Join policies of parallel blocks: when enough branches have succeeded, and what the block's outcome is. Pure.

| policy | satisfied when |
|---|---|
| `wait_all` | all branches have ended and all succeeded |
| `first_success` | one has succeeded; the others are cancelled |
| `k_of_n(N)` | N have succeeded; the others are cancelled |
| `quorum(F)` | the fraction F of all branches (rounded up) has succeeded; the others are cancelled |

| error policy | effect of a failed branch |
|---|---|
| `continue` | the others go on; `wait_all` with some successes and some failures is a partial success |
| `fail_fast` | the others are cancelled, the block fails |
| `ignore` | it does not count: the policy is applied to the remaining branches; at least one must succeed |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from arc.workflow.model import ErrorPolicy, JoinPolicy

BranchStatus = Literal["waiting", "running", "success", "partial_success", "fail", "canceled"]


@dataclass(frozen=True)
class Verdict:
    """What a block comes to; `reason` for failures and partial successes."""

    status: Literal["success", "partial_success", "fail"]
    reason: str = ""


def judge(policy: JoinPolicy, errors: ErrorPolicy, statuses: Sequence[BranchStatus]) -> Verdict | None:
    """The block's verdict, None while it is open. Branches still waiting or running after a verdict are to be cancelled."""
    succeeded = sum(status in ("success", "partial_success") for status in statuses)
    failed = sum(status == "fail" for status in statuses)
    lost = failed + sum(status == "canceled" for status in statuses)
    pending = len(statuses) - succeeded - lost
    needed = _needed(policy, len(statuses) - lost if errors == "ignore" else len(statuses))
    if succeeded >= needed and (policy.kind != "wait_all" or not pending):
        return Verdict("success")
    # After the successes: branches that were cancelled because there were enough of them are no failures.
    if errors == "fail_fast" and failed:
        return Verdict("fail", f"{failed} of {len(statuses)} branches failed (`error_policy=fail_fast`)")
    if pending:
        return None
    if policy.kind == "wait_all" and succeeded:
        return Verdict("partial_success", f"{lost} of {len(statuses)} branches failed")
    return Verdict("fail", f"{succeeded} of {len(statuses)} branches succeeded, `{describe(policy)}` needs {needed}")


def _needed(policy: JoinPolicy, total: int) -> int:
    """How many of `total` branches must succeed; never fewer than one."""
    if policy.kind == "first_success":
        return 1
    if policy.kind == "k_of_n":
        return max(policy.count, 1)
    if policy.kind == "quorum":
        return max(math.ceil(policy.fraction * total - 1e-9), 1)  # 0.1 * 10 must not need 2 because of rounding
    return max(total, 1)


def describe(policy: JoinPolicy) -> str:
    """The policy as written in a workflow."""
    if policy.kind == "k_of_n":
        return f"k_of_n({policy.count})"
    if policy.kind == "quorum":
        return f"quorum({policy.fraction:g})"
    return policy.kind
