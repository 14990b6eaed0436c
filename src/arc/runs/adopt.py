"""Makes a run of a checkpoint file: where nothing else is known of its run, or where the run has gone on without Git.

The state is the file's. The files are those of its `git_commit_sha` where the repository has that commit (the run gets its branch and
metadata ref again), else the directory's as they are. Written in the order of a start: folder, lease, graph, artifacts, checkpoint, refs,
and run.json last, so that a crash leaves a folder without a run.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pygit2

from arc import __version__
from arc.base.clock import rfc3339
from arc.base.errors import UsageError
from arc.base.faults import declare_faults, fault
from arc.base.json import encode
from arc.base.locks import Lease
from arc.base.redact import Redactor
from arc.runs.artifacts import ArtifactStore, load, references
from arc.runs.config import RunConfig
from arc.runs.config_files import read_sources
from arc.runs.history.lookup import KnownRun
from arc.runs.missing import missing_commits
from arc.runs.records import RUN_SCHEMA, CheckpointFile, RunRecord
from arc.runs.redaction import stored_config
from arc.runs.restore import claim_folder
from arc.runs.start import load_workflow, make_redactor
from arc.runs.store import RUN_BRANCH_PREFIX, RunFolder
from arc.runs.workspaces import HEADS, metadata_files, metadata_ref
from arc.runs.world import StartRequest, World
from arc.workflow.language.sources import FileSources
from arc.workflow.model import Workflow
from arc.workspace.git.metadata import MetadataBranch
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository
from arc.workspace.notices import Notice

declare_faults(
    {
        "adopt.folder": "a folder made of a checkpoint file has everything but its refs and run.json",
        "adopt.refs": "its refs exist, run.json does not",
    }
)


def adopt_checkpoint(
    file: Path, checkpoint: CheckpointFile, workflow: Path | None, directory: Path, world: World
) -> tuple[RunFolder, Lease, tuple[Notice, ...]]:
    """The run of a checkpoint file of which neither folder nor refs are here, under its own id, with the graph of `workflow`.

    Raises:
        UsageError: no workflow was given.
        ConfigError, SourceError, WorkflowError: it cannot be read, or does not have the checkpoint's next node.
        ArtifactMissingError: a value of the state lies in an artifact that is not beside the file.
    """
    if workflow is None:
        raise UsageError(
            f"nothing but `{file}` is known of run {checkpoint.run_id}: neither its folder nor its refs are here",
            hints=(f"give the workflow too: `arc run start WORKFLOW.dot --resume {file}`",),
        )
    repository = Repository.discover(directory)
    sources = read_sources(StartRequest(workflow, directory), repository.top if repository else None)
    known_inputs = _inputs(checkpoint)
    config = replace(sources.config, inputs={**known_inputs, **sources.config.inputs}, goal=_goal(checkpoint) or sources.config.goal)
    graph = load_workflow(sources.graph, config, FileSources(sources.graph.parent), shown=str(workflow), dry_run=False)
    if checkpoint.next_node_id is not None and checkpoint.next_node_id not in graph.nodes:
        raise UsageError(f"the checkpoint `{file}` goes on at node `{checkpoint.next_node_id}`, and `{workflow}` has no such node")
    artifacts = _artifacts(file, checkpoint)
    with_files = repository if _has_files(checkpoint, repository) else None
    redactor = make_redactor(world, config)
    folder, lease = claim_folder(world, checkpoint.run_id)
    try:
        record = _record(checkpoint, config, graph, with_files, folder, sources.directory, redactor, world)
        folder.write_graph(redactor.text(graph.source))
        folder.write_sources({written: redactor.text(text) for written, text in graph.sources.items()})
        ArtifactStore(folder.artifacts).restore(artifacts)
        folder.write_checkpoint(encode(checkpoint))
        fault("adopt.folder")
        if with_files is not None:
            _make_refs(with_files, record, graph, folder, checkpoint, artifacts, redactor)
            fault("adopt.refs")
        folder.write_record(record)
    except BaseException:
        lease.release()
        raise
    return folder, lease, (_told(file, checkpoint, with_files, sources.directory),)


def fork_from_file(known: KnownRun, file: Path, checkpoint: CheckpointFile, world: World) -> tuple[RunFolder, Lease, tuple[Notice, ...]]:
    """A new run from an older state of a run without Git, which itself keeps only its newest one."""
    source = known.need_folder("a fork")
    artifacts = _artifacts(file, checkpoint, source)
    run_id = world.ids.run_id()
    folder, lease = claim_folder(world, run_id)
    now = rfc3339(world.clock.now())
    try:
        folder.write_graph(source.read_graph())
        folder.write_sources(source.read_sources())
        ArtifactStore(folder.artifacts).restore(artifacts)
        folder.write_checkpoint(encode(replace(checkpoint, run_id=run_id, status="running")))
        record = replace(known.record, run_id=run_id, status="created", created_at=now, updated_at=now, failure=None, resumed=0)
        folder.write_record(replace(record, forked_from=f"{known.run_id}@{checkpoint.ordinal}", superseded_by=None))
    except BaseException:
        lease.release()
        raise
    message = (
        f"run {known.run_id} has gone on since `{file}` was saved: run {run_id} goes on from there; without Git checkpoints the files of "
        f"`{known.record.start_directory}` are taken as they are"
    )
    return folder, lease, (Notice("warning", "resume.forked", message),)


def _has_files(checkpoint: CheckpointFile, repository: Repository | None) -> bool:
    """Whether the repository has the commit of a checkpoint, and those of its open branches."""
    commit = checkpoint.git_commit_sha
    if commit is None or repository is None or not isinstance(repository.pygit2.get(commit), pygit2.Commit):
        return False
    return not missing_commits(checkpoint, repository)


def _told(file: Path, checkpoint: CheckpointFile, repository: Repository | None, directory: Path) -> Notice:
    if repository is not None:
        commit = (checkpoint.git_commit_sha or "")[:12]
        return Notice("info", "resume.adopted", f"run {checkpoint.run_id} goes on from `{file}` with the files of commit {commit}")
    if checkpoint.git_commit_sha is None:
        why = "it was taken without Git"
    else:
        why = f"its commit {checkpoint.git_commit_sha[:12]} (or one of an open branch) is not in this repository"
    message = f"run {checkpoint.run_id} goes on from `{file}` in `{directory}` with the files as they are: {why}"
    return Notice("warning", "resume.adopted", message)


def _record(
    checkpoint: CheckpointFile,
    config: RunConfig,
    workflow: Workflow,
    repository: Repository | None,
    folder: RunFolder,
    directory: Path,
    redactor: Redactor,
    world: World,
) -> RunRecord:
    now = rfc3339(world.clock.now())
    return RunRecord(
        schema=RUN_SCHEMA,
        run_id=checkpoint.run_id,
        mode="git" if repository else "in_place",
        status=checkpoint.status,
        workflow=workflow.name,
        workflow_file=workflow.file,
        goal=redactor.text(workflow.goal),
        config=stored_config(config, redactor),
        start_directory=str(directory),
        created_at=now,
        updated_at=now,
        arc_version=__version__,
        labels=stored_config(config, redactor).labels,
        repository=str(repository.common_dir) if repository else None,
        subdirectory=repository.prefix if repository else ".",
        base_sha=checkpoint.git_commit_sha if repository else None,
        run_branch=f"{RUN_BRANCH_PREFIX}{checkpoint.run_id}" if repository else None,
        metadata_ref=metadata_ref(checkpoint.run_id) if repository else None,
        worktree=str(folder.worktree) if repository else None,
        failure=checkpoint.failure,
    )


def _make_refs(
    repository: Repository,
    record: RunRecord,
    workflow: Workflow,
    folder: RunFolder,
    checkpoint: CheckpointFile,
    artifacts: dict[str, bytes],
    redactor: Redactor,
) -> None:
    """The metadata ref with the state, and the run branch (one that is still here stays where it is)."""
    files = {
        **metadata_files(record, workflow, folder, redactor),
        **artifacts,
        "checkpoint.json": encode(replace(checkpoint, git_commit_sha=None)),
    }
    metadata = MetadataBranch(repository, record.run_id).prepare(files, f"init run from a checkpoint file (ordinal {checkpoint.ordinal})")
    branch = f"{HEADS}{record.run_branch}"
    made = [] if repository.ref(branch) is not None else [RefUpdate(branch, checkpoint.git_commit_sha, None)]
    transact(repository, [metadata, *made])


def _artifacts(file: Path, checkpoint: CheckpointFile, source: RunFolder | None = None) -> dict[str, bytes]:
    """The artifacts that the state refers to, from beside the file. Raises `ArtifactMissingError`."""
    places = [ArtifactStore(file.absolute().parent / "artifacts"), *([ArtifactStore(source.artifacts)] if source else [])]

    def read(name: str) -> bytes | None:
        return next((data for place in places if (data := place.read(name)) is not None), None)

    root = checkpoint.to_state().root
    load(root, read)
    return {name: data for name in references(root) if (data := read(name)) is not None}


def _inputs(checkpoint: CheckpointFile) -> dict[str, str]:
    """The run's inputs, as its context remembers them."""
    values = checkpoint.context_values
    return {key.removeprefix("input."): value for key, value in values.items() if key.startswith("input.") and isinstance(value, str)}


def _goal(checkpoint: CheckpointFile) -> str | None:
    goal = checkpoint.context_values.get("graph.goal")
    return goal if isinstance(goal, str) and goal else None
