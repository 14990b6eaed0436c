"""A fork: a new run, with its own id, folder and refs, that stands exactly where another run stood at one of its checkpoints.

What is written, in order, and what a crash after it leaves:

1. The run folder with graph, sources, artifacts, `checkpoint.json`; last `run.json` (status created). Before `run.json`: a folder that
   `arc run list` shows as incomplete. After it: a created run without refs.
2. Git objects of the metadata branch: unreachable, nothing refers to them.
3. One ref transaction: run branch, metadata branch, branches of open parallel blocks. From here the fork is whole.

The fork's metadata branch begins with a commit of its own (manifest, graph, sources); the second one holds the state and has the source's
metadata commit as second parent, so the whole story up to the fork is reachable from the fork's refs alone: deleting the source
and `git gc --prune=now` take nothing from it. The source is only read; it may be running.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from arc.base.clock import rfc3339
from arc.base.errors import RefusedError
from arc.base.faults import declare_faults, fault
from arc.base.json import JsonValue, encode
from arc.base.redact import Redactor
from arc.runs.artifacts import ArtifactStore, map_values
from arc.runs.history.details import read_timeline
from arc.runs.history.lookup import KnownRun
from arc.runs.history.states import branch_tip, map_block, open_branches, run_commit_at, state_at
from arc.runs.history.targets import find_text
from arc.runs.history.timeline import Timeline, TimelineEntry, list_refs, ref_target
from arc.runs.records import CheckpointFile, Manifest, RunRecord
from arc.runs.redaction import stored_config
from arc.runs.refs import RunRefs
from arc.runs.store import RunFolder, create_run_folder, parse_manifest
from arc.runs.world import World
from arc.workflow.state import BranchState, FrameState
from arc.workspace.git.metadata import MetadataBranch
from arc.workspace.git.objects import FILE, Entry, read_tree, tree_of, write_commit, write_tree
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository

declare_faults(
    {
        "fork.folder": "the fork's folder is complete, its run.json too; no ref exists",
        "fork.objects": "the fork's metadata commits are written; no ref exists",
        "fork.refs": "the fork's refs exist",
    }
)


class ForkWithoutFilesError(RefusedError):
    """The files of that checkpoint cannot be brought back, and nobody said that the state alone is enough."""

    code = "fork.no_files"


@dataclass(frozen=True)
class ForkRequest:
    """From where, and what is different: `inputs` override the source's, `state_only` accepts a fork without the files of then."""

    target: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    state_only: bool = False
    logs_dir: Path | None = None


@dataclass(frozen=True)
class Forked:
    """The new run. `commit` is where its run branch stands (None without Git), `next_node` what a resume executes first."""

    run_id: str
    forked_from: str
    entry: TimelineEntry
    logs_dir: Path
    run_branch: str | None
    commit: str | None
    next_node: str | None
    branches: tuple[str, ...] = ()


def fork_run(source: KnownRun, request: ForkRequest, world: World) -> Forked:
    """Make a new run from a checkpoint of `source`. It is not started: resume it.

    Raises:
        TargetNotFound, TargetAmbiguous, TargetSyntaxError: `request.target` names no checkpoint.
        StateNotKeptError: the state of that checkpoint is not stored.
        ForkWithoutFilesError: the run has no Git, so the files of then cannot be brought back (and `state_only` is not set).
        RefsMovedError: the refs could not be made; the new folder is removed again.
    """
    timeline = read_timeline(source)
    return fork_at(source, timeline, find_text(timeline, request.target), request, world)


def fork_at(source: KnownRun, timeline: Timeline, entry: TimelineEntry, request: ForkRequest, world: World) -> Forked:
    """`fork_run` with the timeline read and the target found."""
    commit = files_commit(source, timeline, entry, state_only=request.state_only)
    run_id = world.ids.run_id()
    refs = RunRefs.of(run_id, source.record.base_sha, source.record.snapshot_sha)
    now = rfc3339(world.clock.now())
    stored = state_at(source, timeline, entry)
    state = _renamed(stored, source.run_id, run_id, timestamp=now if entry.ordinal == 0 else stored.timestamp)
    record = _record(source.record, entry, refs, state, request, now, with_git=commit is not None)
    record = replace(record, config=stored_config(record.config, Redactor.from_environment(world.environ)))
    folder = create_run_folder(world, run_id, request.logs_dir)
    record = replace(record, worktree=str(folder.worktree) if commit is not None else None)
    try:
        _fill(folder, source, entry, state, record)
        fault("fork.folder")
        branches: tuple[str, ...] = ()
        if commit is not None:
            branches = _make_refs(source, entry, state, record, refs, commit)
    except BaseException:
        _undo(folder, world)
        raise
    return Forked(
        run_id=run_id,
        forked_from=f"{source.run_id}@{entry.ordinal}",
        entry=entry,
        logs_dir=folder.path,
        run_branch=record.run_branch,
        commit=commit,
        next_node=state.next_node_id,
        branches=branches,
    )


def files_commit(source: KnownRun, timeline: Timeline, entry: TimelineEntry, *, state_only: bool) -> str | None:
    """Where the fork's run branch starts; None for a fork of the state alone. Raises `ForkWithoutFilesError`."""
    if source.record.mode == "dry_run":
        return None
    commit = run_commit_at(source, timeline, entry) if entry.ordinal == 0 or entry.commit is not None else None
    if commit is None and not state_only:
        why = "it has no Git checkpoints" if source.repository is None else "its commit failed"
        raise ForkWithoutFilesError(
            f"the files of run {source.run_id} at @{entry.ordinal} cannot be brought back: {why}; nothing was changed",
            hints=(f"arc run fork {source.run_id} @{entry.ordinal} --state-only",),
        )
    return None if state_only else commit


def _renamed(state: CheckpointFile, old: str, new: str, *, timestamp: str) -> CheckpointFile:
    """The state under the new run's id: its own branch refs, also where a context value names one."""
    was, now = f"arc/branch/{old}/", f"arc/branch/{new}/"

    def value(known: JsonValue) -> JsonValue:
        if isinstance(known, str):
            full = "refs/heads/" if known.startswith("refs/heads/") else ""
            return full + now + known[len(full + was) :] if known.startswith(full + was) else known
        if isinstance(known, list):
            return [value(item) for item in known]
        if isinstance(known, dict):
            return {key: value(item) for key, item in known.items()}
        return known

    def branch(one: BranchState) -> BranchState:
        return replace(one, ref=one.ref.replace(was, now, 1) if one.ref is not None else None)

    root = map_values(
        FrameState(context_values=state.context_values, node_outcomes=state.node_outcomes, open_block=state.open_block), value
    )
    return replace(
        state,
        run_id=new,
        timestamp=timestamp,
        context_values=root.context_values,
        node_outcomes=root.node_outcomes,
        open_block=map_block(root.open_block, lambda frame: frame, branch),
        status="running" if state.status == "canceled" else state.status,
        git_error=None,
    )


def _record(
    source: RunRecord, entry: TimelineEntry, refs: RunRefs, state: CheckpointFile, request: ForkRequest, now: str, *, with_git: bool
) -> RunRecord:
    finished = state.status in ("success", "partial_success")
    return replace(
        source,
        run_id=refs.run_id,
        mode="git" if with_git else ("in_place" if source.mode == "git" else source.mode),
        status=state.status if finished else "created",
        config=replace(source.config, inputs={**source.config.inputs, **request.inputs}),
        created_at=now,
        updated_at=now,
        repository=source.repository if with_git else None,
        run_branch=refs.run_branch.removeprefix("refs/heads/") if with_git else None,
        metadata_ref=refs.metadata if with_git else None,
        worktree=None,
        forked_from=f"{source.run_id}@{entry.ordinal}",
        superseded_by=None,
        failure=None,
        resumed=0,
    )


def _fill(folder: RunFolder, source: KnownRun, entry: TimelineEntry, state: CheckpointFile, record: RunRecord) -> None:
    if source.folder is not None:
        folder.write_graph(source.folder.read_graph())
        folder.write_sources(source.folder.read_sources())
    else:
        _fill_from_git(folder, source)
    _copy_artifacts(folder, source, entry)
    if entry.ordinal:
        folder.write_checkpoint(encode(state))
    folder.write_record(record)


def _fill_from_git(folder: RunFolder, source: KnownRun) -> None:
    branch = MetadataBranch(source.need_git("a fork"), source.run_id)
    manifest = _manifest(branch, None)
    folder.write_graph((branch.read("graph.dot") or b"").decode())
    folder.write_sources({written: (branch.read(path) or b"").decode() for written, path in manifest.sources.items()})


def _manifest(branch: MetadataBranch, commit: str | None) -> Manifest:
    return parse_manifest(branch.read("manifest.json", commit) or b"", f"{commit or branch.ref}:manifest.json")


def _copy_artifacts(folder: RunFolder, source: KnownRun, entry: TimelineEntry) -> None:
    files: dict[str, bytes] = {}
    if entry.metadata is not None and source.repository is not None:
        branch = MetadataBranch(source.repository, source.run_id)
        files = {name: branch.read(name, entry.metadata) or b"" for name in branch.names("artifacts/", entry.metadata)}
    elif source.folder is not None and source.folder.artifacts.is_dir():
        files = {f"artifacts/{path.name}": path.read_bytes() for path in sorted(source.folder.artifacts.glob("*.json"))}
    if files:
        ArtifactStore(folder.artifacts).restore(files)


def _make_refs(
    source: KnownRun, entry: TimelineEntry, state: CheckpointFile, record: RunRecord, refs: RunRefs, commit: str
) -> tuple[str, ...]:
    repository = source.need_git("a fork")
    assert entry.metadata is not None
    metadata = _metadata_commits(repository, entry, state, record)
    fault("fork.objects")
    branches = _branch_updates(repository, source, entry, state, refs)
    transact(repository, [RefUpdate(refs.run_branch, commit, None), RefUpdate(refs.metadata, metadata, None), *branches])
    fault("fork.refs")
    return tuple(update.ref for update in branches)


def _branch_updates(
    repository: Repository, source: KnownRun, entry: TimelineEntry, state: CheckpointFile, refs: RunRefs
) -> list[RefUpdate]:
    """The branches of open blocks where they stood; those of earlier blocks that were never merged where they stand."""
    updates: dict[str, RefUpdate] = {}
    for branch in open_branches(state.open_block):
        tip = branch_tip(branch)
        if branch.ref is not None and tip is not None:
            updates[branch.ref] = RefUpdate(branch.ref, tip, None)
    for name in list_refs(repository.pygit2, source.refs.branches):
        rest = name.removeprefix(source.refs.branches)
        number = rest.partition("-")[0]
        tip = ref_target(repository.pygit2, name)
        mine = refs.branches + rest
        if tip is not None and number.isdigit() and int(number) <= entry.ordinal and mine not in updates:
            updates[mine] = RefUpdate(mine, tip, None)
    return list(updates.values())


def _metadata_commits(repository: Repository, entry: TimelineEntry, state: CheckpointFile, record: RunRecord) -> str:
    """Write the fork's first two metadata commits (for `@0` one); returns the newest."""
    assert entry.metadata is not None
    origin = read_tree(repository, tree_of(repository, entry.metadata))
    manifest = replace(
        _manifest(MetadataBranch(repository, record.run_id), entry.metadata),
        run_id=record.run_id,
        run_branch=record.run_branch or "",
        start_time=record.created_at,
        config=record.config,
        forked_from=record.forked_from,
        arc_version=record.arc_version,
    )
    first: dict[bytes, Entry] = {name: origin[name] for name in (b"graph.dot", b"sources") if name in origin}
    first[b"manifest.json"] = _blob(repository, encode(manifest))
    message = f"init run {record.run_id}, forked from {record.forked_from}\n"
    init = write_commit(repository, write_tree(repository, first), [], message)
    if entry.ordinal == 0:
        return init
    whole = first | {name: origin[name] for name in (b"artifacts",) if name in origin}
    whole[b"checkpoint.json"] = _blob(repository, encode(state))
    return write_commit(repository, write_tree(repository, whole), [init, entry.metadata], f"fork of {record.forked_from}: {entry.path}\n")


def _blob(repository: Repository, data: bytes) -> Entry:
    return Entry(FILE, str(repository.pygit2.create_blob(data)))


def _undo(folder: RunFolder, world: World) -> None:
    """Remove the folder of a fork that did not come to be: it holds copies only."""
    shutil.rmtree(folder.path, ignore_errors=True)
    shutil.rmtree(world.runs / folder.run_id, ignore_errors=True)
