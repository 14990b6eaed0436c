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
        executed=False,
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


def _state(checkpoint: CheckpointFile, folder: RunFolder, read_artifact: object) -> RunState:
    """The engine's state: artifacts loaded, and no ordinal that was ever handed out is handed out again."""
    state = checkpoint.to_state()
    root = load(state.root, read_artifact)  # type: ignore[arg-type]
    return replace(state, root=root, next_ordinal=max(state.next_ordinal, highest_ordinal(folder) + 1))
