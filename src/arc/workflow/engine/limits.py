"""Limits of loops: visits of a node, repeated failures, failures carried over a loop restart.

Visits: `max_visits=N` on a node and `max_node_visits=N` on the graph allow N executions; entering the node once more ends the walk.
Failure signatures (`node|class|normalised reason`) are counted for failures that will not pass by themselves (deterministic, structural);
at `loop_restart_signature_limit` the walk ends; a success of the node forgets its signatures. Crossing a `loop_restart` edge after a
failure counts its signature too, in a counter that the restart keeps. A limit of 0 is off.
"""

from __future__ import annotations

from arc.workflow.engine.frame import Frame
from arc.workflow.model import Node
from arc.workflow.outcome import Outcome

DRY_RUN_MAX_NODE_VISITS = 10
"""A dry run's outcomes never change, so its loops need a limit where the graph sets none."""

COUNTED = frozenset({"deterministic", "structural"})


def visit_refusal(frame: Frame, node: Node, *, dry_run: bool) -> str | None:
    """Why the node must not be entered once more, None if it may."""
    used = frame.visits.get(node.id, 0)
    if node.max_visits is not None and node.max_visits > 0 and used >= node.max_visits:
        return f"node `{node.id}` was executed {used} times and `max_visits={node.max_visits}` allows no further visit"
    whole = frame.graph.workflow.max_node_visits or (DRY_RUN_MAX_NODE_VISITS if dry_run else 0)
    if whole > 0 and used >= whole:
        return f"node `{node.id}` was executed {used} times and `max_node_visits={whole}` allows no further visit"
    return None


def count_signature(frame: Frame, node: Node, outcome: Outcome) -> str | None:
    """Count a failure, or forget the node's failures after a success; why the walk must end, None if it goes on."""
    if outcome.status != "fail":
        prefix = f"{node.id}|"
        for key in [key for key in frame.loop_signatures if key.startswith(prefix)]:
            del frame.loop_signatures[key]
        return None
    failure = outcome.failure
    if failure is None or failure.failure_signature is None or failure.failure_class not in COUNTED:
        return None
    count = frame.loop_signatures.get(failure.failure_signature, 0) + 1
    frame.loop_signatures[failure.failure_signature] = count
    limit = frame.graph.workflow.loop_restart_signature_limit
    if 0 < limit <= count:
        return f"node `{node.id}` failed {count} times in the same way (`loop_restart_signature_limit={limit}`): {failure.message}"
    return None


def count_restart(frame: Frame, routed: Outcome | None) -> str | None:
    """Count the failure that a loop restart follows; why the restart is refused, None if it may happen."""
    if routed is None or routed.status != "fail" or routed.failure is None or routed.failure.failure_signature is None:
        return None
    signature = routed.failure.failure_signature
    count = frame.restart_signatures.get(signature, 0) + 1
    frame.restart_signatures[signature] = count
    limit = frame.graph.workflow.loop_restart_signature_limit
    if 0 < limit <= count:
        again = f"the loop was restarted {count - 1} times after the same failure"
        return f"{again} (`loop_restart_signature_limit={limit}`): {routed.failure.message}"
    return None
