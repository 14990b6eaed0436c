"""Starts a run: reads everything and decides before anything is written, then makes the run in an order that a crash cannot break.

Order: run folder (exclusive) → lease → graph.dot, sources/ → run.json (`created`: the run exists) → run branch and metadata ref in one
transaction → worktree → setup commands → run.json (`running`) → engine. docs/runs.md says what a crash after each step leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from arc import __version__
from arc.agent.protocol import ModelChoice
from arc.base.clock import rfc3339
from arc.base.errors import ArcError
from arc.base.faults import declare_faults, fault
from arc.base.git import GitMissingError
from arc.base.locks import Lease
from arc.base.redact import Redactor
from arc.runs.backends import SCRIPT_SOURCE, Backends, check_models, make_backends, read_script
from arc.runs.checkpoints import CheckpointWriter
from arc.runs.config import RunConfig
from arc.runs.config_files import Sources, read_sources
from arc.runs.errors import RecordWriteError
from arc.runs.events import EventLog
from arc.runs.execute import Prepared, execute
from arc.runs.live import LiveRun
from arc.runs.place import claim_place
from arc.runs.records import RUN_SCHEMA, RunMode, RunRecord
from arc.runs.redaction import stored_config
from arc.runs.store import RUN_BRANCH_PREFIX, RunFolder, create_run_folder
from arc.runs.threads import to_end
from arc.runs.workspaces import metadata_ref, open_workspace
from arc.runs.world import RunResult, StartRequest, World
from arc.workflow.check import read_workflow
from arc.workflow.handlers.registry import HandlerRegistry, default_registry, load_user_handlers
from arc.workflow.language.resolve import ResolveInputs
from arc.workflow.language.sources import FileSources, SourceReader
from arc.workflow.model import Workflow
from arc.workspace.git.repository import Repository
from arc.workspace.git.snapshot import snapshot_dirty
from arc.workspace.git.status import DirtyReport
from arc.workspace.notices import Notice

ENGINE_TYPES = frozenset({"parallel", "parallel.fan_in", "stack.manager_loop"})

declare_faults(
    {
        "start.lease": "the run folder is there and held, nothing is in it",
        "start.sources": "graph.dot and sources/ are written, run.json is not",
        "start.recorded": "run.json says `created`; no ref exists",
    }
)


@dataclass(frozen=True)
class Decided:
    """What a start comes to; nothing has been written yet."""

    request: StartRequest
    sources: Sources
    workflow: Workflow
    texts: Mapping[str, str]
    backends: Backends
    handlers: HandlerRegistry
    mode: RunMode
    repository: Repository | None = None
    base_sha: str | None = None
    snapshot: bool = False
    notices: tuple[Notice, ...] = field(default=())


async def start_run(request: StartRequest, world: World) -> RunResult:
    """Start a run and walk it to its end.

    Raises:
        ConfigError, SourceError, WorkflowError, NoBackendError, HandlerLoadError: what was given cannot run; nothing was written.
        BareRepositoryError, UntrustedRepositoryError: the repository cannot be used; nothing was written.
        LogsDirError: the run folder cannot be made.
        WorktreeError, SetupError, ...: see `arc.runs.execute`.
    """
    decided = await asyncio.to_thread(decide, request)
    prepared = await to_end(_create, decided, world)
    return await execute(prepared)


def decide(request: StartRequest) -> Decided:
    """Read configuration, workflow, handlers and repository, and decide how the run works. Writes nothing."""
    repository, missing = _repository(request.directory)
    sources = read_sources(request, repository.top if repository else None)
    if sources.directory != request.directory.resolve():
        repository, missing = _repository(sources.directory)
    config = sources.config
    workflow = load_workflow(
        sources.graph, config, FileSources(sources.graph.parent), shown=_shown(request, sources), dry_run=request.dry_run
    )
    script = None if request.dry_run else read_script(config)
    backends = make_backends(config, script, dry_run=request.dry_run)
    check_models(workflow, backends)
    handlers = load_handlers(workflow, config, sources.directory)
    texts = {**workflow.sources, **({SCRIPT_SOURCE: script} if script is not None else {})}
    told = [Notice("info", f"workflow.{note.rule}", f"{note.position}: {note.message}") for note in workflow.notices]
    base = Decided(request, sources, workflow, texts, backends, handlers, "in_place")
    return _decide_mode(base, repository, missing, told)


def _decide_mode(base: Decided, repository: Repository | None, missing: bool, told: list[Notice]) -> Decided:
    """The run's mode, with a notice wherever Git checkpoints are off."""
    if base.request.dry_run:
        told.append(Notice("info", "run.dry_run", "dry run: no command is executed, no model is called, the repository is not touched"))
        return replace(base, mode="dry_run", notices=tuple(told))
    if repository is None:
        why = "there is no git program" if missing else f"`{base.sources.directory}` is not in a Git repository"
        message = f"{why}: the run works in place and its checkpoints are on the disk only"
        told.append(_in_place(message, "run.no_git", *(("install git, then runs have Git checkpoints",) if missing else ())))
        return replace(base, notices=tuple(told))
    head = repository.head_commit()
    if head is None:
        told.append(
            _in_place(
                "the repository has no commit yet: the run works in place and its checkpoints are on the disk only",
                "run.no_commit",
                "a first commit gives the run a worktree and Git checkpoints",
            )
        )
        return replace(base, notices=tuple(told))
    dirty = repository.is_dirty()
    if dirty and not base.request.snapshot_dirty:
        told.append(
            Notice(
                "warning",
                "run.dirty",
                f"the working directory has uncommitted changes ({_count(dirty)}): the run works in place and Git checkpoints are disabled",
                (*dirty.names, "commit them first, or give --snapshot-dirty to take them along as checkpoint 0"),
            )
        )
        return replace(base, notices=tuple(told))
    return replace(base, mode="git", repository=repository, base_sha=head, snapshot=bool(dirty), notices=tuple(told))


def _in_place(message: str, code: str, remedy: str = "`git init` and a first commit give the run a worktree and Git checkpoints") -> Notice:
    return Notice("warning", code, message, (remedy,))


def _count(dirty: DirtyReport) -> str:
    parts = [f"{dirty.tracked} changed" if dirty.tracked else "", f"{dirty.untracked} untracked" if dirty.untracked else ""]
    return ", ".join(part for part in parts if part)


def _repository(directory: Path) -> tuple[Repository | None, bool]:
    """The repository around a directory, and whether the git program is missing."""
    try:
        return Repository.discover(directory), False
    except GitMissingError:
        return None, True


def _shown(request: StartRequest, sources: Sources) -> str:
    """The workflow's name in messages: as it was typed, where it was typed."""
    return str(request.source) if request.source.suffix != ".toml" else str(sources.graph)


def load_workflow(graph: Path, config: RunConfig, reader: SourceReader, *, shown: str, dry_run: bool, text: str | None = None) -> Workflow:
    """Read and check a workflow (`text`, or the file `graph`). Raises `WorkflowError`, `NotFoundError`."""
    model = config.model
    choice = ModelChoice(
        model=model.model, provider=model.provider, reasoning_effort=model.reasoning_effort or ModelChoice.reasoning_effort
    )
    inputs = ResolveInputs(goal=config.goal, inputs=config.inputs, choice=choice, dry_run=dry_run)
    return read_workflow(FileSources(graph.parent).read(graph.name) if text is None else text, shown, reader, inputs)


def load_handlers(workflow: Workflow, config: RunConfig, directory: Path) -> HandlerRegistry:
    """The registry with the user's handlers; every node type of the workflow is served. Raises `HandlerLoadError`, `UnknownTypeError`."""
    registry = default_registry()
    load_user_handlers(registry, config.handlers, directory)
    _check_types(workflow, registry)
    return registry


def _check_types(workflow: Workflow, registry: HandlerRegistry) -> None:
    for node in workflow.nodes.values():
        if node.type not in ENGINE_TYPES:
            registry.get(node.type)
        if node.child is not None:
            _check_types(node.child, registry)


def _create(decided: Decided, world: World) -> Prepared:
    """Make the run on the disk and in Git. Of an error, nothing is left but the run folder, which says so."""
    run_id = world.ids.run_id()
    redactor = make_redactor(world, decided.sources.config)
    place = claim_place(world, decided.sources.directory, run_id) if decided.mode == "in_place" else None
    try:
        live = _claim_and_record(decided, world, run_id, redactor)
        live.place = place
    except BaseException:
        if place is not None:
            place.release()
        raise
    folder = live.folder
    try:
        for told in decided.notices:
            live.tell(told)
        opened = open_workspace(live)
    except BaseException as error:
        if isinstance(error, ArcError):
            live.update(status="fail", failure=redactor.text(error.message))
        live.close()
        raise
    writer = CheckpointWriter(
        folder, clock=world.clock, redactor=redactor, events=live.events, repository=live.repository, logs=live.events.logs
    )
    return Prepared(live, opened, writer, decided.backends, decided.handlers)


def _claim_and_record(decided: Decided, world: World, run_id: str, redactor: Redactor) -> LiveRun:
    folder = create_run_folder(world, run_id, decided.request.logs_dir)
    lease = Lease.acquire(folder.lease_file, what=f"run {run_id}", clock=world.clock)
    try:
        fault("start.lease")
        return _record(decided, world, folder, lease, redactor)
    except OSError as error:
        lease.release()
        raise RecordWriteError(f"the run folder `{folder.path}` could not be filled: {error.strerror}; nothing was started") from error
    except BaseException:
        lease.release()
        raise


def _record(decided: Decided, world: World, folder: RunFolder, lease: Lease, redactor: Redactor) -> LiveRun:
    """Write what describes the run; run.json last."""
    hidden = [name for name, text in (("graph.dot", decided.workflow.source), *decided.texts.items()) if redactor.text(text) != text]
    folder.write_graph(redactor.text(decided.workflow.source))
    folder.write_sources({written: redactor.text(text) for written, text in decided.texts.items()})
    fault("start.sources")
    told: list[Notice] = []
    record = _run_record(decided, world, folder, redactor, _snapshot(decided, told))
    folder.write_record(record)
    fault("start.recorded")
    live = LiveRun(
        world=world,
        folder=folder,
        lease=lease,
        record=record,
        config=decided.sources.config,
        workflow=decided.workflow,
        redactor=redactor,
        events=EventLog(folder.events_file, run_id=folder.run_id, clock=world.clock, redactor=redactor, observer=world.observer),
        repository=decided.repository,
    )
    for one in told:
        live.tell(one)
    if hidden:
        names = ", ".join(f"`{name}`" for name in hidden)
        message = f"{names} hold what looks like a secret; it is stored redacted, so a resume will not have it: pass it by [environment]"
        live.tell(Notice("warning", "run.secret_in_source", message))
    return live


def _run_record(decided: Decided, world: World, folder: RunFolder, redactor: Redactor, snapshot: str | None) -> RunRecord:
    config, repository = decided.sources.config, decided.repository
    now = rfc3339(world.clock.now())
    git = decided.mode == "git"
    stored = stored_config(config, redactor)
    return RunRecord(
        schema=RUN_SCHEMA,
        run_id=folder.run_id,
        mode=decided.mode,
        status="created",
        workflow=decided.workflow.name,
        workflow_file=decided.workflow.file,
        goal=redactor.text(decided.workflow.goal),
        config=stored,
        start_directory=str(decided.sources.directory),
        created_at=now,
        updated_at=now,
        arc_version=__version__,
        labels=stored.labels,
        repository=str(repository.common_dir) if repository else None,
        subdirectory=repository.prefix if repository else ".",
        base_sha=decided.base_sha,
        run_branch=f"{RUN_BRANCH_PREFIX}{folder.run_id}" if git else None,
        metadata_ref=metadata_ref(folder.run_id) if git else None,
        worktree=str(folder.worktree) if git else None,
        snapshot_sha=snapshot,
    )


def _snapshot(decided: Decided, told: list[Notice]) -> str | None:
    """The dirty tree as a commit on top of HEAD, which the run branch will start at; None if there is nothing to take along."""
    if not decided.snapshot or decided.repository is None:
        return None
    globs = decided.sources.config.checkpoint.exclude_globs
    commit = snapshot_dirty(decided.repository, notices=told.append, exclude_globs=globs)
    told.append(Notice("info", "run.snapshot", f"the uncommitted changes were taken along as checkpoint 0 (commit {commit[:12]})"))
    return commit


def make_redactor(world: World, config: RunConfig) -> Redactor:
    """Knows the secrets of the environment, of `[environment]` and of the inputs (by their names)."""
    return Redactor.from_environment({**config.inputs, **world.environ, **config.environment.variables})
