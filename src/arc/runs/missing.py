"""Which commits of parallel branches a state needs, and the newest state of a run whose commits are all here.

The two refs of a run hold every commit of its run branch. Commits of a branch that is not joined yet hang on the branch's own ref: a clone
that fetched only the two refs lacks them. Such a run goes back to the last checkpoint before the block, whose files are all there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pygit2

from arc.runs.records import CheckpointFile
from arc.runs.store import parse_checkpoint
from arc.workflow.state import FrameState
from arc.workspace.git.metadata import MetadataBranch
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository

JOINED = ("success", "partial_success")


@dataclass(frozen=True)
class Needed:
    """A branch's ref and the commit it must hold; None = only the ref knows (the checkpoint was taken in that very branch)."""

    ref: str
    commit: str | None


def needed_commits(checkpoint: CheckpointFile) -> Iterator[Needed]:
    """Commits of branches that a resume from this state goes on from or joins, in all frames."""
    yield from _in_frame(checkpoint.to_state().root, "running")


def _in_frame(frame: FrameState, status: str) -> Iterator[Needed]:
    block = frame.open_block
    if block is None:
        yield from _to_be_joined(frame)
        return
    if block.child is not None:
        yield from _in_frame(block.child, status)
    for branch in block.branches:
        if branch.status in (*JOINED, "running") and branch.ref is not None:
            if branch.frame.git_commit_sha != branch.base_sha:
                yield Needed(branch.ref, branch.frame.git_commit_sha)
            yield from _in_frame(branch.frame, branch.status)


def _to_be_joined(frame: FrameState) -> Iterator[Needed]:
    """Branches of a block that has just completed: its join comes next."""
    results = frame.context_values.get(f"parallel.{frame.current_node}.results")
    for result in results if isinstance(results, list) else ():
        if not isinstance(result, dict) or result.get("status") not in JOINED:
            continue
        ref, commit, base = result.get("ref"), result.get("commit"), result.get("base")
        if isinstance(ref, str) and isinstance(commit, str) and commit != base:
            yield Needed(ref, commit)


def missing_commits(checkpoint: CheckpointFile, repository: Repository) -> tuple[Needed, ...]:
    """Those that the repository does not have."""
    return tuple(needed for needed in needed_commits(checkpoint) if not _is_here(needed, repository))


def _is_here(needed: Needed, repository: Repository) -> bool:
    if needed.commit is None:
        return repository.ref(needed.ref) is not None
    return isinstance(repository.pygit2.get(needed.commit), pygit2.Commit)


def make_missing_refs(checkpoint: CheckpointFile, repository: Repository) -> tuple[str, ...]:
    """Branch refs that are gone while their commits are here are made again; returns their names."""
    made = [
        RefUpdate(needed.ref, needed.commit, None)
        for needed in needed_commits(checkpoint)
        if needed.commit is not None and repository.ref(needed.ref) is None
    ]
    transact(repository, made)
    return tuple(update.ref for update in made)


def newest_whole(repository: Repository, metadata: MetadataBranch, head: str) -> tuple[str, CheckpointFile] | None:
    """From the metadata commit `head` back, the first whose state has all its commits here, with the state (None: the start)."""
    current: str | None = head
    while current is not None:
        data = metadata.read("checkpoint.json", current)
        if data is None:
            return None
        checkpoint = parse_checkpoint(data, f"{current}:checkpoint.json")
        if checkpoint.run_id and not missing_commits(checkpoint, repository):
            return current, checkpoint
        commit = repository.pygit2[current]
        assert isinstance(commit, pygit2.Commit)
        current = str(commit.parent_ids[0]) if commit.parent_ids else None
    return None
