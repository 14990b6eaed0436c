"""Run a workflow from its start, or go on from a state: the entry of the engine, the watchdog, and how a run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from arc.base.errors import CorruptError
from arc.workflow.engine.activity import Activity, Stalled
from arc.workflow.engine.child import initial_context, run_child
from arc.workflow.engine.doors import Services
from arc.workflow.engine.event_names import RUN_CANCELED, RUN_COMPLETED, RUN_FAILED, RUN_RESUMED, RUN_STARTED, STALL_TIMEOUT
from arc.workflow.engine.fan_in import run_fan_in
from arc.workflow.engine.frame import Frame
from arc.workflow.engine.graph import Graph
from arc.workflow.engine.parallel import run_parallel
from arc.workflow.engine.reopen import reopen_failed
from arc.workflow.engine.scope import BlockRunner, Handlers, Scope, StateNotKept, watched
from arc.workflow.engine.walk import walk
from arc.workflow.model import Workflow
from arc.workflow.state import RunState
from arc.workspace.protocol import Workspace

BLOCKS: Mapping[str, BlockRunner] = {"parallel": run_parallel, "parallel.fan_in": run_fan_in, "stack.manager_loop": run_child}
"""Node types whose runners live in the engine because they walk frames."""


async def run_workflow(
    workflow: Workflow, workspace: Workspace, services: Services, handlers: Handlers, *, resume: RunState | None = None
) -> RunState:
    """Walk the workflow until it ends; returns the final state (status success, partial_success or fail).

    With `resume` it goes on where that state stands, inside open blocks too; if the state is a failed run's, the failed node is executed
    again (same visit, new ordinal). A run stopped by the watchdog is returned as failed and can be resumed like an interrupted one.

    Raises:
        CorruptError: the state does not fit the workflow.
        CancelledError: cancelled from outside; every frame has been cancelled and closed, `run.canceled` was emitted.
        Exception: whatever `services.checkpoints.save` raised: the state could not be kept, so the run stopped; `run.failed` was emitted.
    """
    scope = _open(workflow, workspace, services, handlers, resume)
    before = scope.services.clock.monotonic()
    try:
        stalled = await _walk_watched(scope)
    except asyncio.CancelledError:
        scope.emit(RUN_CANCELED, duration_ms=_since(scope, before))
        raise
    except StateNotKept as error:
        scope.emit(RUN_FAILED, reason=f"the state could not be kept: {error}", duration_ms=_since(scope, before))
        raise error.cause from None
    except Exception as error:
        scope.emit(RUN_FAILED, reason=str(error), duration_ms=_since(scope, before))
        raise
    state = scope.snapshot()
    if stalled is not None:
        scope.emit(STALL_TIMEOUT, idle_ms=int(stalled.idle * 1000), limit_ms=int(stalled.limit * 1000))
        state = replace(state, status="fail", failure=str(stalled))
    if state.status == "fail":
        scope.emit(RUN_FAILED, reason=state.failure, duration_ms=_since(scope, before))
    else:
        scope.emit(RUN_COMPLETED, status=state.status, duration_ms=_since(scope, before))
    return state


async def _walk_watched(scope: Scope) -> Stalled | None:
    """Walk the root frame with the watchdog beside it; returns the watchdog's finding if it stopped the walk."""
    limit = scope.workflow.stall_timeout_ms / 1000
    try:
        async with asyncio.TaskGroup() as group:
            watchdog = group.create_task(scope.activity.watch(limit)) if limit > 0 else None
            await walk(scope, scope.root)
            if watchdog is not None:
                watchdog.cancel()
    except BaseExceptionGroup as errors:
        first = _first(errors)
        if isinstance(first, Stalled):
            return first
        raise first from None
    return None


def _first(error: BaseException) -> BaseException:
    """The first real error inside nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _open(workflow: Workflow, workspace: Workspace, services: Services, handlers: Handlers, resume: RunState | None) -> Scope:
    """The scope of this process's part of the run, with the root frame standing before its next node."""
    activity = Activity(services.clock)
    root = Frame(Graph(workflow), workspace)
    scope = Scope(workflow, watched(services, activity), handlers, BLOCKS, activity, root, started=services.clock.monotonic())
    if resume is None:
        root.next, root.commit = workflow.start, workspace.commit
        root.context = initial_context(workflow)
        scope.emit(RUN_STARTED, workflow=workflow.name, goal=workflow.goal, dry_run=services.dry_run)
        _tell_ignored_retries(scope)
        return scope
    root.restore(resume.root)
    scope.ordinal, scope.next_ordinal, scope.elapsed_before_ms = resume.ordinal, resume.next_ordinal, resume.elapsed_ms
    reopen_failed(scope, root)
    if root.current is None and root.next is None:
        root.next = workflow.start
    _check(root, resume)
    scope.emit(RUN_RESUMED, next_node=root.next, checkpoint=resume.ordinal, was=resume.status)
    return scope


def _check(frame: Frame, state: RunState) -> None:
    if frame.next is not None and frame.next not in frame.graph.nodes:
        raise CorruptError(f"the checkpoint's next node `{frame.next}` is not a node of workflow `{frame.graph.workflow.name}`")


def _tell_ignored_retries(scope: Scope) -> None:
    """Blocks are not retried as a whole: the nodes inside them are."""
    for node in scope.workflow.nodes.values():
        if node.type in scope.blocks and (node.max_retries or node.retry_policy not in (None, "none")):
            message = (
                f"`max_retries` and `retry_policy` of the {node.type} node `{node.id}` have no effect; give them to the nodes inside it"
            )
            scope.notice("warning", "retries_ignored", message, node.id)


def _since(scope: Scope, before: float) -> int:
    return int((scope.services.clock.monotonic() - before) * 1000)
