"""What the handlers' tests share: a call of one node, with a real sandbox over a real directory, and what it logged and emitted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from arc.agent.protocol import Backend
from arc.base.clock import Clock, SystemClock
from arc.base.json import JsonObject, JsonValue
from arc.sandbox.local import LocalSandboxes
from arc.sandbox.protocol import Sandbox, Stream
from arc.workflow.engine.doors import Event, Handler, Interviewer, NodeCall, Services
from arc.workflow.engine.threads import ThreadStore
from arc.workflow.handlers.interviewers import QueueInterviewer
from arc.workflow.handlers.registry import default_registry
from arc.workflow.model import Workflow
from arc.workflow.outcome import Outcome
from arc.workspace.in_place import InPlaceWorkspace
from tests.workflow.engine.support import Hooks, MemoryCheckpoints, Store, workflow

__all__ = ["Bench", "MemoryLog", "workflow"]


@dataclass
class MemoryLog:
    """A node's log in memory, with a real folder."""

    directory: Path
    prompts: list[str] = field(default_factory=list)
    responses: list[str] = field(default_factory=list)
    streams: dict[Stream, bytes] = field(default_factory=lambda: {"stdout": b"", "stderr": b""})

    def prompt(self, text: str) -> None:
        self.prompts.append(text)

    def response(self, text: str) -> None:
        self.responses.append(text)

    def output(self, stream: Stream, data: bytes) -> None:
        self.streams[stream] += data

    def status(self, record: JsonObject) -> None: ...
    def close(self) -> None: ...


class MemoryLogs:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def open(self, ordinal: int, path: str) -> MemoryLog:
        return MemoryLog(self.directory)


@dataclass
class Bench:
    """Calls handlers in `directory` (the worktree) with logs in `logs`; `events` is everything that was emitted."""

    directory: Path
    logs: Path
    backends: Mapping[str, Backend] = field(default_factory=dict)
    default_backend: str | None = None
    interviewer: Interviewer = field(default_factory=lambda: QueueInterviewer([]))
    dry_run: bool = False
    clock: Clock = field(default_factory=SystemClock)
    events: list[Event] = field(default_factory=list)
    threads: ThreadStore = field(default_factory=ThreadStore)

    def __post_init__(self) -> None:
        self.log = MemoryLog(self.logs)

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def named(self, name: str) -> list[JsonObject]:
        """The properties of all events of that name."""
        return [event.properties for event in self.events if event.name == name]

    def services(self) -> Services:
        return Services(
            run_id="01RUN",
            clock=self.clock,
            events=self,
            logs=MemoryLogs(self.logs),
            checkpoints=MemoryCheckpoints(Store()),
            interviewer=self.interviewer,
            hooks=Hooks(),
            backends=self.backends,
            default_backend=self.default_backend,
            dry_run=self.dry_run,
        )

    def call(
        self,
        flow: Workflow,
        node: str,
        sandbox: Sandbox,
        *,
        context: Mapping[str, JsonValue] | None = None,
        visit: int = 1,
        attempt: int = 1,
        preamble: str = "",
        thread: str | None = None,
    ) -> NodeCall:
        return NodeCall(
            node=flow.nodes[node],
            path=node,
            ordinal=7,
            visit=visit,
            attempt=attempt,
            workflow=flow,
            context=context or {},
            preamble=preamble,
            thread=thread,
            workspace=InPlaceWorkspace(self.directory, LocalSandboxes(os.environ), lambda _notice: None),
            sandbox=sandbox,
            log=self.log,
            services=self.services(),
            threads=self.threads,
        )

    def run(
        self,
        text: str,
        node: str = "n",
        *,
        handler: Handler | None = None,
        goal: str | None = None,
        context: Mapping[str, JsonValue] | None = None,
        visit: int = 1,
        attempt: int = 1,
        preamble: str = "",
        thread: str | None = None,
    ) -> Outcome:
        """Call the handler of `node` in the workflow `text` once, in an event loop of its own."""
        flow = workflow(text, goal=goal)
        served = handler or default_registry().get(flow.nodes[node].type)

        async def scenario() -> Outcome:
            sandbox = await LocalSandboxes(os.environ).open(self.directory)
            call = self.call(flow, node, sandbox, context=context, visit=visit, attempt=attempt, preamble=preamble, thread=thread)
            try:
                return await served.run(call)
            finally:
                await sandbox.close()

        return asyncio.run(scenario(), debug=True)
