"""When something last happened in the run, and the watchdog that stops it when nothing does (`stall_timeout`).

Activity is every event of any frame and every piece of output. Known waits (a human's answer, a `wait` node, a pause before a
retry, a checkpoint being written) pause the watchdog. All on the event loop's thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from arc.base.clock import Clock
from arc.base.json import JsonObject
from arc.sandbox.protocol import Stream
from arc.workflow.engine.doors import Answer, Event, EventSink, Interviewer, NodeLog, NodeLogs, Question


class Stalled(Exception):
    """Nothing happened for the limit; seconds."""

    def __init__(self, idle: float, limit: float) -> None:
        super().__init__(f"nothing happened in any branch for {limit:g} seconds (`stall_timeout`)")
        self.idle = idle
        self.limit = limit


class Activity:
    """The time of the last sign of life, and how many known waits are going on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()
        self._pauses = 0

    def note(self) -> None:
        """Something happened."""
        self._last = self._clock.monotonic()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A wait that is meant to be long."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            self.note()

    async def watch(self, limit: float) -> None:
        """Return never; raise `Stalled` once nothing has happened for `limit` seconds."""
        while True:
            idle = 0.0 if self._pauses else self._clock.monotonic() - self._last
            if idle >= limit:
                raise Stalled(idle, limit)
            await self._clock.sleep(limit - idle)


@dataclass(frozen=True)
class WatchedEvents:
    """An event sink that counts as activity."""

    inner: EventSink
    activity: Activity

    def emit(self, event: Event) -> None:
        self.activity.note()
        self.inner.emit(event)


@dataclass(frozen=True)
class WatchedLog:
    """A node log whose output counts as activity."""

    inner: NodeLog
    activity: Activity

    @property
    def directory(self) -> Path:
        return self.inner.directory

    def prompt(self, text: str) -> None:
        self.activity.note()
        self.inner.prompt(text)

    def response(self, text: str) -> None:
        self.activity.note()
        self.inner.response(text)

    def output(self, stream: Stream, data: bytes) -> None:
        self.activity.note()
        self.inner.output(stream, data)

    def status(self, record: JsonObject) -> None:
        self.inner.status(record)

    def close(self) -> None:
        self.inner.close()


@dataclass(frozen=True)
class WatchedLogs:
    """Opens watched logs."""

    inner: NodeLogs
    activity: Activity

    def open(self, ordinal: int, path: str) -> NodeLog:
        return WatchedLog(self.inner.open(ordinal, path), self.activity)


@dataclass(frozen=True)
class WatchedInterviewer:
    """An interviewer whose questions pause the watchdog: a person may take their time."""

    inner: Interviewer
    activity: Activity

    async def ask(self, question: Question) -> Answer:
        with self.activity.paused():
            return await self.inner.ask(question)

    def reject(self, question: Question, answer: Answer, reason: str) -> None:
        self.activity.note()
        self.inner.reject(question, answer, reason)
