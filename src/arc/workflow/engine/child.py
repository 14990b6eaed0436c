"""Child workflows (`stack.manager_loop`): walked as a frame in the same workspace, checkpointed node by node.

A cycle is one complete walk of the child. Without a stop condition one cycle is all; with one, cycles are repeated (with
`manager.poll_interval` between them) until the condition is true of the child's end and context, or `manager.max_cycles` are used up,
which is a failure. The child starts with a copy of the context (its own graph's attributes as `graph.*`), visits and outcomes start
afresh in every cycle; what it changed comes back into the context and is there in the next cycle. A resume goes on inside the child, also
after the child has failed.
"""

from __future__ import annotations

from dataclasses import replace

from arc.base.json import JsonObject, JsonValue
from arc.workflow.engine.doors import NodeCall
from arc.workflow.engine.event_names import CHILD_COMPLETED, CHILD_STARTED
from arc.workflow.engine.frame import Block, Frame, WalkEnd, copy_object, differences, failed
from arc.workflow.engine.graph import Graph
from arc.workflow.engine.reopen import reopen_failed
from arc.workflow.engine.scope import Scope
from arc.workflow.engine.walk import walk
from arc.workflow.language.conditions import Facts
from arc.workflow.model import Node, Workflow
from arc.workflow.outcome import Failure, Outcome
from arc.workflow.values import Duration, Value


def initial_context(workflow: Workflow) -> JsonObject:
    """The graph's attributes as `graph.<name>` (the goal also where only the command line gave it), the run's inputs as `input.<name>`."""
    context: JsonObject = {f"graph.{name}": _plain(value) for name, value in workflow.attributes.items()}
    context["graph.goal"] = workflow.goal
    context.update({f"input.{name}": value for name, value in workflow.inputs.items()})
    return context


async def run_child(scope: Scope, frame: Frame, node: Node, call: NodeCall) -> Outcome:
    """Run the child's cycles."""
    if node.child is None:
        return failed(f"node `{call.path}` has no child workflow", "structural")
    graph = Graph(node.child)
    opened, frame.opened = frame.opened, None
    cycle, child = 1, _child_frame(frame, node, graph, {})
    if opened is not None and opened.child is not None:
        cycle = max(opened.cycle, 1)
        child.restore(opened.child)
    if frame.reopening:
        frame.reopening = False
        reopen_failed(scope, child)
    ordinal, execution = (opened.ordinal, opened.execution) if opened is not None else (call.ordinal, None)
    frame.block = Block("child", node.id, ordinal, child=child, cycle=cycle, execution=execution)
    while True:
        scope.emit(CHILD_STARTED, call.path, call.ordinal, workflow=node.child.name, cycle=cycle)
        end = await walk(scope, child)
        scope.emit(CHILD_COMPLETED, call.path, call.ordinal, workflow=node.child.name, cycle=cycle, status=end.status, reason=end.reason)
        changes = differences(frame.context, child.context)
        if node.stop_condition is None or node.stop_condition.evaluate(_facts(child, end)):
            return _outcome(node, child, end, changes)
        if cycle >= node.max_cycles:
            message = f"node `{call.path}`: `manager.stop_condition` was not met in {cycle} cycles (`manager.max_cycles={node.max_cycles}`)"
            return replace(failed(message), context_updates=changes)
        with scope.activity.paused():
            await scope.services.clock.sleep(node.poll_interval_ms / 1000)
        cycle, child = cycle + 1, _child_frame(frame, node, graph, changes)
        frame.block = Block("child", node.id, ordinal, child=child, cycle=cycle, execution=execution)


def _child_frame(frame: Frame, node: Node, graph: Graph, changes: JsonObject) -> Frame:
    inherited = {key: value for key, value in frame.context.items() if not key.startswith(("graph.", "internal."))}
    context = {**copy_object(inherited), **copy_object(changes), **initial_context(graph.workflow)}
    return Frame(
        graph,
        frame.workspace,
        prefix=f"{frame.prefix}{node.id}/",
        host=frame,
        next=graph.workflow.start,
        context=context,
        commit=frame.commit,
        fresh=True,
    )


def _facts(child: Frame, end: WalkEnd) -> Facts:
    label = child.context.get("preferred_label")
    return Facts(end.status, label if isinstance(label, str) else "", child.context)


def _outcome(node: Node, child: Frame, end: WalkEnd, changes: JsonObject) -> Outcome:
    if end.status != "fail":
        return Outcome(end.status, context_updates=changes)
    last = child.last_outcome
    kind = last.failure.failure_class if last is not None and last.failure is not None else "deterministic"
    return Outcome("fail", context_updates=changes, failure=Failure(f"the child workflow of `{node.id}` failed: {end.reason}", kind))


def _plain(value: Value) -> JsonValue:
    return str(value) if isinstance(value, Duration) else value
