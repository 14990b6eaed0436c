"""Pipes, sockets and devices below a worktree, which git never mentions: found by looking again only where a folder has changed.

A folder's change time, which no program can set back, changes when a name in it comes or goes. So each look costs one `lstat` per folder,
and one listing for each that changed. Folders that are ignored are not entered. What was listed tells also where new files can be.
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


@dataclass(frozen=True)
class Names:
    """The names in one folder, by what they stand for; `.git` is left out."""

    files: frozenset[bytes]
    folders: frozenset[bytes]
    special: tuple[bytes, ...]


@dataclass
class SpecialFiles:
    """What one worktree holds that git cannot store. `find` may be called again and again; the first call looks everywhere."""

    top: Path
    _times: dict[bytes, int] = field(default_factory=dict)
    _found: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    closed: set[bytes] = field(default_factory=set)
    """Folders of this process's own user that it may not list or enter: what is in them cannot be known (root may everything)."""

    listed: dict[bytes, Names] = field(default_factory=dict)
    """What is in the folders that the last look had to list."""
    grown: bool = True
    """Whether the last look met folders that it did not know."""

    def find(self, folders: Callable[[], Iterable[bytes]], ignored: Ignored) -> tuple[bytes, ...]:
        """Paths of all special files, sorted. `folders` lists those that are captured (asked once)."""
        place = os.fsencode(self.top)
        self.listed = {}
        self.grown = not self._times
        if not self._times:
            self._times = dict.fromkeys([b"", *folders()], -1)
        new: set[bytes] = set()
        for folder in self._changed(place):
            new |= self._look(place, folder)
        while candidates := sorted(new - self._times.keys()):
            skipped = set(ignored(candidates))
            new = set()
            for folder in candidates:
                if folder not in skipped:
                    self.grown = True
                    self._times[folder] = -1
                    new |= self._look(place, folder)
        return tuple(sorted(path for paths in self._found.values() for path in paths))

    @property
    def folders(self) -> tuple[bytes, ...]:
        """All folders that are looked at ("" is the top)."""
        return tuple(self._times)

    def _changed(self, place: bytes) -> list[bytes]:
        """Folders whose time has changed, and those that are gone. The one loop over all folders: an unchanged one costs one call."""
        found: list[bytes] = []
        for folder, known in self._times.items():
            try:
                if os.lstat(place + b"/" + folder).st_ctime_ns != known:
                    found.append(folder)
            except OSError:
                found.append(folder)
        return found

    def _look(self, place: bytes, folder: bytes) -> set[bytes]:
        """List a folder; its subfolders."""
        where = place + b"/" + folder if folder else place
        try:
            status = os.lstat(where)
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError
            self._note_closed(folder, status)
            changed = status.st_ctime_ns
            names = _list(where)
        except PermissionError:  # looked at again the next time
            return set()
        except OSError:  # gone or replaced
            self._forget(folder)
            return set()
        self._times[folder] = changed if changed < time.time_ns() - _RACY_NS else -1
        self.listed[folder] = names
        prefix = folder + b"/" if folder else b""
        if names.special:
            self._found[folder] = tuple(prefix + name for name in names.special)
        else:
            self._found.pop(folder, None)
        return {prefix + name for name in names.folders}

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


def _list(where: bytes) -> Names:
    """What is in a folder."""
    files: set[bytes] = set()
    folders: set[bytes] = set()
    special: list[bytes] = []
    with os.scandir(where) as entries:
        for entry in entries:
            if entry.name == b".git":
                continue
            if entry.is_file(follow_symlinks=False) or entry.is_symlink():
                files.add(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.add(entry.name)
            else:
                special.append(entry.name)
    return Names(frozenset(files), frozenset(folders), tuple(sorted(special)))
