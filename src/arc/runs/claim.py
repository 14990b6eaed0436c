"""Which run a resume means, and taking its lease: by id, by branch, by checkpoint file; where only refs or a file are here, its folder is
made first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from arc.base.errors import UsageError
from arc.base.faults import declare_faults, fault
from arc.base.locks import Lease
from arc.runs.adopt import adopt_checkpoint, fork_from_file
from arc.runs.agree import age
from arc.runs.config import ModelConfig, RunConfig
from arc.runs.errors import RunNotFoundError
from arc.runs.fork import ForkRequest, fork_run
from arc.runs.history.lookup import find_known, open_known
from arc.runs.records import CheckpointFile
from arc.runs.restore import adopt_remote_refs, claim_folder, fill_from_refs, metadata_exists, register_folder
from arc.runs.store import RUN_BRANCH_PREFIX, RunFolder, open_run_folder, parse_checkpoint
from arc.runs.world import World
from arc.workspace.git.metadata import MetadataBranch
from arc.workspace.git.repository import Repository
from arc.workspace.notices import Notice

declare_faults({"resume.claimed": "the run is claimed, nothing was read"})


@dataclass(frozen=True)
class ResumeTarget:
    """Which run: the start of its id, a checkpoint file, or a run branch (exactly one). `directory` is where the repository is looked for.

    `workflow` is the workflow of a run of which only the checkpoint file is here; of any other run its own, stored one counts, and a
    notice says so if this one differs. `model` and `auto_approve` replace what the run was started with, from now on (`run.json`).
    """

    run: str | None = None
    checkpoint: Path | None = None
    branch: str | None = None
    workflow: Path | None = None
    directory: Path = field(default_factory=Path)
    model: ModelConfig = field(default_factory=ModelConfig)
    auto_approve: bool = False

    @property
    def changes_config(self) -> bool:
        """Whether the run goes on otherwise than it was started."""
        return self.auto_approve or self.model != ModelConfig()

    def config(self, started: RunConfig) -> RunConfig:
        """The configuration to go on with."""
        given = {name: value for name in ("backend", "model", "provider", "command") if (value := getattr(self.model, name))}
        return replace(started, model=replace(started.model, **given), auto_approve=started.auto_approve or self.auto_approve)


@dataclass(frozen=True)
class Claimed:
    """A run whose lease this process holds, and what is to be told about how it was found."""

    folder: RunFolder
    lease: Lease
    notices: tuple[Notice, ...] = ()


def claim(target: ResumeTarget, world: World) -> Claimed:
    """Find the run and take its lease. Blocks; raises what `resume_run` says."""
    if sum(given is not None for given in (target.run, target.checkpoint, target.branch)) != 1:
        raise UsageError("name one run: its id, a checkpoint file, or a run branch")
    if target.checkpoint is not None:
        claimed = _by_file(target.checkpoint, target, world)
    else:
        claimed = _by_id(target.run or target.branch or "", target.directory, world)
    fault("resume.claimed")
    return claimed


def _by_id(prefix: str, directory: Path, world: World) -> Claimed:
    wanted = prefix.strip().removeprefix("refs/heads/").removeprefix(RUN_BRANCH_PREFIX).upper()
    home = world.runs / wanted
    if wanted and home.is_dir() and not open_run_folder(home).run_file.exists():
        repository = Repository.discover(directory)
        if repository is not None and metadata_exists(repository, wanted):
            return _restored(repository, wanted, directory, world)
    known = find_known(world, prefix, directory)
    if known.folder is not None:
        return Claimed(known.folder, Lease.acquire(known.folder.lease_file, what=f"run {known.run_id}", clock=world.clock))
    assert known.repository is not None, "without a folder it was found by its refs"
    return _restored(known.repository, known.run_id, directory, world)


def _restored(repository: Repository, run_id: str, directory: Path, world: World) -> Claimed:
    adopt_remote_refs(repository, run_id)
    folder, lease = claim_folder(world, run_id)
    try:
        if not folder.run_file.exists():
            fill_from_refs(folder, repository, world, directory)
    except BaseException:
        lease.release()
        raise
    return Claimed(folder, lease)


def _by_file(file: Path, target: ResumeTarget, world: World) -> Claimed:
    """The run that a checkpoint file belongs to. An older state than the run's newest becomes a fork: nothing is taken back."""
    if not file.is_file():
        raise RunNotFoundError(f"there is no checkpoint file `{file}`")
    checkpoint = parse_checkpoint(file.read_bytes(), file)
    if not (world.runs / checkpoint.run_id).is_dir():
        register_folder(world, file.parent.absolute(), checkpoint.run_id)
    try:
        claimed = None if _is_half_made(checkpoint.run_id, target.directory, world) else _by_id(checkpoint.run_id, target.directory, world)
    except RunNotFoundError:
        claimed = None
    if claimed is None:
        return Claimed(*adopt_checkpoint(file, checkpoint, target.workflow, target.directory, world))
    try:
        if _is_newest(checkpoint, claimed):
            return claimed
        known = open_known(claimed.folder)
        if known.repository is None:
            made = Claimed(*fork_from_file(known, file, checkpoint, world))
            claimed.lease.release()
            return made
        forked = fork_run(known, ForkRequest(f"@{checkpoint.ordinal}"), world)
    except BaseException:
        claimed.lease.release()
        raise
    claimed.lease.release()
    message = f"run {checkpoint.run_id} has gone on since `{file}` was saved: run {forked.run_id} starts there, nothing is taken back"
    return replace(_by_id(forked.run_id, target.directory, world), notices=(Notice("info", "resume.forked", message),))


def _is_half_made(run_id: str, directory: Path, world: World) -> bool:
    """Whether all there is of the run is a folder that a crash left without run.json."""
    home = world.runs / run_id
    if not home.is_dir() or open_run_folder(home).run_file.exists():
        return False
    return not metadata_exists(Repository.discover(directory), run_id)


def _is_newest(checkpoint: CheckpointFile, claimed: Claimed) -> bool:
    """Whether a checkpoint is the newest state of its run, on the disk and in Git."""
    current = claimed.folder.read_checkpoint()
    repository = open_known(claimed.folder).repository
    if current is None and repository is not None:
        metadata = MetadataBranch(repository, checkpoint.run_id)
        data = metadata.read("checkpoint.json")
        current = None if data is None else parse_checkpoint(data, f"{metadata.ref}:checkpoint.json")
    return current is None or age(current) <= age(checkpoint) or current.completed == checkpoint.completed
