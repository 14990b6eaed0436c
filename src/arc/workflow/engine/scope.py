"""What all frames of one run share: the root, the counters, the services, and the one lock under which checkpoints are taken.

Threads: everything runs on the event loop's thread. `checkpoint` is the only place where frames move on; it holds the lock from the
change of the frame to the writer's receipt, so a state never shows a node as completed whose files another frame's checkpoint did not
wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from arc.base.json import JsonValue
from arc.workflow.engine.activity import Activity, WatchedEvents, WatchedInterviewer, WatchedLogs
from arc.workflow.engine.doors import Completed, Event, Handler, NodeCall, Services
from arc.workflow.engine.event_names import RUN_NOTICE
from arc.workflow.engine.frame import Execution, Frame
from arc.workflow.model import Node, Workflow
from arc.workflow.outcome import Outcome
from arc.workflow.state import RunState, RunStatus

T = TypeVar("T")


class StateNotKept(BaseException):
    """A checkpoint could not be made durable: the run stops. Not an `Exception`, so that no node runner takes it for a node's failure."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Handlers(Protocol):
    """The registry, as far as the engine asks it. `get` raises an `ArcError` for a type that nobody handles."""

    def get(self, type: str) -> Handler: ...


class BlockRunner(Protocol):
    """Runs a node that walks frames itself (parallel, child) or reads other frames' results (fan-in)."""

    async def __call__(self, scope: Scope, frame: Frame, node: Node, call: NodeCall) -> Outcome: ...


@dataclass
class Scope:
    """One run of the engine, over one process's life."""

    workflow: Workflow
    services: Services
    handlers: Handlers
    blocks: Mapping[str, BlockRunner]
    activity: Activity
    root: Frame
    ordinal: int = 0
    next_ordinal: int = 1
    elapsed_before_ms: int = 0
    started: float = 0.0
    broken: Exception | None = None
    """Why a checkpoint could not be kept; no further one is taken then."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def take_ordinal(self) -> int:
        """The ordinal of a new execution; never handed out twice, also not after a crash."""
        ordinal, self.next_ordinal = self.next_ordinal, self.next_ordinal + 1
        return ordinal

    def emit(self, name: str, path: str | None = None, ordinal: int | None = None, **properties: JsonValue) -> None:
        """Emit an event of the run."""
        self.services.events.emit(Event(name, path, ordinal, properties))

    def notice(self, level: str, code: str, message: str, path: str | None = None, ordinal: int | None = None) -> None:
        """Tell a person something."""
        self.emit(RUN_NOTICE, path, ordinal, level=level, code=code, message=message)

    def snapshot(self) -> RunState:
        """The whole state as it is now."""
        end = self.root.end()
        status: RunStatus = "running" if end is None else end.status
        return RunState(
            root=self.root.snapshot(),
            ordinal=self.ordinal,
            next_ordinal=self.next_ordinal,
            status=status,
            failure=end.reason if end is not None and end.status == "fail" else None,
            elapsed_ms=self.elapsed_before_ms + int((self.services.clock.monotonic() - self.started) * 1000),
        )

    async def checkpoint(self, frame: Frame, node: Node, execution: Execution, move: Callable[[], None]) -> None:
        """Record the execution, `move` the frame to its next position, make the whole state durable.

        Once begun it is finished also when the walk is cancelled meanwhile.
        """
        async with self._lock:
            if self.broken is not None:  # a frame has moved on without its files: no later state may be kept
                raise StateNotKept(self.broken)
            await uninterrupted(self._checkpoint(frame, node, execution, move))

    async def _checkpoint(self, frame: Frame, node: Node, execution: Execution, move: Callable[[], None]) -> None:
        self.ordinal = execution.ordinal
        frame.record(node, execution)
        move()
        frame.keep_failed_block()
        completed = Completed(frame.prefix, node.id, frame.path(node.id), execution.ordinal, execution.outcome.status, frame.workspace)
        try:
            with self.activity.paused():
                receipt = await self.services.checkpoints.save(self.snapshot(), completed)
        except Exception as error:
            self.broken = error
            raise StateNotKept(error) from error
        if receipt.commit is not None:
            frame.note_files(node.id, receipt.files_touched, receipt.files_touched_count)
        holder: Frame | None = frame
        while holder is not None and holder.workspace is frame.workspace:  # a child works on its host's files
            holder.commit = receipt.commit if receipt.commit is not None else holder.commit
            holder = holder.host


def watched(services: Services, activity: Activity) -> Services:
    """The services with everything that is a sign of life reporting to the watchdog."""
    return replace(
        services,
        events=WatchedEvents(services.events, activity),
        logs=WatchedLogs(services.logs, activity),
        interviewer=WatchedInterviewer(services.interviewer, activity),
    )


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end; a cancellation that arrives meanwhile is raised afterwards (an error of the work wins)."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    result = task.result()
    if cancelled:
        raise asyncio.CancelledError
    return result
