"""From a completed node to the next position: routing, limits, gates. Changes the frame only; events are returned, not emitted.

Everything that can end a walk is decided here, before the checkpoint of the node that was completed, so the checkpoint already says how
it ended: no edge matches, a node's visits are used up, a failure repeats, a goal gate is unsatisfied.
"""

from __future__ import annotations

from arc.base.bounded import SearchTooLongError
from arc.base.json import JsonObject
from arc.workflow.engine.event_names import EDGE_SELECTED, LOOP_RESTARTED
from arc.workflow.engine.frame import GATE_JUMP, WALK_FAILURE, Frame
from arc.workflow.engine.gates import describe, gate_target, unsatisfied_gates
from arc.workflow.engine.joins import join_of
from arc.workflow.engine.limits import count_restart, count_signature, visit_refusal
from arc.workflow.engine.routing import Chosen, Situation, Stuck, after_block, choose
from arc.workflow.model import Node
from arc.workflow.outcome import Outcome

Told = list[tuple[str, JsonObject]]
"""Events to emit for the node: name and properties."""


def advance(frame: Frame, node: Node, outcome: Outcome, told: Told, *, seed: str, dry_run: bool) -> None:
    """Set `frame.next` and `frame.incoming` after `node` was recorded, or end the walk; what is to be told is added to `told`."""
    came = frame.incoming
    frame.next, frame.incoming = None, None
    try:
        _move_on(frame, node, outcome, told, seed=seed, dry_run=dry_run)
    except SearchTooLongError as error:  # of a condition: neither true nor false, so there is no way on
        frame.next = None
        frame.fail(f"an edge of node `{node.id}` cannot be judged: {error.message}")
    if frame.next is None and WALK_FAILURE in frame.context:  # by this edge it was entered: fidelity and thread hold if it is run again
        frame.incoming = came


def _move_on(frame: Frame, node: Node, outcome: Outcome, told: Told, *, seed: str, dry_run: bool) -> None:
    repeated = count_signature(frame, node, outcome)
    if repeated is not None:
        frame.fail(repeated)
        return
    if node.id == frame.graph.workflow.exit:
        if not outcome.succeeded:
            frame.fail(f"the exit node `{node.id}` failed" + (f": {outcome.failure.message}" if outcome.failure else ""))
        return
    routed = (frame.last_outcome or outcome) if node.type == "conditional" and outcome.succeeded else outcome
    situation = Situation(node, outcome, routed, frame.context, frame.stops, frame.allowed, seed)
    found = (
        after_block(frame.graph, situation, join_of(frame.graph, node.id)) if node.type == "parallel" else choose(frame.graph, situation)
    )
    if isinstance(found, Stuck):
        if not (found.dead_end and frame.parent is not None and outcome.succeeded):  # a branch may simply end
            frame.fail(found.reason)
        return
    told += _enter(frame, found, routed, dry_run)


def go_to_exit(frame: Frame, *, dry_run: bool) -> Told:
    """Decide again about a walk that stands before the exit with unsatisfied gates (a failed run that is resumed).

    Without a retry target the first unsatisfied gate that has been executed runs again.
    """
    workflow = frame.graph.workflow
    frame.context.pop(GATE_JUMP, None)
    gates = unsatisfied_gates(workflow, frame.outcomes)
    again = next((gate for gate in gates if gate.id in frame.outcomes and gate_target(workflow, gate) is None), None)
    if again is not None:
        frame.next, frame.incoming = again.id, None
        return [(EDGE_SELECTED, {"target": again.id, "why": "goal_gate"})]
    return _enter(frame, Chosen(workflow.exit, frame.incoming, "unconditional"), frame.last_outcome, dry_run)


def _enter(frame: Frame, found: Chosen, routed: Outcome | None, dry_run: bool) -> Told:
    """Go to the chosen node unless something forbids it; the exit is only reached past the goal gates."""
    told: Told = [_selected(found)]
    if found.target in frame.enclosing:
        frame.fail(f"a branch of the parallel block `{found.target}` must not lead back into that block")
        return told
    if found.edge is not None and found.edge.loop_restart:
        refused = count_restart(frame, routed)
        if refused is not None:
            frame.fail(refused)
            return told
        frame.restart()
        told.append((LOOP_RESTARTED, {"target": found.target}))
    frame.next, frame.incoming = found.target, found.edge
    if found.target == frame.graph.workflow.exit and not frame.stops:
        told += _pass_gates(frame)
    if frame.next in frame.stops or frame.end() is not None:
        return told
    refused = visit_refusal(frame, frame.graph.nodes[frame.next], dry_run=dry_run)
    if refused is not None:
        frame.fail(refused)
    return told


def _pass_gates(frame: Frame) -> Told:
    """Stay before the exit if every gate is satisfied; else jump, or end the walk with `next` still the exit."""
    workflow = frame.graph.workflow
    gates = unsatisfied_gates(workflow, frame.outcomes)
    if not gates:
        frame.context.pop(GATE_JUMP, None)
        return []
    why = f"the exit was reached with unsatisfied goal gates: {describe(gates, frame.outcomes)}"
    gate = next((gate for gate in gates if gate_target(workflow, gate) is not None), None)
    target = None if gate is None else gate_target(workflow, gate)
    if gate is None or target is None:
        frame.fail(f"{why}; none has a `retry_target`")
        return []
    mark = f"{gate.id}@{frame.visits.get(gate.id, 0)}"
    if frame.context.get(GATE_JUMP) == mark:
        frame.fail(f"{why}; the walk already went back to `{target}` for `{gate.id}`, and came here without executing that gate")
        return []
    frame.context[GATE_JUMP] = mark
    frame.next, frame.incoming = target, None
    return [_selected(Chosen(target, None, "goal_gate"))]


def _selected(found: Chosen) -> tuple[str, JsonObject]:
    properties: JsonObject = {"target": found.target, "why": found.why}
    if found.edge is not None:
        condition = found.edge.condition.text if found.edge.condition else None
        properties.update(edge=found.edge.index, label=found.edge.label, condition=condition)
    return EDGE_SELECTED, properties
