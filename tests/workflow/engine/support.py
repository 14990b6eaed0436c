"""What the engine's tests share: workflows from DOT text, a clock that jumps, scripted handlers, a workspace and checkpoints in memory.

Nothing here knows how the engine works inside: the doors are implemented with small real ones. `Bench` is one run's world: its files live
in `Store` (commits and refs), its checkpoints are JSON texts; `Bench.run(resume=...)` is what a new process would do.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from arc.base.json import JsonObject, JsonValue, decode, encode
from arc.sandbox.protocol import Command, CommandResult, OutputSink, Sandbox, Stream
from arc.workflow.engine.doors import (
    Answer,
    CheckpointReceipt,
    Completed,
    Event,
    Handler,
    HookVerdict,
    NodeCall,
    NodeLog,
    Question,
    Services,
)
from arc.workflow.engine.run import run_workflow
from arc.workflow.language.parser import parse_dot
from arc.workflow.language.resolve import ResolveInputs, resolve
from arc.workflow.language.sources import StoredSources
from arc.workflow.model import Node, Workflow
from arc.workflow.outcome import Failure, FailureClass, Outcome
from arc.workflow.state import FrameState, RunState
from arc.workspace.protocol import BranchConflict, MergeInput, MergeReport, Workspace

Files = dict[str, str]
Step = Callable[[NodeCall], "Outcome | Awaitable[Outcome]"]


def workflow(text: str, *, children: Mapping[str, str] | None = None, goal: str | None = None, **changes: Any) -> Workflow:
    """A workflow from the inside of a digraph; `start` and `exit` are there already, the watchdog is off unless the text sets it."""
    source = f"digraph test {{\n stall_timeout=0s\n start [shape=Mdiamond]\n exit [shape=Msquare]\n{text}\n}}"
    found, diagnostics = resolve(parse_dot(source, "test.dot"), StoredSources(dict(children or {})), ResolveInputs(goal, {}))
    assert found is not None, [str(d.message) for d in diagnostics if d.severity == "error"]
    return replace(found, **changes)


def fail(message: str = "it broke", failure_class: FailureClass = "deterministic", **more: Any) -> Outcome:
    """A failed outcome."""
    return Outcome("fail", failure=Failure(message, failure_class), **more)


def ok(**more: Any) -> Outcome:
    """A successful outcome."""
    return Outcome("success", **more)


class JumpingClock:
    """A clock that stands still while anything can run and jumps to the next wake-up when nothing can."""

    def __init__(self) -> None:
        self._now = 0.0
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._driver: asyncio.Task[None] | None = None
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self._now)

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self._now + seconds, next(self._numbers), future))
        if self._driver is None or self._driver.done():
            self._driver = asyncio.create_task(self._drive())
        await future

    async def _drive(self) -> None:
        loop: Any = asyncio.get_running_loop()
        while self._waiting:
            idle = 0
            while idle < 3:
                await asyncio.sleep(0)
                idle = 0 if loop._ready else idle + 1
            moment, _, future = heapq.heappop(self._waiting)
            if not future.done():
                self._now = max(self._now, moment)
                future.set_result(None)


@dataclass
class Store:
    """Commits and refs that outlive a crash."""

    commits: dict[str, Files] = field(default_factory=lambda: {"c0": {}})
    refs: dict[str, str] = field(default_factory=lambda: {"arc/run/test": "c0"})
    aside: list[tuple[str, Files]] = field(default_factory=list)

    def commit(self, ref: str, files: Files) -> str:
        name = f"c{len(self.commits)}"
        self.commits[name] = dict(files)
        self.refs[ref] = name
        return name


class NoSandbox:
    """The engine hands a sandbox on; these tests' handlers run nothing in it."""

    directory = "/nowhere"

    async def run(self, command: Command, output: OutputSink) -> CommandResult:
        raise AssertionError("not used")

    async def read(self, path: str) -> bytes:
        raise AssertionError("not used")

    async def write(self, path: str, data: bytes) -> None:
        raise AssertionError("not used")

    async def upload(self, local: Path, path: str) -> None:
        raise AssertionError("not used")

    async def download(self, path: str, local: Path) -> None:
        raise AssertionError("not used")

    async def close(self) -> None: ...


class MemoryWorkspace:
    """Files in memory with commits, forks, three-way merges by whole file. What is not committed is lost with the object: a crash."""

    isolated = True

    def __init__(self, store: Store, ref: str) -> None:
        self.store = store
        self.ref: str | None = ref
        self.files: Files = dict(store.commits[store.refs[ref]])
        self.closed = False

    @property
    def directory(self) -> Path:
        return Path("/nowhere")

    @property
    def commit(self) -> str | None:
        return self.store.refs[self.ref or ""]

    async def sandbox(self) -> Sandbox:
        return NoSandbox()

    async def fork(self, ordinal: int, node_id: str, key: str) -> Workspace:
        await asyncio.sleep(0)
        ref = f"{self.ref}/{ordinal}-{node_id}/{key}"
        self.store.refs.setdefault(ref, self.commit or "")
        return MemoryWorkspace(self.store, ref)

    async def merge(self, branches: Sequence[MergeInput]) -> MergeReport:
        merged, conflicts = [], []
        for branch in branches:
            base, theirs = self.store.commits[branch.base], self.store.commits[branch.commit]
            changed = {path for path in base.keys() | theirs.keys() if base.get(path) != theirs.get(path)}
            clashes = tuple(sorted(p for p in changed if self.files.get(p) not in (base.get(p), theirs.get(p))))
            if clashes:
                conflicts.append(BranchConflict(branch.key, branch.ref, clashes))
                continue
            for path in changed:
                if path in theirs:
                    self.files[path] = theirs[path]
                else:
                    self.files.pop(path, None)
            merged.append(branch.key)
        return MergeReport(tuple(merged), tuple(conflicts))

    async def close(self, *, keep: bool = False) -> None:
        if not self.closed and self.files != self.store.commits[self.commit or ""]:
            self.store.aside.append((self.ref or "", dict(self.files)))
        self.closed = True


def place_commit(frame: FrameState, prefix: str, commit: str) -> FrameState:
    """The frame with `commit` noted in the frame `prefix` inside it, and in those whose files a child there shares."""
    if frame.prefix == prefix:
        return replace(frame, git_commit_sha=commit)
    block = frame.open_block
    if block is None or not prefix.startswith(frame.prefix):
        return frame
    if block.child is not None:
        child = place_commit(block.child, prefix, commit)
        shared = commit if child.git_commit_sha == commit else frame.git_commit_sha
        return replace(frame, git_commit_sha=shared, open_block=replace(block, child=child))
    branches = tuple(replace(branch, frame=place_commit(branch.frame, prefix, commit)) for branch in block.branches)
    return replace(frame, open_block=replace(block, branches=branches))


class Crash(Exception):
    """The process dies here, as far as a test can tell: raised out of `save` after the checkpoint was kept."""


@dataclass
class MemoryCheckpoints:
    """Keeps every state as JSON, commits the files of the frame that moved; dies after the save number `crash_after`."""

    store: Store
    saved: list[bytes] = field(default_factory=list)
    completed: list[Completed] = field(default_factory=list)
    crash_after: int | None = None
    failing: Exception | None = None
    busy: bool = False

    async def save(self, state: RunState, completed: Completed) -> CheckpointReceipt:
        assert not self.busy, "one call at a time"
        self.busy = True
        await asyncio.sleep(0)
        if self.failing is not None:
            self.busy = False
            raise self.failing
        assert isinstance(completed.workspace, MemoryWorkspace)
        commit = self.store.commit(completed.workspace.ref or "", completed.workspace.files)
        self.saved.append(encode(replace(state, root=place_commit(state.root, completed.frame, commit))))
        self.completed.append(completed)
        self.busy = False
        if self.crash_after is not None and len(self.saved) > self.crash_after:
            raise Crash
        return CheckpointReceipt(commit)

    def state(self, index: int = -1) -> RunState:
        """A saved state, read back from its JSON."""
        return decode(self.saved[index], RunState, "saved")


@dataclass
class MemoryLog:
    """A node's log."""

    path: str
    ordinal: int
    records: list[JsonObject] = field(default_factory=list)
    stderr: bytes = b""
    closed: bool = False

    @property
    def directory(self) -> Path:
        return Path("/nowhere")

    def prompt(self, text: str) -> None: ...

    def response(self, text: str) -> None: ...

    def output(self, stream: Stream, data: bytes) -> None:
        if stream == "stderr":
            self.stderr += data

    def status(self, record: JsonObject) -> None:
        self.records.append(record)

    def close(self) -> None:
        self.closed = True


@dataclass
class Hooks:
    """Hooks by node id."""

    verdicts: dict[str, HookVerdict] = field(default_factory=dict)
    after: list[tuple[str, str]] = field(default_factory=list)

    async def before_node(self, node: Node, path: str, ordinal: int, sandbox: Sandbox, context: Mapping[str, JsonValue]) -> HookVerdict:
        return self.verdicts.get(node.id, HookVerdict())

    async def after_node(self, node: Node, path: str, ordinal: int, sandbox: Sandbox, outcome: Outcome) -> None:
        self.after.append((path, outcome.status))


class Nobody:
    """An interviewer who answers after a long time."""

    def __init__(self, clock: JumpingClock) -> None:
        self.clock = clock

    async def ask(self, question: Question) -> Answer:
        await self.clock.sleep(7200)
        return Answer("yes", "queue")

    def reject(self, question: Question, answer: Answer, reason: str) -> None: ...


@dataclass(frozen=True)
class ScriptedHandler:
    """Asks the bench's script what the node does."""

    bench: Bench

    async def run(self, call: NodeCall) -> Outcome:
        self.bench.executed.append(call.path)
        self.bench.calls.append(call)
        step = self.bench.script.get(call.path, self.bench.script.get(call.node.id))
        if step is None:
            return ok()
        if isinstance(step, Outcome):
            return step
        if isinstance(step, list):
            return step[min(call.visit, len(step)) - 1]
        result = step(call)
        return result if isinstance(result, Outcome) else await result


@dataclass
class Bench:
    """One run's world.

    `script` maps a node's path or id to an outcome, a list (by visit, the last one repeated) or a function of the call.
    """

    flow: Workflow
    script: Mapping[str, Outcome | list[Outcome] | Step] = field(default_factory=dict)
    dry_run: bool = False
    store: Store = field(default_factory=Store)
    clock: JumpingClock = field(default_factory=JumpingClock)
    hooks: Hooks = field(default_factory=Hooks)
    events: list[Event] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    calls: list[NodeCall] = field(default_factory=list)
    logs: list[MemoryLog] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.checkpoints = MemoryCheckpoints(self.store)

    def emit(self, event: Event) -> None:
        encode(event.properties)
        self.events.append(event)

    def open(self, ordinal: int, path: str) -> NodeLog:
        self.logs.append(MemoryLog(path, ordinal))
        return self.logs[-1]

    def get(self, type: str) -> Handler:
        return ScriptedHandler(self)

    async def go(self, resume: RunState | None = None) -> RunState:
        """What one process does: a fresh workspace on the run's branch, then the engine."""
        workspace = MemoryWorkspace(self.store, "arc/run/test")
        services = Services(
            run_id="01TEST",
            clock=self.clock,
            events=self,
            logs=self,
            checkpoints=self.checkpoints,
            interviewer=Nobody(self.clock),
            hooks=self.hooks,
            backends={},
            default_backend=None,
            dry_run=self.dry_run,
            seed=7,
        )
        return await run_workflow(self.flow, workspace, services, self, resume=resume)

    def run(self, resume: RunState | None = None) -> RunState:
        return asyncio.run(self.go(resume))

    async def reached(self, path: str) -> None:
        """Wait until the node has begun."""
        for _ in range(10_000):
            if path in self.executed:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{path} was not reached: {self.executed}")

    def names(self) -> list[str]:
        return [event.name for event in self.events]

    def told(self, name: str) -> list[JsonObject]:
        """Properties of the events of that name."""
        return [event.properties for event in self.events if event.name == name]

    def files(self) -> Files:
        """The files of the run branch's last checkpoint."""
        return self.store.commits[self.store.refs["arc/run/test"]]


def edit(path: str, text: str, **more: Any) -> Step:
    """A step that writes a file."""

    def step(call: NodeCall) -> Outcome:
        assert isinstance(call.workspace, MemoryWorkspace)
        call.workspace.files[path] = text
        return ok(**more)

    return step


def forever(call: NodeCall) -> Awaitable[Outcome]:
    """A step that never ends by itself."""

    async def wait() -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    return wait()


def frame_of(state: RunState, prefix: str) -> FrameState:
    """The frame with that prefix inside a state."""
    waiting = [state.root]
    while waiting:
        frame = waiting.pop()
        if frame.prefix == prefix:
            return frame
        if frame.open_block is not None:
            waiting.extend(branch.frame for branch in frame.open_block.branches)
            if frame.open_block.child is not None:
                waiting.append(frame.open_block.child)
    raise AssertionError(f"no frame {prefix!r}")
