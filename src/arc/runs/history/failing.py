"""What one wants to see first of a run that failed: the execution that failed, the end of what it printed, the checkpoint before it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from arc.runs.events import EventRecord, read_events
from arc.runs.store import RunFolder

_TAIL_BYTES = 16_384


@dataclass(frozen=True)
class FailedExecution:
    """`stream` names the file that `lines` are the end of (`stderr`, or `stdout` where nothing went there); empty if it printed nothing.

    `lines` are at most as many as asked for, `more` says whether there were others before them. `before` is the ordinal of the checkpoint
    that was taken last before it began (0: the start).
    """

    ordinal: int
    path: str
    folder: Path
    before: int
    stream: str = ""
    lines: tuple[str, ...] = ()
    more: bool = False


def last_failure(folder: RunFolder, *, lines: int = 10) -> FailedExecution | None:
    """The last execution that failed and whose node has not succeeded since; None if there is none."""
    found = _failed(read_events(folder.events_file))
    if found is None:
        return None
    ordinal, path, before = found
    logs = folder.node_folder(ordinal, path)
    for stream in ("stderr", "stdout"):
        shown, more = _tail(logs / f"{stream}.log", lines)
        if shown:
            return FailedExecution(ordinal, path, logs, before, stream, shown, more)
    return FailedExecution(ordinal, path, logs, before)


def _failed(events: Iterable[EventRecord]) -> tuple[int, str, int] | None:
    """(ordinal, path, ordinal of the checkpoint before)."""
    failed: dict[str, tuple[int, str, int]] = {}
    saved = 0
    begun: dict[int, int] = {}
    for event in events:
        if event.ordinal is None or event.node is None:
            continue
        if event.event == "node.started":
            begun[event.ordinal] = saved
        elif event.event == "checkpoint.saved":
            saved = event.ordinal
        elif event.event == "node.completed":
            failed.pop(event.node, None)
        elif event.event == "node.failed":
            failed.pop(event.node, None)  # the newest one is the last
            failed[event.node] = (event.ordinal, event.node, begun.get(event.ordinal, saved))
    # a block fails because something in it did: what failed inside says more
    for found in reversed(failed.values()):
        inside = [one for one in failed.values() if one[1].startswith((f"{found[1]}:", f"{found[1]}/"))]
        return inside[-1] if inside else found
    return None


def _tail(file: Path, lines: int) -> tuple[tuple[str, ...], bool]:
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _TAIL_BYTES))
            data = stream.read()
    except OSError:
        return (), False
    found = [line.rstrip() for line in data.decode("utf-8", "replace").split("\n")]
    found = [line for line in found if line]
    return tuple(found[-lines:]), len(found) > lines or size > _TAIL_BYTES
