"""Comes back to a run: finds it, claims it, checks that files and state agree, mends what a crash left, and walks on.

Order: claim the lease → read and check everything (a damaged file stops here, nothing was touched) → end processes that a dead arc left
running → open the worktree → finish a checkpoint cycle that a crash cut off, or set half-done edits aside and put the files back to the
last checkpoint → run.json (`running`, resumed + 1) → engine.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from arc.base.atomic import remove_leftovers
from arc.base.processes import end_processes
from arc.runs.abandoned import clear_abandoned, close_finished
from arc.runs.agree import Standing, highest_ordinal, stand_in_git, stand_on_disk
from arc.runs.answers import close_stale_questions
from arc.runs.artifacts import ArtifactStore, load
from arc.runs.backends import SCRIPT_SOURCE, Backends, check_models, make_backends
from arc.runs.checkpoints import CheckpointWriter
from arc.runs.claim import Claimed, ResumeTarget, claim
from arc.runs.config import RunConfig
from arc.runs.errors import StateMismatchError, SupersededError
from arc.runs.events import EventLog
from arc.runs.execute import Prepared, execute
from arc.runs.live import LiveRun
from arc.runs.mend import mend
from arc.runs.place import claim_place
from arc.runs.records import CheckpointFile, RunRecord
from arc.runs.redaction import live_config, stored_config
from arc.runs.start import load_handlers, load_workflow, make_redactor
from arc.runs.store import RunFolder
from arc.runs.threads import to_end
from arc.runs.workspaces import RUN_VARIABLE
from arc.runs.world import RunResult, World
from arc.workflow.handlers.registry import HandlerRegistry
from arc.workflow.language.sources import StoredSources
from arc.workflow.model import Workflow
from arc.workflow.state import RunState
from arc.workspace.git.metadata import MetadataBranch
from arc.workspace.git.repository import Repository
from arc.workspace.notices import Notice

__all__ = ["ResumeTarget", "resume_run"]

_LEFTOVER_GRACE = 0.5

ReadArtifact = Callable[[str], bytes | None]


@dataclass(frozen=True)
class Read:
    """Everything about a run that its resume needs, read and checked; nothing has been touched."""

    record: RunRecord
    repository: Repository | None
    standing: Standing
    config: RunConfig
    workflow: Workflow
    backends: Backends
    handlers: HandlerRegistry
    read_artifact: ReadArtifact
    committed: frozenset[str]


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
    claimed = await to_end(claim, target, world)
    try:
        finished = await asyncio.to_thread(_finished, claimed.folder)
        if finished is not None:
            told: list[str] = []
            await close_finished(claimed.folder, claimed.folder.read_record(), lambda notice: told.append(notice.message))
            claimed.lease.release()
            return replace(finished, notices=(*finished.notices, *told))
        read = await to_end(_read, claimed.folder, target, world)
        await end_processes(RUN_VARIABLE, claimed.folder.run_id, grace=_LEFTOVER_GRACE)
        live = await to_end(_take, claimed, read, target, world)
    except BaseException:
        claimed.lease.release()
        raise
    try:
        prepared = await to_end(_open, live, read)
        await clear_abandoned(live, prepared.state)
    except BaseException:
        live.close()
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


def _read(folder: RunFolder, target: ResumeTarget, world: World) -> Read:
    """Read everything and check that it belongs together."""
    record = folder.read_record()
    if record.mode == "in_place" and not Path(record.start_directory).is_dir():
        raise StateMismatchError(
            f"run {record.run_id} works in place in `{record.start_directory}`, which is not there any more",
            hints=(f"elsewhere: `arc run start WORKFLOW --resume {folder.checkpoint_file}` in a home that does not know the run",),
        )
    repository = _repository(record) if record.mode == "git" else None
    standing = stand_in_git(folder, record, repository) if repository is not None else stand_on_disk(folder)
    metadata = MetadataBranch(repository, record.run_id) if repository is not None else None
    store = ArtifactStore(folder.artifacts)

    def read_artifact(name: str) -> bytes | None:
        data = store.read(name)
        return metadata.read(name) if data is None and metadata is not None else data

    config = target.config(live_config(record.config, world.environ, record.run_id))
    texts, dry_run = folder.read_sources(), record.mode == "dry_run"
    workflow = load_workflow(
        Path(record.workflow_file), config, StoredSources(texts), shown=record.workflow_file, dry_run=dry_run, text=folder.read_graph()
    )
    backends = make_backends(config, texts.get(SCRIPT_SOURCE), dry_run=dry_run)
    check_models(workflow, backends)
    handlers = load_handlers(workflow, config, Path(record.start_directory))
    if standing.checkpoint is not None:
        load(standing.checkpoint.to_state().root, read_artifact)  # a missing artifact is told before anything is touched
    committed = frozenset(metadata.names("artifacts/")) if metadata is not None else frozenset()
    return Read(record, repository, standing, config, workflow, backends, handlers, read_artifact, committed)


def _take(claimed: Claimed, read: Read, target: ResumeTarget, world: World) -> LiveRun:
    """Hold what else must be held, clear what a dead process left in the folder, open the event log."""
    folder, record = claimed.folder, read.record
    place = claim_place(world, Path(record.start_directory), record.run_id) if record.mode == "in_place" else None
    try:
        redactor = make_redactor(world, read.config)
        if target.changes_config:
            record = replace(record, config=stored_config(read.config, redactor))
        for directory in (folder.path, folder.artifacts, folder.questions):
            remove_leftovers(directory)
        close_stale_questions(folder, world.clock)
        folder.cancel_file.unlink(missing_ok=True)
        live = LiveRun(
            world=world,
            folder=folder,
            lease=claimed.lease,
            record=record,
            config=read.config,
            workflow=read.workflow,
            redactor=redactor,
            events=EventLog(folder.events_file, run_id=record.run_id, clock=world.clock, redactor=redactor, observer=world.observer),
            repository=read.repository,
            place=place,
        )
    except BaseException:
        if place is not None:
            place.release()
        raise
    for notice in claimed.notices:
        live.tell(notice)
    if target.changes_config:
        live.tell(Notice("info", "resume.config", _new_config(read.config)))
    _tell_other_workflow(live, target)
    return live


def _new_config(config: RunConfig) -> str:
    model = config.model
    parts = {"backend": model.backend, "command": shlex.join(model.command), "model": model.model, "provider": model.provider}
    words = [f"{name} `{value}`" for name, value in parts.items() if value]
    words += ["gates take their first choice"] if config.auto_approve else []
    return f"from here on the run goes on with {', '.join(words)}"


def _tell_other_workflow(live: LiveRun, target: ResumeTarget) -> None:
    """Say so if the workflow's file is not any more what the run was started with: the run goes on with its own."""
    file = target.workflow if target.workflow is not None and target.workflow.suffix != ".toml" else Path(live.config.graph)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    if live.config.graph and live.redactor.text(text) != live.folder.read_graph():
        message = f"the run goes on with the workflow that it was started with; `{file}` says something else by now"
        live.tell(Notice("info", "resume.workflow_differs", message))


def _open(live: LiveRun, read: Read) -> Prepared:
    """Mend what a crash left and bring the files to the state."""
    earlier = read.standing.checkpoint.logs if read.standing.checkpoint is not None else ()
    writer = CheckpointWriter(
        live.folder,
        clock=live.world.clock,
        redactor=live.redactor,
        events=live.events,
        repository=live.repository,
        committed=read.committed,
        logs=lambda: (*earlier, *live.events.logs()),
    )
    opened, checkpoint = mend(live, read.standing, writer)
    live.update(resumed=live.record.resumed + 1)
    state = None if checkpoint is None else _state(checkpoint, live.folder, read.read_artifact)
    return Prepared(live, opened, writer, read.backends, read.handlers, state)


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


def _state(checkpoint: CheckpointFile, folder: RunFolder, read_artifact: ReadArtifact) -> RunState:
    """The engine's state: artifacts loaded, and no ordinal that was ever handed out is handed out again."""
    state = checkpoint.to_state()
    root = load(state.root, read_artifact)
    return replace(state, root=root, next_ordinal=max(state.next_ordinal, highest_ordinal(folder) + 1))
