"""What a node did to HEAD and to the run branch, and putting HEAD back after a checkpoint."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pygit2

from arc.base.atomic import write_atomic
from arc.workspace.git.refs import RefUpdate
from arc.workspace.git.repository import Repository
from arc.workspace.git.worktree import Worktree
from arc.workspace.notices import Notice

ASIDE_PREFIX = "refs/arc-aside/"
_STATES = (
    "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "MERGE_RR", "AUTO_MERGE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "SQUASH_MSG",
    "BISECT_LOG", "BISECT_START", "BISECT_NAMES", "BISECT_TERMS", "rebase-merge", "rebase-apply", "sequencer",
)  # fmt: skip
"""What an operation of git leaves in the administrative folder while it is under way."""
_LITTER = frozenset({"AUTO_MERGE", "MERGE_RR"})
"""Those that finished operations leave too (`git stash pop`, for one)."""


@dataclass(frozen=True)
class HeadReport:
    """Where HEAD and the branch are. `sentence` says what the node did (None: nothing); `commits` are its own, to be kept reachable."""

    branch: str | None
    sentence: str | None
    commits: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()


def look_at_head(repository: Repository, worktree: Worktree, ref: str, tip: str) -> HeadReport:
    """Compare HEAD and the branch with how the last checkpoint left them (HEAD on `ref`, `ref` at `tip`)."""
    branch = repository.ref(ref)
    head = _head(worktree)
    unfinished = tuple(name for name in _STATES if (worktree.admin / name).exists())
    if _LITTER.issuperset(unfinished):
        unfinished = ()
    if head == f"ref: {ref}" and branch == tip and not unfinished:
        return HeadReport(branch, None)
    told: list[str] = []
    commits: list[str] = []
    if branch is None:
        told.append("deleted the run branch")
    elif branch != tip:
        told.append(_branch_sentence(repository, tip, branch))
        commits.append(branch)
    if head is None:
        told.append("broke HEAD")
    elif not head.startswith("ref: "):
        told.append(f"detached HEAD at {head[:12]}")
        commits.append(head)
    elif head != f"ref: {ref}":
        other = head.removeprefix("ref: ")
        told.append(f"switched to the branch `{other.removeprefix('refs/heads/')}`")
        if (commit := repository.ref(other)) is not None:
            commits.append(commit)
    if unfinished:
        told.append(f"left an operation of git unfinished ({', '.join(unfinished)})")
        commits += [c for name in unfinished if (c := _commit_in(worktree.admin / name)) is not None]
    own = tuple(dict.fromkeys(commit for commit in commits if _is_new(repository, commit, tip)))
    return HeadReport(branch, " and ".join(told) or None, own, unfinished)


def aside_updates(repository: Repository, run_id: str, name: str, commits: tuple[str, ...]) -> list[RefUpdate]:
    """Refs that keep these commits reachable, under free names."""
    updates: list[RefUpdate] = []
    taken: set[str] = set()
    for commit in commits:
        ref = free_aside_ref(repository, run_id, name, taken)
        taken.add(ref)
        updates.append(RefUpdate(ref, commit, None))
    return updates


def free_aside_ref(repository: Repository, run_id: str, name: str, taken: set[str] | frozenset[str] = frozenset()) -> str:
    """`refs/arc-aside/{run_id}/{name}`, with a number if there is one already; `name` is made fit for a ref."""
    fit = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-").replace("..", "-").removesuffix(".lock")[:80] or "aside"
    base = f"{ASIDE_PREFIX}{run_id}/{fit}"
    ref, number = base, 1
    while ref in taken or repository.ref(ref) is not None:
        number += 1
        ref = f"{base}-{number}"
    return ref


def restore_head(repository: Repository, worktree: Worktree, ref: str, unfinished: tuple[str, ...]) -> None:
    """HEAD on the run branch again; state files of unfinished operations are moved away (their commits are in aside refs)."""
    if _head(worktree) != f"ref: {ref}":
        (worktree.admin / "HEAD.lock").unlink(missing_ok=True)
        write_atomic(worktree.admin / "HEAD", f"ref: {ref}\n".encode(), mode=0o644)
    if unfinished:
        number = 1
        while (folder := worktree.admin / f"arc-unfinished-{number}").exists():
            number += 1
        folder.mkdir()
        for name in unfinished:
            (worktree.admin / name).rename(folder / name)


def _head(worktree: Worktree) -> str | None:
    try:
        return os.fsdecode((worktree.admin / "HEAD").read_bytes()).strip() or None
    except OSError:
        return None


def _branch_sentence(repository: Repository, tip: str, branch: str) -> str:
    if _descends(repository, branch, tip):
        return "made commits of its own on the run branch"
    if _descends(repository, tip, branch):
        return "moved the run branch back"
    return "rewrote the run branch"


def _descends(repository: Repository, commit: str, ancestor: str) -> bool:
    try:
        return bool(repository.pygit2.descendant_of(commit, ancestor))
    except (KeyError, ValueError, pygit2.GitError):
        return False


def _is_new(repository: Repository, commit: str, tip: str) -> bool:
    """Whether the commit exists and is not part of the run's history already."""
    try:
        found = repository.pygit2.get(commit)
    except ValueError:
        return False
    return isinstance(found, pygit2.Commit) and commit != tip and not _descends(repository, tip, commit)


def _commit_in(place: Path) -> str | None:
    """A commit that an unfinished operation refers to: in the file itself, or an autostash."""
    file = place / "autostash" if place.is_dir() else place
    try:
        text = file.read_text(errors="replace").split("\n", 1)[0].strip()
    except OSError:
        return None
    return text if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text) else None


def describe(report: HeadReport, node: str, refs: list[str]) -> Notice:
    """The notice about what a node did to HEAD."""
    kept = (f"its own commits are kept at {', '.join(refs)}",) if refs else ()
    message = f"node `{node}` {report.sentence}; the checkpoint is on the run branch, on top of the last one"
    return Notice("warning", "workspace.head_moved", message, kept)
