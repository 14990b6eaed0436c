"""Do files and state of a run belong together? Which checkpoint is the newest, and which commit holds its files.

Both refs of a checkpoint move in one transaction, so for the checkpoint at the tip of the metadata branch there is a commit on the branch
of its frame whose trailer names it and whose tree is its `git_tree_sha`. It need not be the tip: an interrupted node may have committed,
reset or rewritten. Everything here only reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pygit2

from arc.base.errors import ArcError, CorruptError
from arc.runs.checkpoints import place_commit, with_root
from arc.runs.errors import NewerSchemaError, StateMismatchError
from arc.runs.events import read_events
from arc.runs.missing import Needed, missing_commits, newest_whole
from arc.runs.records import CheckpointFile, RunRecord
from arc.runs.store import RunFolder, parse_checkpoint
from arc.workflow.state import BranchState, FrameState, OpenBlock, frame_in
from arc.workspace.git.metadata import MetadataBranch
from arc.workspace.git.objects import tree_of
from arc.workspace.git.repository import Repository
from arc.workspace.git.trailers import parse_message

HEADS = "refs/heads/"
_SEARCH_LIMIT = 5_000


@dataclass(frozen=True)
class Standing:
    """Where a run stands. `checkpoint` is the newest whole one (None: nothing has completed), with the commits of its frames filled in.

    `in_git` is False if that checkpoint is on the disk only (a crash between steps 1 and 3, or Git had failed). `tip` is the commit of the
    run branch's last checkpoint. `branch` is the open parallel branch that the checkpoint was taken in, None for the run branch.
    `git_checkpoint` is the newest one that Git has. `mixed`: a later execution began in the same files after `checkpoint`.
    `missing`: commits of branches that are not here; `checkpoint` is then the newest that does without them.
    """

    checkpoint: CheckpointFile | None
    in_git: bool = True
    tip: str | None = None
    branch: BranchState | None = None
    git_checkpoint: CheckpointFile | None = None
    mixed: bool = False
    missing: tuple[Needed, ...] = ()


def stand_on_disk(folder: RunFolder) -> Standing:
    """For runs without Git. Raises `CorruptError`."""
    return Standing(folder.read_checkpoint())


def stand_in_git(folder: RunFolder, record: RunRecord, repository: Repository) -> Standing:
    """The newest of disk and Git, checked against the refs.

    Raises:
        CorruptError: one of the checkpoints cannot be read.
        StateMismatchError: the refs do not hold what the state says.
    """
    metadata = MetadataBranch(repository, record.run_id)
    head = metadata.head()
    disk = _disk_copy(folder, metadata)
    data = metadata.read("checkpoint.json", head) if head is not None else None
    stored = parse_checkpoint(data, f"{metadata.ref}:checkpoint.json") if data is not None else None
    start = record.snapshot_sha or record.base_sha
    if stored is not None and head is not None and (missing := _missing(stored, disk, repository)):
        return _before_missing(stored, disk, missing, record, repository, head)
    known = None if stored is None or head is None else _with_commit(stored, disk, record, repository, head)
    tip = _run_tip(known, start)
    if disk is None or (known is not None and (_same_step(disk, known) or age(disk) < age(known))):
        return Standing(_fresher(disk, known), True, tip, None, known)
    branch = branch_of(disk)
    return Standing(disk, False, tip, branch, known, mixed=_later_execution(folder, disk))


def _disk_copy(folder: RunFolder, metadata: MetadataBranch) -> CheckpointFile | None:
    """`checkpoint.json` of the run folder. Raises `CorruptError`; where Git has a copy, with the way to go on from that."""
    try:
        return folder.read_checkpoint()
    except NewerSchemaError:
        raise
    except CorruptError as error:
        if metadata.read("checkpoint.json") is None:
            raise
        place = folder.checkpoint_file
        raise CorruptError(
            f"{error.message}; nothing was changed", hints=(f"Git has a copy; to go on from that one: `mv {place} {place}.damaged`",)
        ) from error


def _missing(stored: CheckpointFile, disk: CheckpointFile | None, repository: Repository) -> tuple[Needed, ...]:
    """What the newest state needs and the repository lacks. (The disk's copy also names the commit of the branch it was taken in.)"""
    newest = disk if disk is not None and (_same_step(disk, stored) or age(disk) > age(stored)) else stored
    return missing_commits(newest, repository)


def _before_missing(
    stored: CheckpointFile,
    disk: CheckpointFile | None,
    missing: tuple[Needed, ...],
    record: RunRecord,
    repository: Repository,
    head: str,
) -> Standing:
    """The newest checkpoint that does without the missing commits. Ordinals and time go on from the newest of all."""
    metadata = MetadataBranch(repository, record.run_id)
    whole = newest_whole(repository, metadata, head)
    if whole is None and record.forked_from is not None:
        raise StateMismatchError(
            f"run {record.run_id} was forked inside a parallel block whose branches are not here; nothing was changed",
            hints=tuple(f"git fetch REMOTE {needed.ref}:{needed.ref}" for needed in missing),
        )
    if whole is None:
        return Standing(None, True, record.snapshot_sha or record.base_sha, missing=missing)
    last = max(stored.next_ordinal, disk.next_ordinal if disk is not None else 0)
    found = replace(whole[1], next_ordinal=last, elapsed_ms=max(stored.elapsed_ms, whole[1].elapsed_ms), status="running", failure=None)
    known = _with_commit(found, None, record, repository, whole[0])
    return Standing(known, True, _run_tip(known, record.snapshot_sha or record.base_sha), None, known, missing=missing)


def age(checkpoint: CheckpointFile) -> tuple[int, int, str]:
    """Grows from checkpoint to checkpoint. (The ordinal of a block is that of its beginning: it says nothing about when it completed.)"""
    return checkpoint.next_ordinal, checkpoint.elapsed_ms, checkpoint.timestamp


def _same_step(one: CheckpointFile, other: CheckpointFile) -> bool:
    """Whether both were taken after the same execution."""
    return one.completed == other.completed


def _fresher(disk: CheckpointFile | None, known: CheckpointFile | None) -> CheckpointFile | None:
    """Of two copies of one checkpoint, the one that also has the end of the run, with the commits that Git has."""
    if disk is None or known is None or not _same_step(disk, known):
        return known
    newer = disk if disk.timestamp >= known.timestamp else known
    return with_root(newer, known.to_state().root, git_tree_sha=known.git_tree_sha, git_parent_sha=known.git_parent_sha, git_error=None)


def _with_commit(
    stored: CheckpointFile, disk: CheckpointFile | None, record: RunRecord, repository: Repository, head: str
) -> CheckpointFile:
    """Git's copy of a checkpoint, with the commit that its trailer ties it to (the copy itself cannot name it)."""
    branch = branch_of(stored)
    ref = branch.ref if branch is not None else HEADS + (record.run_branch or "")
    assert ref is not None
    noted = disk.to_state().root if disk is not None and _same_step(disk, stored) else None
    frame = stored.completed.frame if stored.completed else ""
    commit = _find_commit(repository, ref, head, stored, commit_in(noted, frame) if noted is not None else None)
    return with_root(stored, place_commit(stored.to_state().root, frame, commit))


def _find_commit(repository: Repository, ref: str, head: str, stored: CheckpointFile, noted: str | None) -> str:
    """The commit that holds the files of `stored`: named by its trailer, else the one noted on the disk; its tree must be the state's."""
    tip = repository.ref(ref)
    family = frozenset(_same_checkpoint(repository, head, stored))
    for commit in _first_parents(repository, tip):
        told = parse_message(commit.message)
        ours = told is not None and (told.checkpoint in family or told.run_id != stored.run_id)
        if ours and str(commit.tree_id) == stored.git_tree_sha:
            return str(commit.id)
        if told is not None and told.checkpoint in family:
            raise StateMismatchError(
                f"commit {str(commit.id)[:12]} on `{_short(ref)}` names the checkpoint of ordinal {stored.ordinal}, whose files are others",
                hints=(f"look at it: `git show {commit.id}`",),
            )
    if noted is not None and _tree(repository, noted) == stored.git_tree_sha:
        return noted
    if tip is not None and stored.git_tree_sha is not None and _tree(repository, tip) == stored.git_tree_sha:
        return tip
    where = f"`{_short(ref)}`" if tip is not None else f"`{_short(ref)}`, which does not exist,"
    raise StateMismatchError(
        f"{where} does not hold the commit of the run's last checkpoint (ordinal {stored.ordinal}); nothing was changed",
        details=(f"the state is in the metadata commit {head}, its files are the tree {stored.git_tree_sha}",),
        hints=(f"fetch the branch from where the run ran: `git fetch REMOTE {ref}:{ref}`", "or look for it: `git reflog`"),
    )


def _same_checkpoint(repository: Repository, head: str, stored: CheckpointFile) -> Iterator[str]:
    """Metadata commits from the tip back that were made after the same execution (the run's end may have added one)."""
    metadata = MetadataBranch(repository, "")
    for commit in _first_parents(repository, head):
        data = metadata.read("checkpoint.json", str(commit.id))
        if data is None or not _same_step(parse_checkpoint(data, f"{commit.id}:checkpoint.json"), stored):
            return
        yield str(commit.id)


def _run_tip(known: CheckpointFile | None, start: str | None) -> str | None:
    """The run branch's last checkpoint: as the newest state in Git says, else where the run started."""
    if known is not None and known.git_commit_sha is not None:
        return known.git_commit_sha
    return start


def branches_to(checkpoint: CheckpointFile) -> list[tuple[OpenBlock, BranchState]]:
    """The open parallel branches that hold the frame a checkpoint was taken in, the outermost first, each with its block."""
    found: list[tuple[OpenBlock, BranchState]] = []
    prefix = checkpoint.completed.frame if checkpoint.completed is not None else ""
    frame: FrameState | None = checkpoint.to_state().root
    while frame is not None and frame.prefix != prefix and (block := frame.open_block) is not None:
        inner = next((branch for branch in block.branches if prefix.startswith(branch.frame.prefix)), None)
        if inner is not None:
            found.append((block, inner))
        frame = inner.frame if inner is not None else block.child
    return found


def branch_of(checkpoint: CheckpointFile) -> BranchState | None:
    """The innermost of `branches_to`; None if the checkpoint was taken on the run branch itself."""
    branches = branches_to(checkpoint)
    return branches[-1][1] if branches else None


def commit_in(frame: FrameState, prefix: str) -> str | None:
    """The commit of the frame `prefix` inside a frame."""
    found = frame_in(frame, prefix)
    return None if found is None else found.git_commit_sha


def highest_ordinal(folder: RunFolder) -> int:
    """The highest ordinal that was ever handed out: by node folders and by events."""
    told = max((event.ordinal or 0 for event in read_events(folder.events_file)), default=0)
    return max(folder.highest_ordinal(), told)


def _later_execution(folder: RunFolder, checkpoint: CheckpointFile) -> bool:
    """Whether another execution began in the same frame after the one that the checkpoint was taken after."""
    prefix = checkpoint.completed.frame if checkpoint.completed else ""
    return any(
        event.event == "node.started"
        and (event.ordinal or 0) > checkpoint.ordinal
        and event.node is not None
        and event.node.startswith(prefix)
        and "/" not in event.node[len(prefix) :]
        for event in read_events(folder.events_file)
    )


def _first_parents(repository: Repository, tip: str | None) -> Iterator[pygit2.Commit]:
    current = tip
    for _ in range(_SEARCH_LIMIT):
        commit = repository.pygit2.get(current) if current is not None else None
        if not isinstance(commit, pygit2.Commit):
            return
        yield commit
        current = str(commit.parent_ids[0]) if commit.parent_ids else None


def _tree(repository: Repository, commit: str) -> str | None:
    try:
        return tree_of(repository, commit)
    except (ArcError, ValueError):
        return None


def _short(ref: str) -> str:
    return ref.removeprefix(HEADS)
