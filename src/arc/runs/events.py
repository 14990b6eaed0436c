"""`events.jsonl`: the run's events, one JSON line each, appended by one `write`; and reading them back, torn lines and all.

`emit` is called on the event loop's thread and, for notices of the workspace, from worker threads: a lock keeps lines and numbers in order.
Names and properties are listed in docs/events.md.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from arc.base.atomic import AppendLog, read_lines
from arc.base.clock import Clock, rfc3339
from arc.base.json import JsonObject, encode_line
from arc.base.redact import Redactor
from arc.runs.world import EventObserver

if TYPE_CHECKING:
    from arc.workflow.engine.doors import Event

LOG_LIMIT = 100
"""Lines that `logs` of a checkpoint holds: the last ones."""

TORN = "log.torn"
"""Name of the record that `read_events` gives for a line that is not an event (a crash tore it, or something else wrote there)."""


@dataclass(frozen=True)
class EventRecord:
    """One line of events.jsonl. `sequence` counts from 1 over all processes of the run; `ts` is RFC 3339 UTC."""

    ts: str
    run_id: str
    sequence: int
    event: str
    node: str | None = None
    ordinal: int | None = None
    properties: JsonObject = field(default_factory=dict)


class EventLog:
    """Appends events (the engine's `EventSink`). A line that cannot be written is counted, and told when the next one can."""

    def __init__(self, path: Path, *, run_id: str, clock: Clock, redactor: Redactor, observer: EventObserver | None = None) -> None:
        self._run_id = run_id
        self._clock = clock
        self._redactor = redactor
        self._observer = observer
        self._lock = threading.Lock()
        self._sequence = _last_sequence(path)
        self._lost = 0
        self.notices: list[str] = []
        """What this process has told by `run.notice`, in order."""
        self._logs: deque[str] = deque(maxlen=LOG_LIMIT)
        self._log = AppendLog(path)
        if self._log.torn:
            self.emit(notice("warning", "events.torn", f"the last line of `{path.name}` was torn by a crash; it is kept as it is"))

    def emit(self, event: Event) -> None:
        """Write one line and show it to the observer. Never raises for a full or broken disk."""
        with self._lock:
            if self._lost:
                lost, self._lost = self._lost, 0
                self._write(notice("warning", "events.lost", f"{lost} events could not be written to the disk"))
            self._write(event)

    def _write(self, event: Event) -> None:
        self._sequence += 1
        line: JsonObject = {
            "ts": rfc3339(self._clock.now()),
            "run_id": self._run_id,
            "sequence": self._sequence,
            "event": event.name,
            "node": event.node,
            "ordinal": event.ordinal,
            "properties": self._redactor.json(event.properties),
        }
        if event.name == "run.notice" and isinstance(line["properties"], dict):
            message = str(line["properties"].get("message", ""))
            self.notices.append(message)
            self._logs.append(f"{line['ts']} {line['properties'].get('level', 'info')}: {message}")
        try:
            self._log.append(encode_line(line))
        except OSError:
            self._lost += 1
        if self._observer is not None:
            self._observer(line)

    def logs(self) -> tuple[str, ...]:
        """The last notices of this process as lines of a log, `TIME LEVEL: MESSAGE`: a checkpoint carries them to other clones."""
        with self._lock:
            return tuple(self._logs)

    def close(self) -> None:
        """Flush to the disk and close. Idempotent."""
        with self._lock:
            self._log.close()


def notice(level: str, code: str, message: str, details: tuple[str, ...] = (), **properties: str | int | None) -> Event:
    """A `run.notice`: something a person should know, with a stable `code`. `level` is info or warning."""
    extra: JsonObject = {key: value for key, value in properties.items() if value is not None}
    from arc.workflow.engine.doors import Event  # readers of events do not need the engine

    return Event("run.notice", properties={"level": level, "code": code, "message": message, "details": list(details), **extra})


def read_events(path: Path) -> Iterator[EventRecord]:
    """All events in order. What is not an event is given as a `log.torn` record with `line` and `bytes`; reading goes on behind it."""
    lines, torn = read_lines(path)
    for number, line in enumerate(lines, 1):
        try:
            yield msgspec.json.decode(line, type=EventRecord)
        except msgspec.DecodeError:
            if line:
                yield EventRecord("", "", 0, TORN, properties={"line": number, "bytes": len(line)})
    if torn:
        yield EventRecord("", "", 0, TORN, properties={"line": len(lines) + 1})


def _last_sequence(path: Path) -> int:
    """The highest number given so far; after a torn line the count goes on."""
    return max((record.sequence for record in read_events(path)), default=0)
