"""The list of runs: one row each, newest first; a run that cannot be read is a row that says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from arc.base.errors import CorruptError
from arc.base.json import JsonObject
from arc.runs.errors import NewerSchemaError
from arc.runs.history.lookup import record_from_refs, repository_around, shown
from arc.runs.records import RunRecord, ShownStatus
from arc.runs.refs import common_dir_around, scan_runs
from arc.runs.store import RunFolder, iterate_runs
from arc.runs.world import World

if TYPE_CHECKING:
    from arc.workspace.git.repository import Repository

RowStatus: TypeAlias = ShownStatus | Literal["corrupt"]
"""What a row shows: a run's status, or `corrupt` where its files cannot be read (`problem` says which and why)."""

FINISHED = frozenset({"success", "partial_success", "fail", "canceled", "superseded"})
_SHORTEST = 8


@dataclass(frozen=True)
class RunRow:
    """One run. `repository` is the repository's top folder, or the folder it ran in without Git. Times RFC 3339 UTC."""

    run_id: str
    short_id: str
    status: RowStatus
    workflow: str = ""
    goal: str = ""
    nodes_done: int = 0
    created_at: str | None = None
    updated_at: str | None = None
    duration_ms: int | None = None
    repository: str | None = None
    run_branch: str | None = None
    mode: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    forked_from: str | None = None
    superseded_by: str | None = None
    failure: str | None = None
    logs_dir: str | None = None
    problem: str | None = None
    newer: bool = False
    """The run is whole: a newer arc wrote it, which is `problem` then."""

    def document(self) -> JsonObject:
        """The row as `--json` prints it."""
        document: JsonObject = msgspec.to_builtins(self)
        return document


@dataclass(frozen=True)
class _Progress:
    completed_nodes: tuple[str, ...] = ()
    elapsed_ms: int = 0
    timestamp: str = ""


def list_runs(
    world: World, directory: Path, *, here: bool = False, superseded: bool = False, statuses: Sequence[str] = ()
) -> tuple[RunRow, ...]:
    """All runs of this home and those whose refs the repository around `directory` has, newest first.

    `here` keeps the runs of that repository (or, outside one, of that directory); `superseded` shows runs that a rewind replaced too;
    `statuses` keeps those.
    """
    common = common_dir_around(directory)
    rows = {folder.run_id: _row(world, folder) for folder in iterate_runs(world)}
    elsewhere = scan_runs(common) - rows.keys() if common is not None else frozenset()
    if elsewhere and (repository := repository_around(directory)) is not None:
        rows |= {run_id: _row_of_refs(repository, run_id) for run_id in elsewhere}
    place = str(_top(common) if common is not None else directory.absolute())
    kept = [
        row
        for row in rows.values()
        if (superseded or row.status != "superseded" or "superseded" in statuses)
        and (not statuses or row.status in statuses)
        and (not here or row.repository == place)
    ]
    kept.sort(key=lambda row: row.run_id, reverse=True)
    short = short_ids(rows)
    return tuple(replace(row, short_id=short[row.run_id]) for row in kept)


def short_ids(run_ids: Iterable[str]) -> dict[str, str]:
    """The shortest start of each id (at least 8 characters) that no other id of these shares."""
    ordered = sorted(run_ids)
    result = {}
    for index, run_id in enumerate(ordered):
        length = _SHORTEST
        for neighbour in ordered[max(0, index - 1) : index] + ordered[index + 1 : index + 2]:
            while length < len(run_id) and neighbour.startswith(run_id[:length]):
                length += 1
        result[run_id] = run_id[:length]
    return result


def _row(world: World, folder: RunFolder) -> RunRow:
    try:
        record = folder.read_record()
        status = shown(folder, record)
        progress = _progress(_bytes(folder.checkpoint_file), str(folder.checkpoint_file))
    except CorruptError as error:
        newer = isinstance(error, NewerSchemaError)
        return RunRow(folder.run_id, folder.run_id, "corrupt", logs_dir=str(folder.path), problem=error.message, newer=newer)
    row = _filled(record, status, progress)
    running = status in ("running", "waiting") or (status == "created" and record.forked_from is None)
    return replace(row, logs_dir=str(folder.path), duration_ms=_duration(world, record, progress) if running else row.duration_ms)


def _row_of_refs(repository: Repository, run_id: str) -> RunRow:
    from arc.workspace.git.errors import UnreadableCheckpointError
    from arc.workspace.git.metadata import MetadataBranch

    branch = MetadataBranch(repository, run_id)
    try:
        record = record_from_refs(repository, run_id)
        progress = _progress(branch.read("checkpoint.json"), f"{branch.ref}:checkpoint.json")
    except (CorruptError, UnreadableCheckpointError) as error:
        newer, top = isinstance(error, NewerSchemaError), str(_top(repository.common_dir))
        return RunRow(run_id, run_id, "corrupt", repository=top, problem=error.message, newer=newer)
    return _filled(record, "interrupted" if record.status in ("created", "running") else record.status, progress)


def _filled(record: RunRecord, status: ShownStatus, progress: _Progress) -> RunRow:
    return RunRow(
        run_id=record.run_id,
        short_id=record.run_id,
        status=status,
        workflow=record.workflow,
        goal=record.goal,
        nodes_done=len(progress.completed_nodes),
        created_at=record.created_at,
        updated_at=record.updated_at,
        duration_ms=progress.elapsed_ms,
        repository=_place(record),
        run_branch=record.run_branch,
        mode=record.mode,
        labels=record.labels,
        forked_from=record.forked_from,
        superseded_by=record.superseded_by,
        failure=record.failure,
    )


def _place(record: RunRecord) -> str:
    return record.start_directory if record.repository is None else str(_top(Path(record.repository)))


def _top(common: Path) -> Path:
    return common.parent if common.name == ".git" else common


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CorruptError(f"`{path}` cannot be read: {error.strerror}") from error


def _progress(data: bytes | None, source: str) -> _Progress:
    if data is None:
        return _Progress()
    try:
        return msgspec.json.decode(data, type=_Progress)
    except msgspec.DecodeError as error:
        raise CorruptError(f"`{source}` cannot be read: {error}") from error


def _duration(world: World, record: RunRecord, progress: _Progress) -> int:
    """Running time of a live run: what the last checkpoint counted, and the time since then."""
    since = datetime.fromisoformat(progress.timestamp or record.created_at)
    return progress.elapsed_ms + max(0, int((world.clock.now() - since).total_seconds() * 1000))
