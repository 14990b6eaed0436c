"""What a worktree shares with the caller's repository and a node can change from inside it: the stash, branches and tags, configuration.

None of it is part of a checkpoint, and arc cannot know who changed it, a node or the person. So: what vanished stays reachable under
`refs/arc-aside/`, the change is told, and only one thing is undone: stash entries that were made on a branch of the run are taken off the
caller's stash again (and kept).
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pygit2

from arc.base.git import Git, GitError
from arc.workspace.git.errors import RefsMovedError
from arc.workspace.git.head import aside_updates
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository
from arc.workspace.git.worktree import Worktree, registrations, symbolic_ref, worktree_git
from arc.workspace.notices import Notice, NoticeSink

_FOLDERS = ("refs/heads", "refs/tags")
_OWN = "refs/heads/arc"
_RACY_NS = 50_000_000
_ENTRY = re.compile(rb"[0-9a-f]+ (?P<commit>[0-9a-f]+) [^\t]*\t(?:WIP on|On) (?P<branch>[^:]*):")

Marks = dict[str, tuple[int, int]]
"""Path below the repository -> (inode, modification time): what changes when a ref changes."""


@dataclass
class SharedState:
    """What the repository of one run was when arc last looked. One for all worktrees of the run; safe from several threads."""

    repository: Repository
    run_id: str
    notices: NoticeSink
    _stash: tuple[str, ...] = ()
    _config: bytes = b""
    _marks: Marks = field(default_factory=dict)
    _refs: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._stash = tuple(commit for commit, branch in self._entries() if not self._is_ours(branch))
        self._config = self._read("config")
        self._marks, self._refs = self._list_refs()

    def look(self, worktree: Worktree, who: str) -> None:
        """Compare with the last look and deal with what changed; `who` names the node. Never fails: it says what it could not do."""
        with self._lock:
            for part in (self._look_at_stash, self._look_at_config, self._look_at_refs):
                try:
                    part(worktree, who)
                except (GitError, RefsMovedError, pygit2.GitError, OSError, ValueError) as error:
                    message = f"what `{who}` changed in the caller's repository could not be examined: {error}"
                    self.notices(Notice("warning", "workspace.shared_unknown", message))

    # -- the stash --------------------------------------------------------------------------------------------------------------

    def _look_at_stash(self, worktree: Worktree, who: str) -> None:
        entries = list(self._entries())
        ours = [commit for commit, branch in entries if self._is_ours(branch)]
        theirs = tuple(commit for commit, branch in entries if not self._is_ours(branch))
        if ours:
            refs = self._keep(f"stash-{who}", ours)
            for commit in ours:
                self._take_off(worktree, commit)
            message = f"`{who}` used `git stash`, which belongs to the whole repository: its entries are taken off the caller's stash"
            self.notices(Notice("warning", "workspace.stash", message, tuple(f"kept at {ref}" for ref in refs)))
        gone = [commit for commit in self._stash if commit not in theirs]
        if gone:
            refs = self._keep("stash-gone", gone)
            message = f"{len(gone)} entries of the repository's stash are gone (used or dropped while `{who}` ran, by it or by a person)"
            hints = tuple(f"kept at {ref}; to put it back: `git stash store {ref}`" for ref in refs)
            self.notices(Notice("warning", "workspace.stash_gone", message, hints))
        self._stash = theirs

    def _take_off(self, worktree: Worktree, commit: str) -> None:
        """Drop one entry; should somebody stash at that very moment and the wrong one go, it is put back."""
        git = worktree_git(self.repository, worktree)
        newest_first = [found for found, _ in self._entries()][::-1]
        if commit not in newest_first:
            return
        said = os.fsdecode(git.run("stash", "drop", f"stash@{{{newest_first.index(commit)}}}"))
        dropped = re.search(r"\(([0-9a-f]{40,64})\)", said)
        if dropped is not None and dropped[1] != commit:
            git.run("stash", "store", "--quiet", "-m", "put back by arc", dropped[1])

    def _entries(self) -> Iterator[tuple[str, str]]:
        """Stash entries, oldest first: commit, and the branch it was made on."""
        for line in self._read("logs/refs/stash").splitlines():
            if (found := _ENTRY.match(line)) is not None:
                yield found["commit"].decode(), os.fsdecode(found["branch"])
            elif len(words := line.split(b" ", 2)) == 3:
                yield words[1].decode(errors="replace"), ""

    def _is_ours(self, branch: str) -> bool:
        return branch == f"arc/run/{self.run_id}" or branch.startswith(f"arc/branch/{self.run_id}/")

    # -- configuration ----------------------------------------------------------------------------------------------------------

    def _look_at_config(self, worktree: Worktree, who: str) -> None:
        now = self._read("config")
        if now == self._config:
            return
        before, after = _settings(self._config), _settings(now)
        self._config = now
        names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        if names:
            message = f"the repository's configuration changed while `{who}` ran (by it or by a person); it belongs to the whole repository"
            self.notices(Notice("warning", "workspace.config_changed", message, tuple(names)))

    # -- branches and tags ------------------------------------------------------------------------------------------------------

    def _look_at_refs(self, worktree: Worktree, who: str) -> None:
        if self._marks and self._marks == self._mark(self._marks):
            return
        before = self._refs
        self._marks, self._refs = self._list_refs()
        elsewhere = self._checked_out_elsewhere(worktree)
        told: list[str] = []
        for name in sorted(before.keys() | self._refs.keys()):
            old, new = before.get(name), self._refs.get(name)
            if old == new or name in elsewhere:
                continue
            lost = [old] if old is not None and (new is None or not self._descends(new, old)) else []
            kept = "".join(f"; it was at {old}, kept at {ref}" for ref in self._keep(f"ref-{name}", lost))
            told.append(f"{name} {'is new' if old is None else 'is gone' if new is None else 'has moved'}{kept}")
        if told:
            message = f"branches or tags of the repository changed while `{who}` ran (by it or by a person)"
            self.notices(Notice("info", "workspace.refs_changed", message, tuple(told[:20])))

    def _list_refs(self) -> tuple[Marks, dict[str, str]]:
        common = self.repository.common_dir
        places = ["packed-refs"]
        for start in _FOLDERS:
            for folder, below, _ in os.walk(common / start):
                below[:] = [name for name in below if os.path.join(folder, name) != str(common / _OWN)]
                places.append(os.path.relpath(folder, common))
        marks = self._mark(dict.fromkeys(places, (0, 0)))
        output = self.repository.git().run("for-each-ref", "--format=%(objectname) %(refname)", *_FOLDERS, read_only=True)
        refs = {name: commit for commit, name in (line.split(" ", 1) for line in os.fsdecode(output).splitlines())}
        newest = max((time_ns for _, time_ns in marks.values()), default=0)
        trusted = marks if newest < time.time_ns() - _RACY_NS else {}
        return trusted, {name: commit for name, commit in refs.items() if not name.startswith(f"{_OWN}/")}

    def _mark(self, places: Marks) -> Marks:
        found: Marks = {}
        for place in places:
            try:
                status = os.stat(self.repository.common_dir / place)
            except FileNotFoundError:
                found[place] = (0, 0)
            else:
                found[place] = (status.st_ino, status.st_mtime_ns)
        return found

    def _checked_out_elsewhere(self, worktree: Worktree) -> set[str]:
        """Branches that somebody works on in another checkout: they change by themselves."""
        heads = {symbolic_ref(self.repository.common_dir)}
        heads |= {found.ref for found in registrations(self.repository.common_dir) if found.admin != worktree.admin}
        return {head for head in heads if head is not None}

    def _descends(self, commit: str, ancestor: str) -> bool:
        try:
            return bool(self.repository.pygit2.descendant_of(commit, ancestor))
        except (KeyError, ValueError, pygit2.GitError):
            return False

    # -- both -------------------------------------------------------------------------------------------------------------------

    def _keep(self, name: str, commits: list[str]) -> list[str]:
        """Keep commits reachable; the refs that do."""
        known = [commit for commit in commits if commit in self.repository.pygit2]
        updates: list[RefUpdate] = aside_updates(self.repository, self.run_id, name, tuple(known))
        transact(self.repository, updates)
        return [update.ref for update in updates]

    def _read(self, name: str) -> bytes:
        try:
            return (self.repository.common_dir / name).read_bytes()
        except FileNotFoundError:
            return b""


def _settings(text: bytes) -> dict[str, list[bytes]]:
    """Name -> values of a configuration file; a broken one has none."""
    found: dict[str, list[bytes]] = {}
    for record in Git(Path("/")).run("config", "--file", "-", "--null", "--list", input=text, check=False).split(b"\0")[:-1]:
        name, _, value = record.partition(b"\n")
        found.setdefault(os.fsdecode(name), []).append(value)
    return found


__all__ = ["SharedState"]
