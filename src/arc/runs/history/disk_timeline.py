"""The timeline as a run folder alone tells it: for runs without Git, and for checkpoints whose commit failed.

Executions come from `events.jsonl`; the last checkpoint from `checkpoint.json`. What an event says completed but no checkpoint ever held
(the process died in between) is not listed: it will run again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from arc.base.errors import CorruptError
from arc.runs.events import EventRecord, read_events
from arc.runs.history.timeline import CheckpointBrief, Timeline, TimelineEntry, start_entry, with_visits
from arc.runs.records import RunRecord
from arc.runs.store import RunFolder

_ENDED = ("node.completed", "node.failed")
_SAVED = ("checkpoint.saved", "checkpoint.failed")
"""The second one says that Git failed: the disk has the checkpoint."""

T = TypeVar("T")


@dataclass(frozen=True)
class _Ended:
    """Properties of the events that end an execution."""

    status: str = "fail"
    attempts: int = 1
    duration_ms: int | None = None


@dataclass(frozen=True)
class _Started:
    visit: int = 0


def disk_timeline(folder: RunFolder, record: RunRecord) -> Timeline:
    """What the folder tells. Raises `CorruptError` if `checkpoint.json` cannot be read; torn event lines are passed over."""
    start = start_entry(folder.run_id, record.created_at, commit=record.snapshot_sha or record.base_sha)
    last = _last_checkpoint(folder)
    if last is None:
        return Timeline(folder.run_id, start, ())
    visits: dict[int, int] = {}
    entries: dict[int, TimelineEntry] = {}
    saved: set[int] = set()
    for event in read_events(folder.events_file):
        if event.ordinal is None or event.node is None:
            continue
        if event.event == "node.started":
            visits[event.ordinal] = _convert(event, _Started).visit
        elif event.event in _ENDED:
            entries.pop(event.ordinal, None)
            entries[event.ordinal] = _entry(folder.run_id, event, visits.get(event.ordinal, 0))
        elif event.event in _SAVED:
            saved.add(event.ordinal)
    kept = [entry for entry in entries.values() if entry.ordinal != last.ordinal and (entry.ordinal in saved or not saved)]
    if not saved:
        kept = [entry for entry in kept if entry.timestamp <= last.timestamp]
    known = entries.get(last.ordinal)
    kept.append(replace(last, visit=last.visit or (known.visit if known else 0)))
    return Timeline(folder.run_id, start, with_visits(tuple(kept)))


def merge(git: Timeline, disk: Timeline) -> Timeline:
    """The timeline of Git, and where the disk knows executions that Git does not, those too, in order of time."""
    known = {entry.ordinal for entry in git.entries}
    extra = [entry for entry in disk.entries if entry.ordinal not in known]
    if not extra:
        return git
    whole = sorted((*git.entries, *extra), key=lambda entry: entry.timestamp)
    return Timeline(git.run_id, git.start, tuple(whole))


def _last_checkpoint(folder: RunFolder) -> TimelineEntry | None:
    try:
        data = folder.checkpoint_file.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=CheckpointBrief).entry(metadata=None)
    except msgspec.DecodeError as error:
        raise CorruptError(f"`{folder.checkpoint_file}` cannot be read: {error}") from error


def _entry(run_id: str, event: EventRecord, visit: int) -> TimelineEntry:
    assert event.node is not None
    assert event.ordinal is not None
    ended = _convert(event, _Ended)
    prefix, slash, node = event.node.rpartition("/")
    return TimelineEntry(
        ordinal=event.ordinal,
        path=event.node,
        node=node,
        frame=prefix + slash,
        visit=visit,
        status=ended.status if event.event == "node.completed" else "fail",
        attempts=ended.attempts,
        timestamp=event.ts,
        duration_ms=ended.duration_ms,
        run_status="running",
        run_id=run_id,
    )


def _convert(event: EventRecord, kind: type[T]) -> T:
    try:
        return msgspec.convert(event.properties, kind)
    except msgspec.ValidationError:
        return kind()
