"""Comes back to a run: finds it, claims it, checks that files and state agree, mends what a crash left, and walks on.

Order: claim the lease → read and check everything (a damaged file stops here, nothing was touched) → end processes that a dead arc left
running → open the worktree → finish a checkpoint cycle that a crash cut off, or set half-done edits aside and put the files back to the
last checkpoint → run.json (`running`, resumed + 1) → engine.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

from arc.base.atomic import remove_leftovers
from arc.base.errors import ArcError, UsageError
from arc.base.faults import declare_faults, fault
from arc.base.locks import Lease
from arc.base.processes import end_processes
from arc.runs.abandoned import clear_abandoned, close_finished
from arc.runs.agree import Standing, branch_of, commit_in, frame_in, highest_ordinal, stand_in_git, stand_on_disk
from arc.runs.answers import close_stale_questions
from arc.runs.artifacts import ArtifactStore, load, references
from arc.runs.backends import SCRIPT_SOURCE, check_models, make_backends
from arc.runs.checkpoints import GIT_FAILURES, CheckpointWriter, Stored, place_commit, with_root
from arc.runs.errors import RunNotFoundError, StateMismatchError, SupersededError
from arc.runs.events import EventLog
from arc.runs.execute import Prepared, execute
from arc.runs.fork import ForkRequest, fork_run
from arc.runs.live import LiveRun
from arc.runs.lookup import find_known, open_known
from arc.runs.records import CheckpointFile, RunRecord
from arc.runs.redaction import live_config
from arc.runs.restore import adopt_remote_refs, claim_folder, fill_from_refs, metadata_exists
from arc.runs.start import load_handlers, load_workflow, make_redactor
from arc.runs.store import RUN_BRANCH_PREFIX, RunFolder, open_run_folder, parse_checkpoint
from arc.runs.threads import to_end
from arc.runs.workspaces import RUN_VARIABLE, Opened, open_workspace, sandboxes
from arc.runs.world import RunResult, World
from arc.workflow.sources import StoredSources
from arc.workflow.state import RunState
from arc.workspace.git.branches import branch_path
from arc.workspace.git.metadata import MetadataBranch
from arc.workspace.git.repository import Repository
from arc.workspace.git.workspace import GitWorkspace
from arc.workspace.notices import Notice
from arc.workspace.protocol import MergeInput

_LEFTOVER_GRACE = 0.5

declare_faults(
    {
        "resume.claimed": "the run is claimed, nothing was read",
        "resume.opened": "the worktree is there again, its files are as the crash left them",
        "resume.cycle": "the cut-off checkpoint cycle was finished",
        "resume.aside": "half-done edits are in an aside ref, the files still have them",
        "resume.reset": "the files are those of the last checkpoint",
    }
)


@dataclass(frozen=True)
class ResumeTarget:
    """Which run: the start of its id, a checkpoint file, or a run branch (exactly one). `directory` is where the repository is looked for.

    `workflow` may come with a checkpoint file of which nothing else is known.
    """

    run: str | None = None
    checkpoint: Path | None = None
    branch: str | None = None
    workflow: Path | None = None
    directory: Path = field(default_factory=Path)


@dataclass(frozen=True)
class Claimed:
    """A run whose lease this process holds."""

    folder: RunFolder
    lease: Lease


async def resume_run(target: ResumeTarget, world: World) -> RunResult:
    """Go on with a run and walk it to its end. A finished run says so and is left alone.

    Raises:
        RunNotFoundError, AmbiguousRunError: nothing or too much matches.
        LeaseHeldError: a live process works on it; names it.
        SupersededError: it was rewound; names its successor.
        CorruptError, StateMismatchError, ArtifactMissingError: state and files cannot be read or do not agree; nothing was changed.
        MissingVariableError: a secret of its configuration is not in the environment.
        NoBackendError, HandlerLoadError, WorkflowError: see `arc.runs.start`.
    """
    claimed = await to_end(_claim, target, world)
    try:
        finished = await asyncio.to_thread(_finished, claimed.folder)
        if finished is not None:
            told: list[str] = []
            await close_finished(claimed.folder, claimed.folder.read_record(), lambda notice: told.append(notice.message))
            claimed.lease.release()
            return replace(finished, notices=(*finished.notices, *told))
        await end_processes(RUN_VARIABLE, claimed.folder.run_id, grace=_LEFTOVER_GRACE)
        prepared = await to_end(_prepare, claimed, world)
    except BaseException:
        claimed.lease.release()
        raise
    try:
        await clear_abandoned(prepared.live, claimed.folder.read_checkpoint())
    except BaseException:
        prepared.live.close()
        raise
    return await execute(prepared)


# -- which run ------------------------------------------------------------------------------------------------------------------


def _claim(target: ResumeTarget, world: World) -> Claimed:
    """Find the run and take its lease; where only refs are here, make the folder."""
    if sum(given is not None for given in (target.run, target.checkpoint, target.branch)) != 1:
        raise UsageError("name one run: its id, a checkpoint file, or a run branch")
    if target.checkpoint is not None:
        claimed = _claim_by_file(target.checkpoint, target, world)
    else:
        claimed = _claim_by_id(target.run or target.branch or "", target.directory, world)
    fault("resume.claimed")
    return claimed


def _claim_by_id(prefix: str, directory: Path, world: World) -> Claimed:
    repository = Repository.discover(directory)
    wanted = prefix.strip().removeprefix("refs/heads/").removeprefix(RUN_BRANCH_PREFIX).upper()
    home = world.runs / wanted
    if home.is_dir() and not open_run_folder(home).run_file.exists() and metadata_exists(repository, wanted):
        assert repository is not None
        return _restored(repository, wanted, directory, world)
    known = find_known(world, prefix, directory)
    if known.folder is not None:
        lease = Lease.acquire(known.folder.lease_file, what=f"run {known.run_id}", clock=world.clock)
        return Claimed(known.folder, lease)
    assert repository is not None
    return _restored(repository, known.run_id, directory, world)


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


def _claim_by_file(file: Path, target: ResumeTarget, world: World) -> Claimed:
    """The run that a checkpoint file belongs to. An older state than the run's newest becomes a fork: nothing is taken back."""
    if not file.is_file():
        raise RunNotFoundError(f"there is no checkpoint file `{file}`")
    checkpoint = parse_checkpoint(file.read_bytes(), file)
    claimed = _claim_by_id(checkpoint.run_id, target.directory, world)
    try:
        known = open_known(claimed.folder)
        current = claimed.folder.read_checkpoint()
        if current is None and known.repository is not None:
            data = MetadataBranch(known.repository, known.run_id).read("checkpoint.json")
            current = parse_checkpoint(data, "checkpoint.json") if data is not None else None
        if current is None or current.ordinal <= checkpoint.ordinal:
            return claimed
        forked = fork_run(known, ForkRequest(f"@{checkpoint.ordinal}"), world)
    except BaseException:
        claimed.lease.release()
        raise
    claimed.lease.release()
    return _claim_by_id(forked.run_id, target.directory, world)


def _finished(folder: RunFolder) -> RunResult | None:
    """The answer for a run that has nothing to resume. Raises `SupersededError`, `CorruptError`."""
    record = folder.read_record()
    if record.superseded_by is not None:
        raise SupersededError(
            f"run {record.run_id} was superseded by run {record.superseded_by}; nothing was changed",
            hints=(f"arc run resume {record.superseded_by}", f"arc run fork {record.run_id} TARGET"),
        )
    if record.status not in ("success", "partial_success"):
        return None
    return RunResult(
        run_id=record.run_id,
        status=record.status,
        logs_dir=folder.path,
        run_branch=record.run_branch,
        failure=None,
        notices=(f"run {record.run_id} has finished ({record.status}); nothing to resume",),
    )


# -- read everything, then touch ----------------------------------------------------------------------------------------------------


def _prepare(claimed: Claimed, world: World) -> Prepared:
    folder = claimed.folder
    record = folder.read_record()
    repository = _repository(record) if record.mode == "git" else None
    standing = stand_in_git(folder, record, repository) if repository is not None else stand_on_disk(folder)
    metadata = MetadataBranch(repository, record.run_id) if repository is not None else None
    store = ArtifactStore(folder.artifacts)

    def read_artifact(name: str) -> bytes | None:
        data = store.read(name)
        return metadata.read(name) if data is None and metadata is not None else data

    config = live_config(record.config, world.environ, record.run_id)
    texts = folder.read_sources()
    graph = Path(record.workflow_file)
    workflow = load_workflow(
        graph, config, StoredSources(texts), shown=record.workflow_file, dry_run=record.mode == "dry_run", text=folder.read_graph()
    )
    backends = make_backends(config, texts.get(SCRIPT_SOURCE), dry_run=record.mode == "dry_run")
    check_models(workflow, backends)
    handlers = load_handlers(workflow, config, Path(record.start_directory))
    if standing.checkpoint is not None:
        load(standing.checkpoint.to_state().root, read_artifact)  # a missing artifact is told before anything is touched
    if repository is not None and standing.checkpoint is not None:
        _check_branches(standing.checkpoint, repository)

    redactor = make_redactor(world, config)
    for place in (folder.path, folder.artifacts, folder.questions):
        remove_leftovers(place)
    live = LiveRun(
        world=world,
        folder=folder,
        lease=claimed.lease,
        record=record,
        config=config,
        workflow=workflow,
        redactor=redactor,
        events=EventLog(folder.events_file, run_id=record.run_id, clock=world.clock, redactor=redactor, observer=world.observer),
        repository=repository,
    )
    try:
        close_stale_questions(folder, world.clock)
        folder.cancel_file.unlink(missing_ok=True)
        committed = frozenset(metadata.names("artifacts/")) if metadata is not None else frozenset()
        writer = CheckpointWriter(
            folder, clock=world.clock, redactor=redactor, events=live.events, repository=repository, committed=committed
        )
        opened, checkpoint = _mend(live, standing, writer)
        live.update(resumed=record.resumed + 1)
    except BaseException:
        live.events.close()
        raise
    state = None if checkpoint is None else _state(checkpoint, folder, read_artifact)
    return Prepared(live, opened, writer, backends, handlers, state)


def _repository(record: RunRecord) -> Repository:
    """The run's repository, through the checkout it was started from where that is still there."""
    assert record.repository is not None
    common = Path(record.repository)
    start = Path(record.start_directory)
    if start.is_dir():
        found = Repository.discover(start)
        if found is not None and found.common_dir == common:
            return found
    if not common.is_dir():
        raise StateMismatchError(
            f"the repository `{common}` of run {record.run_id} is not there any more",
            hints=(f"in a clone that has its refs: `arc run start --run-branch {record.run_branch}`",),
        )
    return Repository.at(common)


def _check_branches(checkpoint: CheckpointFile, repository: Repository) -> None:
    """Every open parallel branch that has checkpoints is here; a missing ref whose commit is here is made again by the workspace."""
    block = checkpoint.open_block
    for branch in block.branches if block is not None else ():
        commit = branch.frame.git_commit_sha
        if branch.ref is None or commit is None or not branch.frame.completed_nodes or repository.ref(branch.ref) is not None:
            continue
        raise StateMismatchError(
            f"the parallel branch `{branch.ref.removeprefix('refs/heads/')}` of run {checkpoint.run_id} is not here; nothing was changed",
            hints=(f"git fetch REMOTE {branch.ref}:{branch.ref}",),
        )


def _state(checkpoint: CheckpointFile, folder: RunFolder, read_artifact: object) -> RunState:
    """The engine's state: artifacts loaded, and no ordinal that was ever handed out is handed out again."""
    state = checkpoint.to_state()
    root = load(state.root, read_artifact)  # type: ignore[arg-type]
    return replace(state, root=root, next_ordinal=max(state.next_ordinal, highest_ordinal(folder) + 1))


# -- mend -----------------------------------------------------------------------------------------------------------------------


def _mend(live: LiveRun, standing: Standing, writer: CheckpointWriter) -> tuple[Opened, CheckpointFile | None]:
    """Open the workspace and make its files those of the state. Returns the state to go on from."""
    if live.repository is None:
        opened = open_workspace(live)
        if standing.checkpoint is not None and live.record.mode == "in_place":
            live.tell(Notice("warning", "resume.in_place", "without Git checkpoints the files are taken as they are; half-done edits stay"))
        return opened, standing.checkpoint
    opened = open_workspace(live, expected=standing.tip)
    fault("resume.opened")
    workspace = opened.workspace
    assert isinstance(workspace, GitWorkspace)
    checkpoint = standing.checkpoint
    cut_off = checkpoint is not None and not standing.in_git
    if cut_off:
        assert checkpoint is not None
        checkpoint = _finish_cycle(live, standing, checkpoint, workspace, opened.fresh, writer)
        fault("resume.cycle")
    if not (cut_off and standing.branch is None):
        _set_aside(live, checkpoint, workspace, fresh=opened.fresh)
    return opened, checkpoint


def _finish_cycle(
    live: LiveRun, standing: Standing, checkpoint: CheckpointFile, workspace: GitWorkspace, fresh: bool, writer: CheckpointWriter
) -> CheckpointFile | None:
    """Steps 2 to 4 for a checkpoint that only the disk has, if its files are still there; else back to what Git has."""
    record = checkpoint.completed
    assert record is not None
    branch = standing.branch
    target: GitWorkspace | None = None if fresh else workspace
    if branch is not None:
        target = _branch_workspace(live, checkpoint, workspace)
    if target is None:
        message = (
            f"the checkpoint after node `{record.path}` (ordinal {record.ordinal}) is on the disk only and its worktree is gone: "
            f"the run goes back to the last checkpoint in Git"
        )
        live.tell(Notice("warning", "resume.files_lost", message))
        return standing.git_checkpoint
    target.adopt_merge(_merged_branches(checkpoint))
    try:
        stored = Stored(checkpoint, references(checkpoint.to_state().root))
        committed = writer.to_git(stored, record, target)
    except GIT_FAILURES as error:
        message = f"the checkpoint after node `{record.path}` still cannot be committed to Git: {error}; the files stay as they are"
        live.tell(Notice("warning", "resume.cycle_failed", message))
        return checkpoint
    writer.resave(stored, record, committed)
    writer.tell(record, committed)
    root = place_commit(checkpoint.to_state().root, record.frame, committed.commit)
    if standing.mixed:
        message = (
            f"Git had failed after node `{record.path}`: its files could not be told from the half-done edits of what ran after it; "
            f"all are kept, in commit {committed.commit[:12]}"
        )
        live.tell(Notice("warning", "resume.files_mixed", message))
    else:
        message = f"the checkpoint after node `{record.path}` was cut off by the crash and is complete now"
        live.tell(Notice("info", "resume.cycle_finished", message))
    return with_root(checkpoint, root, git_tree_sha=committed.tree, git_parent_sha=committed.parent, git_error=None)


def _branch_workspace(live: LiveRun, checkpoint: CheckpointFile, workspace: GitWorkspace) -> GitWorkspace | None:
    """The worktree of the parallel branch that the checkpoint was taken in, files as they are; None if it is gone."""
    branch = branch_of(checkpoint)
    block = _block_of(checkpoint)
    if branch is None or branch.ref is None or block is None or live.repository is None:
        return None
    path = branch_path(workspace.home, block[0], block[1], branch.key)
    if not (path / ".git").exists() or live.repository.ref(branch.ref) is None:
        return None
    expected = commit_in(checkpoint.to_state().root, branch.frame.prefix)
    return GitWorkspace.attach(
        live.repository,
        run_id=live.run_id,
        path=path,
        ref=branch.ref,
        subdirectory=live.record.subdirectory,
        exclude_globs=live.config.checkpoint.exclude_globs,
        sandboxes=sandboxes(live),
        notices=live.tell,
        expected=expected,
    )


def _merged_branches(checkpoint: CheckpointFile) -> list[MergeInput]:
    """The branches that the completed node merged into its files, by its own outcome (nothing else remembers it after a crash)."""
    record = checkpoint.completed
    frame = frame_in(checkpoint.to_state().root, record.frame) if record is not None else None
    outcome = frame.node_outcomes.get(record.node) if frame is not None and record is not None else None
    merged = outcome.context_updates.get("parallel.merged") if outcome is not None else None
    if frame is None or not isinstance(merged, list):
        return []
    found: dict[str, MergeInput] = {}
    for key, results in frame.context_values.items():
        is_results = key.startswith("parallel.") and key.endswith(".results") and isinstance(results, list)
        for result in results if is_results and isinstance(results, list) else ():
            if not isinstance(result, dict) or result.get("id") not in merged:
                continue
            ref, commit, base = result.get("ref"), result.get("commit"), result.get("base")
            if isinstance(ref, str) and isinstance(commit, str) and isinstance(base, str) and commit != base:
                found[ref] = MergeInput(str(result["id"]), ref, commit, base)
    return list(found.values())


def _block_of(checkpoint: CheckpointFile) -> tuple[int, str] | None:
    """Ordinal and node of the innermost open parallel block that holds the frame of the checkpoint."""
    frame = checkpoint.to_state().root
    prefix = checkpoint.completed.frame if checkpoint.completed else ""
    found: tuple[int, str] | None = None
    while frame.prefix != prefix and (block := frame.open_block) is not None:
        inner = [b.frame for b in block.branches if prefix.startswith(b.frame.prefix)]
        if inner:
            found = (block.ordinal, block.node_id)
            frame = inner[0]
        elif block.child is not None:
            frame = block.child
        else:
            break
    return found


def _set_aside(live: LiveRun, checkpoint: CheckpointFile | None, workspace: GitWorkspace, *, fresh: bool) -> None:
    """Half-done edits of the interrupted node into a named ref, files back to the last checkpoint."""
    ordinal = highest_ordinal(live.folder)
    node = (checkpoint.next_node_id if checkpoint is not None else live.workflow.start) or "end"
    try:
        kept = None if fresh else workspace.set_aside(f"{ordinal}-{node}", f"half-done edits of node `{node}`, interrupted by a crash")
        fault("resume.aside")
        workspace.reset()
    except ArcError as error:
        live.tell(Notice("warning", "resume.not_reset", f"the files could not be put back to the last checkpoint: {error}; they are kept"))
        raise
    fault("resume.reset")
    if kept is not None:
        message = f"half-done edits of the interrupted node `{node}` are set aside in `{kept}`"
        live.tell(Notice("info", "resume.set_aside", message, (f"look at them: `git show {kept}`",)))
