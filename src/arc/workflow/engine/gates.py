"""Goal gates: which declared gates are unsatisfied when the walk is about to enter the exit, and where it goes instead. Pure.

Every node with `goal_gate` counts, in the order of the file, also one that routing went around: a gate is satisfied only by a latest
outcome that succeeded.
"""

from __future__ import annotations

from collections.abc import Mapping

from arc.workflow.model import Node, Workflow
from arc.workflow.outcome import Outcome


def unsatisfied_gates(workflow: Workflow, outcomes: Mapping[str, Outcome]) -> tuple[Node, ...]:
    """The gates without a succeeded latest outcome, in the order of the file."""
    return tuple(
        node
        for node in workflow.nodes.values()
        if node.goal_gate and not ((latest := outcomes.get(node.id)) is not None and latest.succeeded)
    )


def gate_target(workflow: Workflow, gate: Node) -> str | None:
    """Where an unsatisfied gate sends the walk: the gate's targets before the graph's; targets that do not exist are passed over."""
    for target in (gate.retry_target, gate.fallback_retry_target, workflow.retry_target, workflow.fallback_retry_target):
        if target is not None and target in workflow.nodes:
            return target
    return None


def describe(gates: tuple[Node, ...], outcomes: Mapping[str, Outcome]) -> str:
    """The gates and why each is unsatisfied, for a failure's message."""
    return ", ".join(f"`{gate.id}` ({outcomes[gate.id].status if gate.id in outcomes else 'never executed'})" for gate in gates)
