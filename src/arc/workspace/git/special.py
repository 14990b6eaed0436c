"""Pipes, sockets and devices below a worktree, which git never mentions: found by looking again only where a folder has changed.

A folder's modification time changes when a name in it comes or goes. So each look costs one `lstat` per folder, and one listing for each
that changed. Folders that are ignored are not entered.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

_RACY_NS = 50_000_000
"""A folder changed this shortly before it was listed may change again without its time telling; it is listed again the next time."""

Ignored = Callable[[list[bytes]], Iterable[bytes]]
"""Which of these folders are not to be entered."""


@dataclass
class SpecialFiles:
    """What one worktree holds that git cannot store. `find` may be called again and again; the first call looks everywhere."""

    top: Path
    _times: dict[bytes, int] = field(default_factory=dict)
    _found: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    closed: set[bytes] = field(default_factory=set)
    """Folders of this process's own user that it may not list or enter: what is in them cannot be known (root may everything)."""

    def find(self, folders: Callable[[], Iterable[bytes]], ignored: Ignored) -> tuple[bytes, ...]:
        """Paths of all special files, sorted. `folders` lists those that are captured (asked once)."""
        place = os.fsencode(self.top)
        if not self._times:
            self._times = dict.fromkeys([b"", *folders()], -1)
        new: set[bytes] = set()
        for folder in list(self._times):
            new |= self._look(place, folder)
        while candidates := sorted(new - self._times.keys()):
            skipped = set(ignored(candidates))
            new = set()
            for folder in candidates:
                if folder not in skipped:
                    self._times[folder] = -1
                    new |= self._look(place, folder)
        return tuple(sorted(path for paths in self._found.values() for path in paths))

    @property
    def folders(self) -> tuple[bytes, ...]:
        """All folders that are looked at ("" is the top)."""
        return tuple(self._times)

    def _look(self, place: bytes, folder: bytes) -> set[bytes]:
        """List a folder if it has changed; its subfolders."""
        where = place + b"/" + folder if folder else place
        try:
            status = os.lstat(where)
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError
            self._note_closed(folder, status)
            if (changed := status.st_mtime_ns) == self._times.get(folder, changed):
                return set()
            odd, below = _list(where, folder + b"/" if folder else b"")
        except PermissionError:  # looked at again the next time
            return set()
        except OSError:  # gone or replaced
            self._forget(folder)
            return set()
        self._times[folder] = changed if changed < time.time_ns() - _RACY_NS else -1
        if odd:
            self._found[folder] = tuple(odd)
        else:
            self._found.pop(folder, None)
        return below

    def _note_closed(self, folder: bytes, status: os.stat_result) -> None:
        user = os.geteuid()
        if user != 0 and status.st_uid == user and status.st_mode & 0o500 != 0o500:
            self.closed.add(folder)
        else:
            self.closed.discard(folder)

    def _forget(self, folder: bytes) -> None:
        """Drop a folder and all below it: a link may stand there now, which is not followed."""
        for known in [name for name in self._times if name == folder or name.startswith(folder + b"/")]:
            self._times.pop(known)
            self._found.pop(known, None)
            self.closed.discard(known)


def _list(where: bytes, prefix: bytes) -> tuple[list[bytes], set[bytes]]:
    """Special files and subfolders of one folder; `.git` is nobody's."""
    odd: list[bytes] = []
    below: set[bytes] = set()
    with os.scandir(where) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False) or entry.is_symlink() or entry.name == b".git":
                continue
            if entry.is_dir(follow_symlinks=False):
                below.add(prefix + entry.name)
            else:
                odd.append(prefix + entry.name)
    return odd, below
