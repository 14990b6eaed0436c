"""The person's uncommitted work as a commit (`--snapshot-dirty`), without touching their index, HEAD, stash or files."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from arc.base.git import person_settings
from arc.workspace.git.errors import WorktreeError
from arc.workspace.git.objects import write_commit
from arc.workspace.git.private_index import PrivateIndex
from arc.workspace.git.repository import Repository
from arc.workspace.git.staging import Stager
from arc.workspace.git.worktree import Worktree
from arc.workspace.notices import NoticeSink


def snapshot_dirty(
    repository: Repository,
    *,
    notices: NoticeSink,
    exclude_globs: tuple[str, ...] = (),
    message: str = "arc: uncommitted work",
) -> str:
    """Commit the checkout as it is (tracked and untracked, ignored not) on top of HEAD; returns the commit, which no ref names yet.

    Raises:
        WorktreeError: there is no commit yet to put it on.
        StageError: the files could not be captured.
    """
    head = repository.head_commit()
    if head is None:
        raise WorktreeError(f"the repository at `{repository.top}` has no commit yet")
    with tempfile.TemporaryDirectory(prefix="arc-snapshot-") as folder:
        state = Path(folder)
        checkout = Worktree(repository.top, repository.git_dir)
        index = PrivateIndex(repository, checkout, exclude_globs, state=state, more_excludes=person_excludes(repository))
        if checkout.index.exists():
            shutil.copy2(checkout.index, index.path)  # with its time: git doubts files that changed when the index was written
            index.forget_promises()
        stager = Stager(index, notices)
        captured = stager.capture(head)
        stager.settle(head)
    return write_commit(repository, captured.tree, [head], message + "\n")


def person_excludes(repository: Repository) -> bytes:
    """Patterns of the person's own ignore file."""
    named = person_settings(repository.top, "core.excludesFile").get("core.excludesFile")
    place = Path(named[-1]) if named else Path.home() / ".config" / "git" / "ignore"
    return place.read_bytes().rstrip(b"\n") + b"\n" if place.is_file() else b""
