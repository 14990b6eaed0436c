"""The worktree's own index, which agents use: replaced whole after each checkpoint, and what only it holds is kept first.

Content that an agent staged and then changed in the file is in no checkpoint: the file's newer content is. Replacing the index would leave
it to git's garbage collection, so it becomes a commit of its own. Git writes an index by replacing the file: one that is still the file
that arc put there has nothing new in it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from arc.base.git import GitError
from arc.workspace.git.errors import IndexBusyError
from arc.workspace.git.locks import clear_stale_lock
from arc.workspace.git.objects import GITLINK, Edits, edit_tree, entries_at, tree_of, write_commit
from arc.workspace.git.private_index import PrivateIndex, is_whole
from arc.workspace.git.staging import parse_changes
from arc.workspace.git.worktree import worktree_git
from arc.workspace.notices import Notice, NoticeSink

_BUSY_SECONDS = 0.5
_EMPTY = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
"""The empty file."""


@dataclass
class OwnIndex:
    """Knows what the worktree's own index was when arc last made or read it."""

    private: PrivateIndex
    notices: NoticeSink
    _seen: tuple[int, int, int] | None = None

    def sync(self) -> None:
        """Give the worktree the private index as its own, so that `git status` there is clean: one hard link and one rename.

        Git replaces index files and never writes into them, so two names for one file are safe. A stale `index.lock` is cleared; a live
        one is respected: the index is then left alone until the next checkpoint.
        """
        index = self.private.worktree.index
        lock = index.with_name("index.lock")
        try:
            if not (index.exists() and os.path.samefile(self.private.path, index)):
                clear_stale_lock(lock, wait=_BUSY_SECONDS)
                os.link(self.private.path, lock)
                os.rename(lock, index)
            self.examined()
        except (IndexBusyError, FileExistsError):
            message = "a git process holds the worktree's index; its index is brought up to date at the next checkpoint"
            self.notices(Notice("info", "workspace.index_busy", message))

    def examined(self) -> None:
        """Note that nothing in the index as it is now needs to be kept (any more)."""
        self._seen = self._identity()

    def staged_only(self, tip: str, tree: str, message: str) -> str | None:
        """A commit of what is staged and neither in the commit `tip` nor in the captured `tree` of the files; None if nothing is."""
        if (now := self._identity()) is None or now == self._seen:
            return None
        repository = self.private.repository
        tip_tree = tree_of(repository, tip)
        try:
            staged = self._changes(tip_tree) if is_whole(self.private.worktree.index) else None
        except GitError:
            staged = None
        if staged is None:
            told = "the worktree's own index is torn; it is made anew, and what was only staged in it is not kept"
            self.notices(Notice("warning", "workspace.index_broken", told))
            return None
        captured = entries_at(repository, tree, staged)
        only = {
            path: entry
            for path, entry in staged.items()
            if entry is not None
            and entry.mode != GITLINK
            and (path not in captured or captured[path].id != entry.id)
            and entry.id != _EMPTY  # also what `git add -N` announces
            and entry.id in repository.pygit2
        }
        if not only:
            self.examined()
            return None
        return write_commit(repository, edit_tree(repository, tip_tree, only), [tip], message)

    def _changes(self, tree: str) -> Edits:
        git = worktree_git(self.private.repository, self.private.worktree)
        command = ("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=all", tree)
        return {path: entry for path, entry in parse_changes(git.run(*command, read_only=True)).items() if entry is None or entry.mode != 0}

    def _identity(self) -> tuple[int, int, int] | None:
        try:
            status = self.private.worktree.index.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size
