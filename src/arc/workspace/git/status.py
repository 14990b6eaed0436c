"""Reading `git status --porcelain=v2 -z`: the list of paths that differ, as values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StatusEntry:
    """One path. `staged` and `unstaged` are git's letters (`.` = same). For untracked paths both are `?`, and folders end in `/`.

    `submodule` is git's `S...` field (`N...` for anything else): third letter `C` commit moved, then `M` changes, `U` untracked files.
    """

    path: bytes
    staged: str
    unstaged: str
    submodule: str = "N..."
    mode_head: int = 0
    mode_worktree: int = 0
    head_id: str = ""
    index_id: str = ""

    @property
    def untracked(self) -> bool:
        return self.staged == "?"

    @property
    def is_submodule(self) -> bool:
        return self.submodule.startswith("S")


@dataclass(frozen=True)
class DirtyReport:
    """Uncommitted work, counted; `names` are the first few paths. Falsy when there is none."""

    tracked: int
    untracked: int
    names: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.tracked or self.untracked)

    @classmethod
    def from_status(cls, entries: Sequence[StatusEntry]) -> DirtyReport:
        untracked = sum(1 for entry in entries if entry.untracked)
        names = tuple(os.fsdecode(entry.path).encode("utf-8", "replace").decode() for entry in entries[:5])
        return cls(len(entries) - untracked, untracked, names)


def parse_status(output: bytes) -> tuple[StatusEntry, ...]:
    """Parse the output of `git status --porcelain=v2 -z --no-renames`. Ignored entries (`!`) are left out."""
    entries: list[StatusEntry] = []
    for record in output.split(b"\0"):
        kind = record[:1]
        if kind == b"?":
            entries.append(StatusEntry(record[2:], "?", "?"))
        elif kind == b"1":
            _, xy, sub, mode_head, _, mode_worktree, head_id, index_id, path = record.split(b" ", 8)
            letters = xy.decode()
            entries.append(
                StatusEntry(
                    path,
                    letters[0],
                    letters[1],
                    sub.decode(),
                    int(mode_head, 8),
                    int(mode_worktree, 8),
                    head_id.decode(),
                    index_id.decode(),
                )
            )
        elif kind == b"u":
            _, _, sub, _, _, _, mode_worktree, _, _, _, path = record.split(b" ", 10)
            entries.append(StatusEntry(path, "U", "U", sub.decode(), mode_worktree=int(mode_worktree, 8)))
    return tuple(entries)
