"""A run's timeline: its checkpoints in order, each with the commit that holds its files and the one that holds its state.

Where the run has a Git metadata branch, that branch is the source: one `checkpoint.json` per commit, matched with the commits of the
run branch and of the branches of parallel blocks by their `Arc-Checkpoint` trailer. Two refs are enough: a clone without a run folder
gives the same timeline. A fork's metadata branch has its source's history as a second parent, so the timeline of a fork starts
with what it inherited. Each object is read once. Without Git, the records on disk are read (`arc.runs.history.disk_timeline`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

import msgspec
import pygit2
from pygit2.enums import SortMode

from arc.base.clock import rfc3339
from arc.base.errors import CorruptError
from arc.runs.records import CompletedRecord
from arc.runs.refs import RunRefs
from arc.workflow.state import RunStatus
from arc.workspace.git.trailers import parse_message


class TimelineCorrupt(CorruptError):
    """A commit of the metadata branch does not hold what it should."""

    code = "timeline.corrupt"


@dataclass(frozen=True)
class TimelineEntry:
    """One checkpoint. `path` is the node's path (empty for the start), `frame` the prefix of the frame it belongs to.

    `commit` holds the files (None: no Git, or that commit failed), `parent` is the commit it is compared with, `metadata` the commit that
    holds the state (None: only on disk). `run_id` is the run that took it: a fork inherits entries of its source. `timestamp` is
    RFC 3339 UTC; `duration_ms` the node's own time. `run_status` is the whole run's status at that moment.
    """

    ordinal: int
    path: str
    node: str
    frame: str
    visit: int
    status: str
    attempts: int
    timestamp: str
    duration_ms: int | None
    run_status: RunStatus
    run_id: str
    next_node: str | None = None
    commit: str | None = None
    parent: str | None = None
    metadata: str | None = None


@dataclass(frozen=True)
class Timeline:
    """`start` is `@0`: the base commit and the metadata commit that has the graph; `entries` are ordered by when they were taken."""

    run_id: str
    start: TimelineEntry
    entries: tuple[TimelineEntry, ...]

    @property
    def last(self) -> TimelineEntry:
        """The newest checkpoint, or the start."""
        return self.entries[-1] if self.entries else self.start


@dataclass(frozen=True)
class _OutcomeBrief:
    duration_ms: int | None = None


@dataclass(frozen=True)
class _FrameBrief:
    prefix: str = ""
    node_retries: dict[str, int] = field(default_factory=dict)
    node_visits: dict[str, int] = field(default_factory=dict)
    node_outcomes: dict[str, _OutcomeBrief] = field(default_factory=dict)
    open_block: _BlockBrief | None = None
    git_commit_sha: str | None = None


@dataclass(frozen=True)
class _BranchBrief:
    frame: _FrameBrief


@dataclass(frozen=True)
class _BlockBrief:
    branches: tuple[_BranchBrief, ...] = ()
    child: _FrameBrief | None = None


@dataclass(frozen=True)
class CheckpointBrief:
    """The part of `checkpoint.json` that a timeline needs: decoding the rest of it is most of the cost of reading it."""

    run_id: str
    timestamp: str
    ordinal: int
    status: RunStatus
    next_node_id: str | None = None
    completed: CompletedRecord | None = None
    git_commit_sha: str | None = None
    git_parent_sha: str | None = None
    node_retries: dict[str, int] = field(default_factory=dict)
    node_visits: dict[str, int] = field(default_factory=dict)
    node_outcomes: dict[str, _OutcomeBrief] = field(default_factory=dict)
    open_block: _BlockBrief | None = None

    def entry(self, *, metadata: str | None) -> TimelineEntry | None:
        """The timeline's line for it; None if nothing has completed yet. Commits are filled in by the caller."""
        completed = self.completed
        if completed is None:
            return None
        frame = self._frame(completed.frame)
        outcome = frame.node_outcomes.get(completed.node) if frame else None
        return TimelineEntry(
            ordinal=completed.ordinal,
            path=completed.path,
            node=completed.node,
            frame=completed.frame,
            visit=frame.node_visits.get(completed.node, 0) if frame else 0,
            status=completed.status,
            attempts=1 + frame.node_retries.get(completed.node, 0) if frame else 1,
            timestamp=self.timestamp,
            duration_ms=outcome.duration_ms if outcome else None,
            run_status=self.status,
            run_id=self.run_id,
            next_node=self.next_node_id,
            commit=frame.git_commit_sha if frame else None,
            parent=self.git_parent_sha,
            metadata=metadata,
        )

    def _frame(self, prefix: str) -> _FrameBrief | None:
        root = _FrameBrief("", self.node_retries, self.node_visits, self.node_outcomes, self.open_block, self.git_commit_sha)
        waiting = [root]
        while waiting:
            frame = waiting.pop()
            if frame.prefix == prefix:
                return frame
            if frame.open_block is not None:
                waiting.extend(branch.frame for branch in frame.open_block.branches)
                if frame.open_block.child is not None:
                    waiting.append(frame.open_block.child)
        return None


class HasPygit2(Protocol):
    """What is needed of a repository here."""

    @property
    def pygit2(self) -> pygit2.Repository: ...


def git_timeline(repository: HasPygit2, refs: RunRefs) -> Timeline | None:
    """The timeline as the two refs tell it; None if there is no metadata branch.

    Raises:
        TimelineCorrupt: a metadata commit has a `checkpoint.json` that cannot be read; names the commit.
    """
    repo = repository.pygit2
    head = ref_target(repo, refs.metadata)
    if head is None:
        return None
    commits = run_commits(repo, refs)
    entries: dict[int, TimelineEntry] = {}
    blobs: dict[str, CheckpointBrief] = {}
    oldest: pygit2.Commit | None = None
    for commit in metadata_chain(repo, head):
        oldest = commit
        brief = _brief(commit, blobs)
        entry = brief.entry(metadata=str(commit.id)) if brief else None
        if entry is None:
            continue
        matched = commits.get(str(commit.id))
        known = entries.get(entry.ordinal)
        if known is None:
            entries[entry.ordinal] = _placed(repo, entry, matched)
        elif known.commit is None and matched is not None:
            # The newer metadata commit closed the run (its state counts); the commit of the files names this older one.
            entries[entry.ordinal] = replace(known, commit=matched[0], parent=matched[1])
    assert oldest is not None
    return Timeline(refs.run_id, _start_entry(refs, oldest), with_visits(tuple(entries.values())[::-1]))


def ref_target(repo: pygit2.Repository, name: str) -> str | None:
    """The commit that a ref holds, None if there is no such ref or it holds no commit."""
    reference = repo.references.get(name)
    if reference is None:
        return None
    try:
        return str(reference.peel(pygit2.Commit).id)
    except (pygit2.GitError, ValueError, KeyError):
        return None


def metadata_chain(repo: pygit2.Repository, head: str) -> Iterator[pygit2.Commit]:
    """The metadata commits from the newest to the oldest; through a fork's second parent into its source's history.

    Ends where an object is missing (a shallow fetch).
    """
    wanted: str | pygit2.Oid | None = head
    while wanted is not None:
        commit = repo.get(wanted)
        if not isinstance(commit, pygit2.Commit):
            return
        yield commit
        wanted = commit.parent_ids[-1] if commit.parent_ids else None


def run_commits(repo: pygit2.Repository, refs: RunRefs) -> dict[str, tuple[str, str | None]]:
    """Metadata commit -> (commit that holds the files, its first parent), for all commits made since the base.

    Looks at the run branch and at the branches and the work set aside of this run: a branch merged by a fan-in is reached through it.
    """
    tips = [ref_target(repo, refs.run_branch)]
    tips += [ref_target(repo, name) for name in list_refs(repo, refs.branches, refs.aside)]
    found = [tip for tip in tips if tip is not None]
    if not found:
        return {}
    walker = repo.walk(found[0], SortMode.NONE)
    for tip in found[1:]:
        walker.push(tip)
    if refs.base_sha is not None and refs.base_sha in repo:
        walker.hide(refs.base_sha)
    matched: dict[str, tuple[str, str | None]] = {}
    for commit in walker:
        parsed = parse_message(commit.message)
        if parsed is not None and parsed.checkpoint is not None:
            matched.setdefault(parsed.checkpoint, (str(commit.id), str(commit.parent_ids[0]) if commit.parent_ids else None))
    return matched


def list_refs(repo: pygit2.Repository, *prefixes: str) -> list[str]:
    """Names of the refs that start with one of the prefixes, sorted."""
    return sorted(name for name in repo.references if name.startswith(prefixes))


def with_visits(entries: tuple[TimelineEntry, ...]) -> tuple[TimelineEntry, ...]:
    """Fill in visits that a checkpoint did not say (its frame was closed by then): the count of earlier ones of that path, plus one."""
    counts: dict[str, int] = {}
    result = []
    for entry in entries:
        visit = entry.visit or counts.get(entry.path, 0) + 1
        counts[entry.path] = visit
        result.append(entry if entry.visit else replace(entry, visit=visit))
    return tuple(result)


def _placed(repo: pygit2.Repository, entry: TimelineEntry, matched: tuple[str, str | None] | None) -> TimelineEntry:
    """The entry with the commit of its files: by trailer, else as the checkpoint itself says (a fork's first one does)."""
    if matched is not None:
        return replace(entry, commit=matched[0], parent=matched[1])
    commit = repo.get(entry.commit) if entry.commit is not None else None
    if not isinstance(commit, pygit2.Commit):
        return replace(entry, commit=None, parent=None)
    return replace(entry, parent=str(commit.parent_ids[0]) if commit.parent_ids else None)


def _brief(commit: pygit2.Commit, blobs: dict[str, CheckpointBrief]) -> CheckpointBrief | None:
    try:
        blob = commit.tree["checkpoint.json"]
    except KeyError:
        return None
    key = str(blob.id)
    if key not in blobs:
        if not isinstance(blob, pygit2.Blob):
            raise TimelineCorrupt(f"`checkpoint.json` in metadata commit {commit.id} is not a file")
        try:
            blobs[key] = msgspec.json.decode(blob.data, type=CheckpointBrief)
        except msgspec.DecodeError as error:
            raise TimelineCorrupt(f"`checkpoint.json` in metadata commit {commit.id} cannot be read: {error}") from error
    return blobs[key]


def _start_entry(refs: RunRefs, oldest: pygit2.Commit) -> TimelineEntry:
    moment = datetime.fromtimestamp(oldest.commit_time, UTC)
    return start_entry(refs.run_id, rfc3339(moment), commit=refs.start_sha, metadata=str(oldest.id))


def start_entry(run_id: str, timestamp: str, *, commit: str | None = None, metadata: str | None = None) -> TimelineEntry:
    """`@0`: nothing has run yet, the files are the base's."""
    return TimelineEntry(
        ordinal=0,
        path="",
        node="",
        frame="",
        visit=0,
        status="start",
        attempts=0,
        timestamp=timestamp,
        duration_ms=None,
        run_status="running",
        run_id=run_id,
        commit=commit,
        metadata=metadata,
    )
