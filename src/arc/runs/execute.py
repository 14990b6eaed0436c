"""Walks a prepared run to its end and records how it ended: the one way for starts, resumes and forks alike.

Ends: the engine's final state; a cancellation (Ctrl-C, SIGTERM, `arc run cancel`): the run is `canceled` and can be resumed; an error of
the run's own storage: the record says nothing new, so the run is shown as interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from arc.base.clock import rfc3339
from arc.base.errors import ArcError
from arc.base.faults import declare_faults, fault
from arc.runs.answers import FileInterviewer
from arc.runs.backends import Backends
from arc.runs.checkpoints import CheckpointWriter
from arc.runs.errors import RecordWriteError, SetupError
from arc.runs.hooks import ConfiguredHooks
from arc.runs.live import LiveRun
from arc.runs.nodelogs import FolderNodeLogs
from arc.runs.setup import run_setup, setup_needed
from arc.runs.threads import to_end
from arc.runs.workspaces import Opened
from arc.runs.world import RunResult
from arc.workflow.engine.doors import Event, Interviewer, Services
from arc.workflow.engine.run import run_workflow
from arc.workflow.handlers.interviewers import AutoApprove, FirstOf
from arc.workflow.handlers.registry import HandlerRegistry
from arc.workflow.state import RunState
from arc.workspace.notices import Notice
from arc.workspace.protocol import Workspace

_CANCEL_POLL_SECONDS = 1.0

declare_faults(
    {
        "execute.running": "run.json says `running`, no node has begun",
        "end.state": "the engine has returned, no final status is written",
        "end.recorded": "run.json has the final status, the worktree is still there",
        "end.closed": "the worktree was removed or kept, the lease is still held",
    }
)


@dataclass(frozen=True)
class Prepared:
    """Everything that `execute` needs. `state` None = from the start."""

    live: LiveRun
    opened: Opened
    writer: CheckpointWriter
    backends: Backends
    handlers: HandlerRegistry
    state: RunState | None = None


async def execute(prepared: Prepared) -> RunResult:
    """Run it. Closes everything, the lease last, however it ends.

    Raises:
        SetupError: a setup command failed.
        CheckpointWriteError, RecordWriteError: the state could not be kept; the run has stopped and is shown as interrupted.
        CancelledError: cancelled from outside; the run is recorded as canceled.
    """
    live = prepared.live
    try:
        live.update(status="running", failure=None)
        fault("execute.running")
        try:
            state = await _walk(prepared)
        except asyncio.CancelledError:
            await to_end(_record_cancel, live)
            await _close_workspace(live, prepared.opened.workspace, keep=True)
            raise
        except SetupError as error:
            await to_end(_record_end, live, "fail", error.message)
            await _close_workspace(live, prepared.opened.workspace, keep=False)
            raise
        if state is None:
            await to_end(_record_cancel, live)
            kept = await _close_workspace(live, prepared.opened.workspace, keep=True)
            return _result(live, kept)
        fault("end.state")
        await to_end(prepared.writer.finish, state)
        await to_end(_record_end, live, state.status, state.failure)
        fault("end.recorded")
        kept = await _close_workspace(live, prepared.opened.workspace, keep=False)
        fault("end.closed")
        return _result(live, kept)
    finally:
        await _let_go(prepared)


async def _walk(prepared: Prepared) -> RunState | None:
    """Setup, then the engine; None if `arc run cancel` left its request in the run folder."""
    live, opened = prepared.live, prepared.opened
    if setup_needed(live, fresh=opened.fresh):
        await run_setup(live, opened.workspace)
    engine = asyncio.create_task(
        run_workflow(live.workflow, opened.workspace, _services(prepared), prepared.handlers, resume=prepared.state)
    )
    watch = asyncio.create_task(_cancel_requested(live))
    try:
        done, _ = await asyncio.wait({engine, watch}, return_when=asyncio.FIRST_COMPLETED)
        if engine in done:
            return engine.result()
        await _ended(engine)
        return None
    finally:
        watch.cancel()
        await _ended(engine)


async def _ended(task: asyncio.Task[RunState]) -> None:
    """Cancel a task and wait until it has ended; further cancellations of the caller are passed on to it first."""
    interrupted = False
    while not task.done():
        task.cancel()
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            interrupted = True
    if not task.cancelled():
        task.exception()
    if interrupted:
        raise asyncio.CancelledError


async def _cancel_requested(live: LiveRun) -> None:
    """Return when `arc run cancel` on another machine has asked."""
    while not live.folder.cancel_file.exists():
        await live.world.clock.sleep(_CANCEL_POLL_SECONDS)


def _services(prepared: Prepared) -> Services:
    live = prepared.live
    return Services(
        run_id=live.run_id,
        clock=live.world.clock,
        events=live.events,
        logs=FolderNodeLogs(live.folder, live.redactor, live.events),
        checkpoints=prepared.writer,
        interviewer=_interviewer(live),
        hooks=ConfiguredHooks(() if live.record.mode == "dry_run" else live.config.hooks, run_id=live.run_id, events=live.events),
        backends=prepared.backends.by_name,
        default_backend=prepared.backends.default,
        dry_run=live.record.mode == "dry_run",
        seed=int.from_bytes(live.run_id.encode()[-6:], "big"),
    )


def _interviewer(live: LiveRun) -> Interviewer:
    """Auto-approve, or the terminal and the files at once: the first answer counts."""
    if live.config.auto_approve or live.record.mode == "dry_run":
        return AutoApprove()
    files: Interviewer = FileInterviewer(live.folder, live.world.clock, live.events, live.redactor)
    doors: Sequence[Interviewer] = (files,) if live.world.console is None else (live.world.console, files)
    return files if len(doors) == 1 else FirstOf(doors)


def _record_cancel(live: LiveRun) -> None:
    live.folder.cancel_file.unlink(missing_ok=True)
    with suppress(RecordWriteError):  # shown as interrupted then, which is resumed in the same way
        live.update(status="canceled", failure=None)


def _record_end(live: LiveRun, status: str, failure: str | None) -> None:
    live.update(status=status, failure=None if failure is None else live.redactor.text(failure))


async def _close_workspace(live: LiveRun, workspace: Workspace, *, keep: bool) -> Path | None:
    """Close it; the worktree if it is still there afterwards. A failure to remove is told, not raised: the run has ended already."""
    try:
        await workspace.close(keep=keep)
    except (ArcError, OSError) as error:
        live.tell(Notice("warning", "end.worktree_kept", f"the worktree `{live.folder.worktree}` could not be removed: {error}"))
    if live.record.mode != "git" or not (live.folder.worktree / ".git").exists():
        return None
    return live.folder.worktree


def _result(live: LiveRun, kept: Path | None) -> RunResult:
    record = live.record
    status = record.status
    assert status != "created"
    return RunResult(
        run_id=record.run_id,
        status=status,
        logs_dir=live.folder.path,
        run_branch=record.run_branch,
        failure=record.failure,
        kept_worktree=kept,
        notices=tuple(live.events.notices),
    )


async def _let_go(prepared: Prepared) -> None:
    live = prepared.live
    try:
        for backend in prepared.backends.by_name.values():
            await backend.close()
        live.events.emit(Event("run.closed", properties={"status": live.record.status, "at": rfc3339(live.world.clock.now())}))
    finally:
        live.close()
