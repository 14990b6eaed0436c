"""What the engine needs from the world, as protocols: `arc.runs` and `arc.workspace` implement them, tests use small real ones.

Threads: everything here is called on the event loop's thread; implementations move blocking work to threads themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from arc.agent.protocol import Backend
from arc.base.clock import Clock
from arc.base.json import JsonObject, JsonValue
from arc.sandbox.protocol import Sandbox, Stream
from arc.workflow.engine.threads import ThreadStore
from arc.workflow.model import Node, Workflow
from arc.workflow.outcome import Outcome, Status
from arc.workflow.state import RunState
from arc.workspace.protocol import Workspace


@dataclass(frozen=True)
class Event:
    """One line of events.jsonl before the writer adds time, run id and sequence. `name` is a stable dotted name (docs/events.md)."""

    name: str
    node: str | None = None
    ordinal: int | None = None
    properties: JsonObject = field(default_factory=dict)


class EventSink(Protocol):
    """Receives every event of the run, in order. Must not block and must not raise."""

    def emit(self, event: Event) -> None: ...


class NodeLog(Protocol):
    """The folder `nodes/{ordinal}-{node_id}/` of one execution. Text is redacted before it is written."""

    @property
    def directory(self) -> Path: ...

    def prompt(self, text: str) -> None: ...
    def response(self, text: str) -> None: ...
    def output(self, stream: Stream, data: bytes) -> None:
        """Append to stdout or stderr; called as output arrives."""
        ...

    def status(self, record: JsonObject) -> None:
        """Replace status.json (atomically)."""
        ...

    def close(self) -> None: ...


class NodeLogs(Protocol):
    """Opens the log of an execution; `path` is the node's path, `ordinal` is unique in the run."""

    def open(self, ordinal: int, path: str) -> NodeLog: ...


@dataclass(frozen=True)
class Completed:
    """Which execution a checkpoint is taken after: `frame` is the prefix of the frame it belongs to."""

    frame: str
    node_id: str
    path: str
    ordinal: int
    status: Status
    workspace: Workspace


@dataclass(frozen=True)
class CheckpointReceipt:
    """The commit that now holds the files (None: no Git, or the commit failed; a notice has said why), and what changed in it: names (not
    more than an outcome holds) and number of the paths."""

    commit: str | None
    files_touched: tuple[str, ...] = ()
    files_touched_count: int = 0


class Checkpoints(Protocol):
    """Makes a checkpoint durable. Called once after every completed node of every frame, one call at a time."""

    async def save(self, state: RunState, completed: Completed) -> CheckpointReceipt:
        """The four-step cycle of the seed. Raises only if step 1 (the disk) fails: then the run stops, nothing is reported as saved."""
        ...


@dataclass(frozen=True)
class Choice:
    """One answer to a question: accelerator key (upper case), label without it, target node."""

    key: str
    label: str
    target: str


@dataclass(frozen=True)
class Question:
    """A human gate's question. `id` is `{ordinal}`; `freeform` = any text is accepted too; `default` = the label taken on timeout."""

    id: str
    node: str
    text: str
    choices: tuple[Choice, ...]
    freeform: bool
    default: str | None
    timeout: float | None


@dataclass(frozen=True)
class Answer:
    """What the person said, and through which door (`console`, `file`, `queue`, `auto`)."""

    text: str
    source: str


class Interviewer(Protocol):
    """Asks a person. Cancellable. Raises `InterviewError` when nobody can be asked (no terminal and no other door)."""

    async def ask(self, question: Question) -> Answer: ...

    def reject(self, question: Question, answer: Answer, reason: str) -> None:
        """Say that an answer matched nothing; the handler asks again."""
        ...


class Hooks(Protocol):
    """The run configuration's commands around nodes."""

    async def before_node(self, node: Node, path: str, ordinal: int, sandbox: Sandbox, context: Mapping[str, JsonValue]) -> HookVerdict: ...
    async def after_node(self, node: Node, path: str, ordinal: int, sandbox: Sandbox, outcome: Outcome) -> None: ...


@dataclass(frozen=True)
class HookVerdict:
    """proceed: run the node; skip: it counts as skipped (and gets a checkpoint); block: it fails, with `reason`."""

    decision: Literal["proceed", "skip", "block"] = "proceed"
    reason: str = ""


@dataclass(frozen=True)
class Services:
    """The world of one run, handed to the engine and to every handler."""

    run_id: str
    clock: Clock
    events: EventSink
    logs: NodeLogs
    checkpoints: Checkpoints
    interviewer: Interviewer
    hooks: Hooks
    backends: Mapping[str, Backend]
    default_backend: str | None
    dry_run: bool = False
    seed: int = 0
    """Seeds `selection=random` and retry jitter."""


@dataclass(frozen=True)
class NodeCall:
    """One attempt at one execution of a node, as a handler sees it."""

    node: Node
    path: str
    ordinal: int
    visit: int
    attempt: int
    workflow: Workflow
    context: Mapping[str, JsonValue]
    """Read-only snapshot; return changes as `Outcome.context_updates`."""
    preamble: str
    thread: str | None
    workspace: Workspace
    sandbox: Sandbox
    log: NodeLog
    services: Services
    threads: ThreadStore = field(default_factory=ThreadStore)
    """What was said in this process: an agent handler reads `history(call.thread)` and appends its exchange when it is done."""

    def emit(self, name: str, properties: JsonObject | None = None) -> None:
        """Emit an event of this node."""
        self.services.events.emit(Event(name, self.path, self.ordinal, properties or {}))


class Handler(Protocol):
    """What a node type does. Return an Outcome; raise `ArcError` subclasses with a failure class for typed failures.

    Called on the event loop: await what is slow, or use `asyncio.to_thread`. Cancellation arrives as `asyncio.CancelledError`;
    do not swallow it.
    """

    async def run(self, call: NodeCall) -> Outcome: ...
