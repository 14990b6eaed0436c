"""The run folder: which files it has, reading and writing them, finding runs by prefix, and what a run's status is shown as.

Described for readers, with the write order and the state after each crash, in docs/runs.md. All functions block; every reader
copes with files that are missing, torn or foreign by raising `CorruptError` for that one run.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec

from arc.base.atomic import create_exclusive_directory, make_private_directory, write_atomic
from arc.base.errors import CorruptError
from arc.base.faults import declare_faults, fault
from arc.base.json import decode, encode
from arc.base.locks import Lease, Owner
from arc.base.paths import safe_name
from arc.runs.errors import AmbiguousRunError, LogsDirError, NewerSchemaError, RunNotFoundError
from arc.runs.records import MANIFEST_SCHEMA, RUN_SCHEMA, CheckpointFile, Manifest, RunRecord, ShownStatus
from arc.runs.world import World
from arc.workflow.state import CHECKPOINT_SCHEMA

T = TypeVar("T")

RUN_BRANCH_PREFIX = "arc/run/"
_LOCATION_SCHEMA = 1

declare_faults(
    {
        "folder.created": "the run's folder exists, nothing is in it",
        "folder.registered": "a folder elsewhere (`--logs-dir`) exists and home points to it",
        "run_json.written": "run.json was written (the first time: the run exists for `arc run list`)",
    }
)


@dataclass(frozen=True)
class Location:
    """`location.json` in `{home}/runs/{run_id}/` when `--logs-dir` put the folder elsewhere: the absolute path."""

    schema: int
    run_id: str
    logs_dir: str


class _Versioned(msgspec.Struct):
    schema: int = 0


class RunFolder:
    """One run's folder. Holds only paths: everything is read when asked. Each entry that arc makes in it is a property (`own_names`)."""

    def __init__(self, path: Path, run_id: str | None = None) -> None:
        self.path = path
        self.run_id = run_id or path.name

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r}, {self.run_id!r})"

    @property
    def run_file(self) -> Path:
        return self.path / "run.json"

    @property
    def checkpoint_file(self) -> Path:
        return self.path / "checkpoint.json"

    @property
    def graph_file(self) -> Path:
        return self.path / "graph.dot"

    @property
    def sources(self) -> Path:
        return self.path / "sources"

    @property
    def events_file(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def nodes(self) -> Path:
        return self.path / "nodes"

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    @property
    def questions(self) -> Path:
        return self.path / "questions"

    @property
    def worktree(self) -> Path:
        return self.path / "worktree"

    @property
    def branches(self) -> Path:
        """Worktrees of parallel branches."""
        return self.path / "branches"

    @property
    def scratch(self) -> Path:
        """Where a dry run works."""
        return self.path / "scratch"

    @property
    def setup_file(self) -> Path:
        """Says that the setup commands have ended well."""
        return self.path / "setup.json"

    @property
    def ignore_file(self) -> Path:
        return self.path / ".gitignore"

    @property
    def location_file(self) -> Path:
        """Where the folder is, if `--logs-dir` put it elsewhere; in the home's folder of the run."""
        return self.path / "location.json"

    @property
    def lease_file(self) -> Path:
        return self.path / "lease"

    @property
    def cancel_file(self) -> Path:
        """Written by `arc run cancel` where a signal cannot reach the process; holds the reason."""
        return self.path / "cancel"

    def read_record(self) -> RunRecord:
        """`run.json`. Raises `CorruptError` (missing, torn, foreign or newer)."""
        data = _read(self.run_file)
        if data is None:
            raise CorruptError(f"run {self.run_id} has no `run.json` in `{self.path}`: it was killed while it was being created")
        return decode_known(data, RunRecord, self.run_file, RUN_SCHEMA)

    def write_record(self, record: RunRecord) -> None:
        """Replace `run.json`, durable. Raises `OSError`."""
        write_atomic(self.run_file, encode(record))
        fault("run_json.written")

    def read_checkpoint(self) -> CheckpointFile | None:
        """`checkpoint.json`, None before the first one. Raises `CorruptError`."""
        data = _read(self.checkpoint_file)
        return None if data is None else parse_checkpoint(data, self.checkpoint_file)

    def write_checkpoint(self, data: bytes) -> None:
        """Replace `checkpoint.json`, durable. Raises `OSError`."""
        write_atomic(self.checkpoint_file, data)

    def write_graph(self, source: str) -> None:
        """`graph.dot`: the DOT text as parsed."""
        write_atomic(self.graph_file, source.encode())

    def read_graph(self) -> str:
        """Raises `CorruptError` if it is missing."""
        data = _read(self.graph_file)
        if data is None:
            raise CorruptError(f"run {self.run_id} has no `graph.dot` in `{self.path}`")
        return data.decode()

    def write_sources(self, sources: Mapping[str, str]) -> None:
        """`sources/`: the files the workflow refers to, and `index.json`, which maps each path as written to its file here."""
        if not sources:
            return
        make_private_directory(self.sources)
        names = source_names(sources)
        for written, name in names.items():
            write_atomic(self.sources / name, sources[written].encode(), durable=False)
        write_atomic(self.sources / "index.json", encode(names))

    def read_sources(self) -> dict[str, str]:
        """The files by the path as written. Raises `CorruptError`."""
        data = _read(self.sources / "index.json")
        if data is None:
            return {}
        names = decode(data, dict[str, str], self.sources / "index.json")
        texts: dict[str, str] = {}
        for written, name in names.items():
            text = _read(self.sources / name)
            if text is None:
                raise CorruptError(f"run {self.run_id} lacks `{self.sources / name}`, the text of `{written}`")
            texts[written] = text.decode()
        return texts

    def holder(self) -> Owner | None:
        """The live process that works on this run."""
        return Lease.holder(self.lease_file)

    def open_questions(self) -> tuple[str, ...]:
        """Ids of questions that have no answer yet, oldest first."""
        try:
            names = {entry.name for entry in os.scandir(self.questions)}
        except FileNotFoundError:
            return ()
        ids = [name.removesuffix(".json") for name in names if name.endswith(".json") and not name.endswith(".answer.json")]
        return tuple(sorted((i for i in ids if f"{i}.answer.json" not in names), key=lambda i: (len(i), i)))

    def highest_ordinal(self) -> int:
        """The highest ordinal that has a node folder, 0 without any."""
        highest = 0
        try:
            for entry in os.scandir(self.nodes):
                head = entry.name.partition("-")[0]
                if head.isdigit():
                    highest = max(highest, int(head))
        except FileNotFoundError:
            pass
        return highest

    def node_folder(self, ordinal: int, path: str) -> Path:
        """`nodes/{ordinal}-{node}`; ordinals have at least four digits, so that names sort."""
        return self.nodes / f"{ordinal:04d}-{safe_name(path)}"


def own_names() -> frozenset[str]:
    """The names of all that arc makes in a run folder."""
    paths = RunFolder(Path())
    return frozenset(getattr(paths, name).name for name, member in vars(RunFolder).items() if isinstance(member, property))


def parse_checkpoint(data: bytes, source: Path | str) -> CheckpointFile:
    """Decode a `checkpoint.json`. Raises `CorruptError` naming the place, `NewerSchemaError`."""
    return decode_known(data, CheckpointFile, source, CHECKPOINT_SCHEMA)


def parse_manifest(data: bytes, source: Path | str) -> Manifest:
    """Decode a `manifest.json`. Raises `CorruptError` naming the place, `NewerSchemaError`."""
    return decode_known(data, Manifest, source, MANIFEST_SCHEMA)


def decode_known(data: bytes, kind: type[T], source: Path | str, newest: int) -> T:
    """Decode a document that carries its `schema`, which is looked at first: a newer one may differ in anything else.

    Raises:
        NewerSchemaError, CorruptError.
    """
    try:
        schema = msgspec.json.decode(data, type=_Versioned).schema
    except msgspec.DecodeError:
        schema = 0
    if schema > newest:
        raise NewerSchemaError(
            f"`{source}` was written by a newer arc: it has schema {schema}, this arc reads up to {newest}",
            hints=("use that arc, or a newer one; nothing in the file is damaged",),
        )
    return decode(data, kind, source)


def source_names(sources: Mapping[str, str]) -> dict[str, str]:
    """A file name for each source: its number in sorted order and its own last part (paths may lead out of the folder)."""
    return {written: f"{number:03d}-{safe_name(PurePosixPath(written).name)}" for number, written in enumerate(sorted(sources), 1)}


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CorruptError(f"`{path}` cannot be read: {error.strerror}") from error


def create_run_folder(world: World, run_id: str, logs_dir: Path | None = None) -> RunFolder:
    """Create the folder of a new run, exclusively: `{home}/runs/{run_id}`, or `logs_dir` with a pointer there.

    `logs_dir` may exist if it is empty. Raises `LogsDirError`; nothing is left behind then.
    """
    home = world.runs / run_id
    try:
        create_exclusive_directory(home)
    except FileExistsError as error:
        raise LogsDirError(f"run {run_id} exists already in `{home}`") from error
    except OSError as error:
        raise LogsDirError(
            f"the run folder `{home}` cannot be created: {error.strerror}", hints=("set `ARC_HOME` to a folder that can be written",)
        ) from error
    fault("folder.created")
    folder = home if logs_dir is None else logs_dir.absolute()
    try:
        if folder == home:
            _hide_from_git(home)
            return RunFolder(home, run_id)
        _claim_elsewhere(folder)
        _hide_from_git(folder)
        write_atomic(RunFolder(home).location_file, encode(Location(_LOCATION_SCHEMA, run_id, str(folder))))
    except OSError as error:
        os.rmdir(home)
        if error.errno == errno.ENOTEMPTY:
            raise LogsDirError(
                f"`{folder}` is not empty; a run needs a folder of its own", hints=("give `--logs-dir` a new or an empty folder",)
            ) from error
        raise LogsDirError(f"`{folder}` cannot be used as run folder: {error.strerror}") from error
    fault("folder.registered")
    return RunFolder(folder, run_id)


def _claim_elsewhere(folder: Path) -> None:
    """Make `folder` ours: created, or empty and then marked by an exclusively created lease file."""
    make_private_directory(folder)
    if os.listdir(folder):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
    try:
        os.close(os.open(folder / "lease", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError as error:
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY)) from error


def _hide_from_git(folder: Path) -> None:
    """A run folder inside somebody's checkout must not look like their uncommitted work: it ignores itself."""
    if any((parent / ".git").exists() for parent in folder.parents):
        write_atomic(RunFolder(folder).ignore_file, b"*\n", mode=0o644)


def register_elsewhere(world: World, folder: RunFolder) -> None:
    """Make a run folder that lies elsewhere known to this home. Raises `LogsDirError`, `OSError`."""
    home = world.runs / folder.run_id
    try:
        create_exclusive_directory(home)
    except FileExistsError as error:
        raise LogsDirError(f"run {folder.run_id} exists already in `{home}`") from error
    write_atomic(home / "location.json", encode(Location(_LOCATION_SCHEMA, folder.run_id, str(folder.path))))


def open_run_folder(home: Path) -> RunFolder:
    """The folder registered as `home` (`{home}/runs/{run_id}`), which may point elsewhere. Raises `CorruptError` for a torn pointer."""
    data = _read(home / "location.json")
    if data is None:
        return RunFolder(home, home.name)
    return RunFolder(Path(decode(data, Location, home / "location.json").logs_dir), home.name)


def run_ids(world: World) -> list[str]:
    """Ids of all runs under this home, newest first (ULIDs sort by time)."""
    try:
        return sorted((entry.name for entry in os.scandir(world.runs) if entry.is_dir() and not entry.name.startswith(".")), reverse=True)
    except FileNotFoundError:
        return []


def iterate_runs(world: World) -> Iterator[RunFolder]:
    """All runs, newest first. A folder whose pointer is torn is given as it stands: reading its record says what is wrong."""
    for run_id in run_ids(world):
        home = world.runs / run_id
        try:
            yield open_run_folder(home)
        except CorruptError:
            yield RunFolder(home, run_id)


def find_run(world: World, prefix: str) -> RunFolder:
    """The run whose id starts with `prefix` (upper or lower case; `arc/run/` in front is ignored).

    Raises `RunNotFoundError` with close matches, `AmbiguousRunError` listing what matches.
    """
    wanted = prefix.strip().removeprefix("refs/heads/").removeprefix(RUN_BRANCH_PREFIX).removeprefix("refs/arc/").upper()
    ids = run_ids(world)
    matching = [run_id for run_id in ids if wanted and run_id.upper().startswith(wanted)]
    if len(matching) > 1 and wanted not in matching:
        raise AmbiguousRunError(
            f"`{prefix}` is the start of {len(matching)} runs", details=tuple(matching[:10]), hints=("give more of the id",)
        )
    if not matching:
        from rapidfuzz import process  # for this message only

        near = [match[0] for match in process.extract(wanted, ids, limit=3, score_cutoff=70)] if wanted else []
        hint = f"did you mean {', '.join(f'`{name}`' for name in near)}?" if near else "`arc run list` shows the runs of this home"
        raise RunNotFoundError(f"there is no run `{prefix}` in `{world.runs}`", hints=(hint,))
    return open_run_folder(world.runs / (wanted if wanted in matching else matching[0]))


def shown_status(folder: RunFolder, record: RunRecord | None = None) -> ShownStatus:
    """What `arc run list` says. A run that is not finished and that no live process holds is interrupted, whatever its files say.

    Raises `CorruptError` if `run.json` cannot be read (and `record` is not given).
    """
    known = record or folder.read_record()
    if known.superseded_by is not None:
        return "superseded"
    if known.status not in ("created", "running"):
        return known.status
    if folder.holder() is None:
        return "interrupted"
    if folder.open_questions():
        return "waiting"
    return known.status
