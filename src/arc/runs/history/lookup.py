"""Finding a run by the start of its id: in this home, or by the refs of the repository one stands in (a clone that fetched them)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from arc.base.errors import CorruptError, RefusedError
from arc.runs.errors import AmbiguousRunError, NewerSchemaError, RunIncompleteError, RunNotFoundError
from arc.runs.records import RUN_SCHEMA, RunRecord, ShownStatus
from arc.runs.refs import METADATA, RunRefs, common_dir_around, scan_runs
from arc.runs.store import RUN_BRANCH_PREFIX, RunFolder, open_run_folder, parse_checkpoint, parse_manifest, run_ids, shown_status
from arc.runs.world import World

if TYPE_CHECKING:
    from arc.workspace.git.repository import Repository

_SHORTEST_END = 4
"""Ids of runs started together share their beginning; from this many characters on, their end is understood as well."""


class NoGitError(RefusedError):
    """What was asked for needs Git checkpoints, and this run has none."""

    code = "run.no_git"


class NoFolderError(RefusedError):
    """What was asked for needs the run's folder, and this home has none for it."""

    code = "run.no_folder"


@dataclass(frozen=True)
class KnownRun:
    """A run as it is known here: by its folder, by its refs, or by both. Without a folder the record is made from the manifest.

    `common_dir` is the repository's folder if the run has Git checkpoints and the repository is still there. libgit2 is loaded when
    `repository` is first asked for: much of what is said about a run is said by its folder alone.
    """

    run_id: str
    record: RunRecord
    status: ShownStatus
    folder: RunFolder | None
    common_dir: Path | None
    opened: Repository | None = field(default=None, compare=False)
    """The repository, where it was open already."""

    @cached_property
    def repository(self) -> Repository | None:
        """The repository of the run's refs, None without Git."""
        if self.opened is not None or self.common_dir is None:
            return self.opened
        from arc.workspace.git.repository import Repository

        return Repository.at(self.common_dir)

    @property
    def refs(self) -> RunRefs:
        return RunRefs.of(self.run_id, self.record.base_sha, self.record.snapshot_sha)

    def need_git(self, what: str) -> Repository:
        """The repository. Raises `NoGitError` saying that `what` needs it."""
        if self.repository is None:
            raise NoGitError(f"{what} needs Git checkpoints, and run {self.run_id} has none ({_why_no_git(self.record)})")
        return self.repository

    def need_folder(self, what: str) -> RunFolder:
        """The run folder. Raises `NoFolderError` saying that `what` needs it."""
        if self.folder is None:
            raise NoFolderError(
                f"{what} needs the run folder, and run {self.run_id} is known here only by its Git refs",
                hints=(f"arc run resume {self.run_id}", f"arc run fork {self.run_id} @last"),
            )
        return self.folder


def find_known(world: World, prefix: str, directory: Path) -> KnownRun:
    """The run whose id starts (or ends) with `prefix` (any case; a branch or ref name is understood too).

    Raises:
        RunNotFoundError: neither this home nor the repository around `directory` knows it; names the closest ids.
        AmbiguousRunError: several runs start so; lists them.
        CorruptError: found, but its `run.json` or manifest cannot be read.
    """
    found = find_named(world, prefix, directory)
    if isinstance(found, KnownRun):
        return found
    try:
        return open_known(found)
    except NewerSchemaError:
        raise
    except CorruptError as error:
        error.hints = (*error.hints, f"to remove what is left of it: `arc run gc {found.run_id} --discard-corrupt`")
        raise


def find_named(world: World, prefix: str, directory: Path) -> KnownRun | RunFolder:
    """As `find_known`, but a run of this home whose files cannot be read is given as its folder."""
    wanted = prefix.strip().removeprefix("refs/heads/").removeprefix(RUN_BRANCH_PREFIX).removeprefix(METADATA).upper()
    at_home = set(run_ids(world))
    run_id = _choose(prefix, wanted, sorted(at_home | runs_around(directory)), world)
    if run_id in at_home:
        return _readable(folder_at(world.runs / run_id))
    repository = repository_around(directory)
    if repository is None:
        raise RunNotFoundError(f"there is no run `{prefix}` in `{world.runs}`", hints=("`arc run list` shows the runs of this home",))
    return known_by_refs(repository, run_id)


def folder_at(home: Path) -> RunFolder:
    """`open_run_folder`; with a torn pointer, the place of the pointer itself."""
    try:
        return open_run_folder(home)
    except CorruptError:
        return RunFolder(home, home.name)


def _readable(folder: RunFolder) -> KnownRun | RunFolder:
    try:
        return open_known(folder)
    except CorruptError:
        return folder


def open_known(folder: RunFolder) -> KnownRun:
    """A run of this home with its repository, if that still exists. Raises `CorruptError`."""
    record = folder.read_record()
    return KnownRun(folder.run_id, record, shown(folder, record), folder, _common_dir_of(record))


def known_by_refs(repository: Repository, run_id: str) -> KnownRun:
    """A run of which only the refs are here. Raises `RunIncompleteError`, `CorruptError`."""
    record = record_from_refs(repository, run_id)
    status: ShownStatus = "interrupted" if record.status in ("created", "running") else record.status
    return KnownRun(run_id, record, status, None, repository.common_dir, repository)


def runs_around(directory: Path) -> frozenset[str]:
    """Ids of the runs that the repository around `directory` has refs of (by a scan of its files); none outside of a repository."""
    common = common_dir_around(directory)
    return frozenset() if common is None else scan_runs(common)


def record_from_refs(repository: Repository, run_id: str) -> RunRecord:
    """What `run.json` would say, from `manifest.json` and `checkpoint.json` at the head of the metadata branch."""
    from arc.workspace.git.metadata import MetadataBranch

    branch = MetadataBranch(repository, run_id)
    data = branch.read("manifest.json")
    if data is None:
        raise RunIncompleteError(f"`{branch.ref}` in `{repository.common_dir}` holds no `manifest.json`: it is no run's metadata branch")
    manifest = parse_manifest(data, f"{branch.ref}:manifest.json")
    stored = branch.read("checkpoint.json")
    checkpoint = parse_checkpoint(stored, f"{branch.ref}:checkpoint.json") if stored is not None else None
    return RunRecord(
        schema=RUN_SCHEMA,
        run_id=run_id,
        mode="git",
        status=checkpoint.status if checkpoint else "created",
        workflow=manifest.graph_name,
        workflow_file=manifest.workflow_file,
        goal=manifest.goal,
        config=manifest.config,
        start_directory=str(repository.top),
        created_at=manifest.start_time,
        updated_at=checkpoint.timestamp if checkpoint else manifest.start_time,
        arc_version=manifest.arc_version,
        labels=manifest.labels,
        repository=str(repository.common_dir),
        subdirectory=manifest.subdirectory,
        base_sha=manifest.base_sha,
        snapshot_sha=manifest.snapshot_sha,
        run_branch=manifest.run_branch,
        metadata_ref=branch.ref,
        forked_from=manifest.forked_from,
        failure=checkpoint.failure if checkpoint else None,
    )


def _common_dir_of(record: RunRecord) -> Path | None:
    if record.mode != "git" or record.repository is None or not Path(record.repository).is_dir():
        return None
    return Path(record.repository)


def repository_around(directory: Path) -> Repository | None:
    """The repository that holds `directory`; None where there is none, or one without files (bare): its runs are known by home only."""
    from arc.workspace.git.errors import BareRepositoryError
    from arc.workspace.git.repository import Repository

    try:
        return Repository.discover(directory)
    except BareRepositoryError:
        return None


def shown(folder: RunFolder, record: RunRecord) -> ShownStatus:
    """`shown_status`, except that a fork nobody has started yet is `created`, not interrupted."""
    status = shown_status(folder, record)
    if status == "interrupted" and record.status == "created" and record.forked_from is not None and record.resumed == 0:
        return "created"
    return status


def _why_no_git(record: RunRecord) -> str:
    if record.mode == "git":
        return f"its repository `{record.repository}` is not there any more"
    return "it ran in place" if record.mode == "in_place" else "it was a dry run"


def _choose(prefix: str, wanted: str, ids: Sequence[str], world: World) -> str:
    matching = [run_id for run_id in ids if wanted and run_id.upper().startswith(wanted)]
    if not matching and len(wanted) >= _SHORTEST_END:
        matching = [run_id for run_id in ids if run_id.upper().endswith(wanted)]
    if wanted in matching or len(matching) == 1:
        return wanted if wanted in matching else matching[0]
    if matching:
        raise AmbiguousRunError(f"`{prefix}` fits {len(matching)} runs", details=tuple(matching[:10]), hints=("give more of the id",))
    near = _nearest(wanted, ids) if wanted else []
    hint = f"did you mean {', '.join(f'`{name}`' for name in near)}?" if near else "`arc run list` shows the runs of this home"
    raise RunNotFoundError(f"there is no run `{prefix}` in `{world.runs}`, nor by its refs in this repository", hints=(hint,))


def _nearest(wanted: str, ids: Iterable[str]) -> list[str]:
    from rapidfuzz import process  # for this message only

    return [match[0] for match in process.extract(wanted, ids, limit=3, score_cutoff=70)]
