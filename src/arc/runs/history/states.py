"""The exact state of a run at one of its checkpoints: what `show RUN @N` prints and what a fork starts from.

The copy of `checkpoint.json` on the metadata branch was written before the commit that it belongs to existed, so the frame that had just
completed does not know its own commit. Here it is filled in from the timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pygit2

from arc.base.errors import RefusedError
from arc.base.json import JsonValue
from arc.runs.artifacts import ArtifactStore, load
from arc.runs.history.lookup import KnownRun
from arc.runs.history.timeline import Timeline, TimelineEntry
from arc.runs.records import CheckpointFile
from arc.runs.store import parse_checkpoint
from arc.workflow.state import BranchState, FrameState, OpenBlock, RunState
from arc.workspace.git.metadata import MetadataBranch


class StateNotKeptError(RefusedError):
    """The state at that checkpoint is not stored (a run without Git keeps its last one only)."""

    code = "checkpoint.not_kept"


def state_at(run: KnownRun, timeline: Timeline, entry: TimelineEntry) -> CheckpointFile:
    """The state after `entry`'s execution (for `@0`: the empty one), each frame with the commit that holds its files.

    Raises:
        StateNotKeptError: it is not stored anywhere.
        CorruptError: it is stored and cannot be read.
    """
    if entry.ordinal == 0:
        return _empty(run, entry)
    if entry.metadata is not None and run.repository is not None:
        name = f"{entry.metadata}:checkpoint.json"
        data = MetadataBranch(run.repository, run.run_id).read("checkpoint.json", entry.metadata)
        if data is not None:
            return _with_commit(parse_checkpoint(data, name), entry)
    stored = run.folder.read_checkpoint() if run.folder is not None else None
    if stored is not None and stored.ordinal == entry.ordinal:
        return stored
    kept = f" it keeps the last one, @{stored.ordinal}" if stored is not None else " it keeps none"
    raise StateNotKeptError(
        f"run {run.run_id} has no stored state for @{entry.ordinal} ({entry.path}): a checkpoint without Git is on disk only, and{kept}"
    )


def frame_of(checkpoint: CheckpointFile, prefix: str) -> FrameState | None:
    """The frame with this prefix in the state; None if it is closed by then."""
    waiting = [checkpoint.to_state().root]
    while waiting:
        frame = waiting.pop()
        if frame.prefix == prefix:
            return frame
        if frame.open_block is not None:
            waiting += [branch.frame for branch in frame.open_block.branches]
            waiting += [frame.open_block.child] if frame.open_block.child is not None else []
    return None


def whole_value(run: KnownRun, entry: TimelineEntry, value: JsonValue) -> JsonValue:
    """A context value with its artifact loaded, from the metadata branch or the run folder. Raises `ArtifactMissingError`."""

    def read(name: str) -> bytes | None:
        if entry.metadata is not None and run.repository is not None:
            data = MetadataBranch(run.repository, run.run_id).read(name, entry.metadata)
            if data is not None:
                return data
        return ArtifactStore(run.folder.artifacts).read(name) if run.folder is not None else None

    return load(FrameState(context_values={"value": value}), read).context_values["value"]


def run_commit_at(run: KnownRun, timeline: Timeline, entry: TimelineEntry) -> str | None:
    """Where the run branch was after `entry`: its own commit, or the last one before it that is on the run branch, or the base."""
    if run.repository is None:
        return None
    on_branch = set(_first_parents(run.repository.pygit2, run.repository.ref(run.refs.run_branch), run.record.base_sha))
    found = run.refs.start_sha
    for candidate in timeline.entries:
        if candidate.commit in on_branch:
            found = candidate.commit
        if candidate.ordinal == entry.ordinal:
            break
    return found if entry.ordinal else run.refs.start_sha


def branch_tip(branch: BranchState) -> str | None:
    """The commit a parallel branch stood at: of its innermost child that has one, of itself, or where it started."""
    frame: FrameState | None = branch.frame
    tip = branch.base_sha
    while frame is not None:
        tip = frame.git_commit_sha or tip
        frame = frame.open_block.child if frame.open_block is not None else None
    return tip


def open_branches(block: OpenBlock | None) -> Iterator[BranchState]:
    """All branches of open blocks, nested ones and those inside children too."""
    if block is None:
        return
    for branch in block.branches:
        yield branch
        yield from open_branches(branch.frame.open_block)
    if block.child is not None:
        yield from open_branches(block.child.open_block)


def map_block(
    block: OpenBlock | None, frame: Callable[[FrameState], FrameState], branch: Callable[[BranchState], BranchState]
) -> OpenBlock | None:
    """The block with every frame and every branch in it replaced, the innermost first."""
    if block is None:
        return None

    def whole(inner: FrameState) -> FrameState:
        return frame(replace(inner, open_block=map_block(inner.open_block, frame, branch)))

    return replace(
        block,
        branches=tuple(branch(replace(one, frame=whole(one.frame))) for one in block.branches),
        child=whole(block.child) if block.child is not None else None,
    )


def _with_commit(checkpoint: CheckpointFile, entry: TimelineEntry) -> CheckpointFile:
    if entry.commit is None:
        return checkpoint
    from arc.runs.checkpoints import place_commit, with_root  # the writing side; reading needs it here only

    return with_root(checkpoint, place_commit(checkpoint.to_state().root, entry.frame, entry.commit))


def _empty(run: KnownRun, entry: TimelineEntry) -> CheckpointFile:
    state = CheckpointFile.from_state(RunState(root=FrameState()), run_id=run.run_id, timestamp=entry.timestamp, completed=None)
    return replace(state, git_commit_sha=entry.commit)


def _first_parents(repo: pygit2.Repository, tip: str | None, base: str | None) -> Iterator[str]:
    while tip is not None:
        yield tip
        commit = repo.get(tip)
        if tip == base or not isinstance(commit, pygit2.Commit) or not commit.parent_ids:
            return
        tip = str(commit.parent_ids[0])
