"""Retry policies: how many attempts a node has, how long to wait between them, which failures are tried again. Pure.

Who decides the number of attempts, first one given wins: the node's `retry_policy`, the node's `max_retries` (+1), the graph's
`default_max_retries` (+1). What is retried: an outcome `retry`, and failures of class `transient_infra` (a timeout is one). A node that
*itself* says `max_retries` or `retry_policy` also has its deterministic failures retried: who writes `max_retries=2` on a command expects
a failing command to be run again. Canceled, structural and budget failures are never retried.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from arc.workflow.model import Node, RetryPolicyName, Workflow
from arc.workflow.outcome import Outcome

MAX_DELAY = 60.0
"""Seconds; no wait is longer, jitter included."""


@dataclass(frozen=True)
class RetryPolicy:
    """`attempts` in all; the wait before attempt n+1 is `first_delay * factor**(n-1)` seconds, times a jitter of 0.5 to 1.5."""

    attempts: int
    first_delay: float = 0.0
    factor: float = 1.0

    def delay(self, attempt: int, jitter: random.Random) -> float:
        """Seconds to wait after the attempt with that number (from 1) failed."""
        exponent = min(attempt - 1, 64)  # beyond that every policy is at the cap; keeps the power finite
        return min(min(self.first_delay * self.factor**exponent, MAX_DELAY) * jitter.uniform(0.5, 1.5), MAX_DELAY)


PRESETS: dict[RetryPolicyName, RetryPolicy] = {
    "none": RetryPolicy(1),
    "standard": RetryPolicy(5, 5.0, 2.0),
    "aggressive": RetryPolicy(5, 0.5, 2.0),
    "linear": RetryPolicy(3, 0.5, 1.0),
    "patient": RetryPolicy(3, 2.0, 3.0),
}
"""The named policies of `retry_policy`."""

UNNAMED_FIRST_DELAY, UNNAMED_FACTOR = 0.5, 2.0
"""The waits where only a number of retries is given."""


def policy_of(node: Node, workflow: Workflow) -> RetryPolicy:
    """The policy that holds for a node."""
    if node.retry_policy is not None:
        return PRESETS[node.retry_policy]
    retries = node.max_retries if node.max_retries is not None else workflow.default_max_retries
    return RetryPolicy(max(retries, 0) + 1, UNNAMED_FIRST_DELAY, UNNAMED_FACTOR)


def is_retried(node: Node, outcome: Outcome) -> bool:
    """Whether an attempt that ended like this is tried again while attempts are left."""
    if outcome.status == "retry":
        return True
    if outcome.status != "fail":
        return False
    kind = outcome.failure.failure_class if outcome.failure else "deterministic"
    if kind == "transient_infra":
        return True
    explicit = node.max_retries is not None or node.retry_policy is not None
    return explicit and kind in ("deterministic", "compilation_loop")
