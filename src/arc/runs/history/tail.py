"""Reading a growing log: the whole lines that came since the last look, whatever was torn, truncated or replaced meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from arc.base.json import JsonObject
from arc.runs.events import TORN, EventRecord
from arc.runs.history.lookup import KnownRun, shown

Ended: TypeAlias = Literal["finished", "interrupted"]
"""Why a follow came to its end: the run finished, or its process is gone."""


class Tail:
    """Follows one file by name. `read` gives what is new; a file that shrank or became another one is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0
        self._file: tuple[int, int] | None = None
        self._rest = b""

    def read(self) -> bytes:
        """All new bytes. A file that is not there (yet) has none."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            stat = os.fstat(descriptor)
            if self._file != (stat.st_dev, stat.st_ino) or stat.st_size < self._place:
                self._file, self._place, self._rest = (stat.st_dev, stat.st_ino), 0, b""
            pieces = []
            while piece := os.pread(descriptor, 1 << 20, self._place):
                pieces.append(piece)
                self._place += len(piece)
        finally:
            os.close(descriptor)
        return b"".join(pieces)

    def lines(self) -> list[bytes]:
        """All lines that are whole by now; an unfinished one waits for its end."""
        *lines, self._rest = (self._rest + self.read()).split(b"\n")
        return lines

    @property
    def unfinished(self) -> bytes:
        """The beginning of a line that has no end yet."""
        return self._rest


def decode_line(line: bytes) -> EventRecord:
    """One line as an event; what is none (a crash tore it) becomes a `log.torn` record with its size and beginning."""
    try:
        return msgspec.json.decode(line, type=EventRecord)
    except msgspec.DecodeError:
        properties: JsonObject = {"bytes": len(line), "begins": line[:60].decode(errors="replace")}
        return EventRecord("", "", 0, TORN, properties=properties)


def follow(run: KnownRun, tail: Tail, *, wait: Callable[[], None]) -> Iterator[list[bytes] | Ended]:
    """New lines as they come, and at last why there will be no more. `wait` pauses between two looks."""
    folder = run.need_folder("following")
    while True:
        # Looked at before the file: what was written until the run ended is then still read.
        record = folder.read_record()
        status = shown(folder, record)
        lines = tail.lines()
        if lines:
            yield lines
        if record.status not in ("created", "running"):
            yield "finished"
            return
        if status in ("interrupted", "superseded"):
            # Between the two looks it may have finished in order: then its record says so, and the next round reads the rest.
            if folder.read_record().status not in ("created", "running"):
                continue
            yield "interrupted"
            return
        wait()
