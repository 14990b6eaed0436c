"""Join policies as a table: statuses of the branches in, the block's verdict out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc.workflow.engine.join_policy import BranchStatus, judge
from arc.workflow.model import ErrorPolicy, JoinPolicy

LETTERS: dict[str, BranchStatus] = {"s": "success", "p": "partial_success", "f": "fail", "c": "canceled", "r": "running", "w": "waiting"}
ALL = JoinPolicy()
FIRST = JoinPolicy("first_success")


def k_of_n(count: int) -> JoinPolicy:
    return JoinPolicy("k_of_n", count=count)


def quorum(fraction: float) -> JoinPolicy:
    return JoinPolicy("quorum", fraction=fraction)


@pytest.mark.parametrize(
    ("policy", "errors", "branches", "expected"),
    [
        (ALL, "continue", "sss", "success"),
        (ALL, "continue", "sps", "success"),
        (ALL, "continue", "ssr", None),
        (ALL, "continue", "ffr", None),
        (ALL, "continue", "sfs", "partial_success"),
        (ALL, "continue", "fff", "fail"),
        (ALL, "fail_fast", "sfr", "fail"),
        (ALL, "fail_fast", "swr", None),
        (ALL, "ignore", "sff", "success"),
        (ALL, "ignore", "sfr", None),
        (ALL, "ignore", "fff", "fail"),
        (FIRST, "continue", "fsr", "success"),
        (FIRST, "continue", "frw", None),
        (FIRST, "continue", "fff", "fail"),
        (FIRST, "fail_fast", "frr", "fail"),
        (FIRST, "fail_fast", "scc", "success"),
        (FIRST, "fail_fast", "sfc", "success"),
        (k_of_n(2), "fail_fast", "ssc", "success"),
        (k_of_n(2), "fail_fast", "sfc", "fail"),
        (ALL, "fail_fast", "sfc", "fail"),
        (k_of_n(2), "continue", "srs", "success"),
        (k_of_n(2), "continue", "sfr", None),
        (k_of_n(2), "continue", "sff", "fail"),
        (k_of_n(4), "continue", "sss", "fail"),
        (k_of_n(2), "ignore", "sff", "fail"),
        (quorum(0.5), "continue", "srsr", "success"),
        (quorum(0.5), "continue", "sfff", "fail"),
        (quorum(0.51), "continue", "ssff", "fail"),
        (quorum(0.1), "continue", "srrrrrrrrr", "success"),
        (quorum(0.3), "continue", "sssrrrrrrr", "success"),
        (quorum(1.0), "continue", "ssr", None),
        (quorum(0.5), "ignore", "sfff", "success"),
        (quorum(1.0), "ignore", "sffr", None),
    ],
)
def test_the_verdicts(policy: JoinPolicy, errors: ErrorPolicy, branches: str, expected: str | None) -> None:
    verdict = judge(policy, errors, [LETTERS[letter] for letter in branches])
    assert (None if verdict is None else verdict.status) == expected
    assert verdict is None or bool(verdict.reason) == (verdict.status != "success")


POLICIES = st.one_of(st.just(ALL), st.just(FIRST), st.integers(1, 6).map(k_of_n), st.floats(0.01, 1.0).map(quorum))


@given(POLICIES, st.sampled_from(["continue", "fail_fast", "ignore"]), st.text("spfc", min_size=1, max_size=8))
def test_a_block_whose_branches_have_all_ended_has_a_verdict_and_needs_a_success_to_succeed(
    policy: JoinPolicy, errors: ErrorPolicy, branches: str
) -> None:
    verdict = judge(policy, errors, [LETTERS[letter] for letter in branches])
    assert verdict is not None
    if not {"s", "p"} & set(branches):
        assert verdict.status == "fail"
    if set(branches) <= {"s", "p"} and not (policy.kind == "k_of_n" and policy.count > len(branches)):
        assert verdict.status == "success"
