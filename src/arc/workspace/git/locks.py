"""Git's lock files (`*.lock`): who holds one, and clearing those that a killed process left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from arc.workspace.git.errors import IndexBusyError

WAIT_SECONDS = 5.0
_UNKNOWABLE_AGE_SECONDS = 60.0


def lock_holder(lock: Path) -> int | None:
    """The process that has the lock file open, None if nobody has (git keeps a lock open until it renames or removes it).

    Where open files cannot be looked up (no /proc), a lock younger than a minute counts as held, by process 0.
    """
    try:
        wanted = lock.stat()
    except FileNotFoundError:
        return None
    processes = Path("/proc")
    if not (processes / "self" / "fd").is_dir():
        return 0 if time.time() - wanted.st_mtime < _UNKNOWABLE_AGE_SECONDS else None
    for name in os.listdir(processes):
        if name.isdecimal() and _has_open(processes / name / "fd", wanted):
            return int(name)
    return None


def _has_open(folder: Path, wanted: os.stat_result) -> bool:
    try:
        descriptors = os.listdir(folder)
    except OSError:  # ended meanwhile, or another user's
        return False
    for descriptor in descriptors:
        try:
            found = os.stat(folder / descriptor)
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False


def clear_stale_lock(lock: Path, *, wait: float = WAIT_SECONDS, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Remove a lock that nobody holds; True if one was removed. A held one is waited for, `wait` seconds at most.

    Raises:
        IndexBusyError: it is still held after that time.
    """
    deadline = time.monotonic() + wait
    while lock.exists():
        holder = lock_holder(lock)
        if holder is None:
            # Looked at twice: between the lookups a live holder may have closed the file and be about to rename it.
            sleep(0.02)
            if lock.exists() and lock_holder(lock) is None:
                lock.unlink(missing_ok=True)
                return True
            continue
        if time.monotonic() >= deadline:
            who = f"process {holder}" if holder else "another process"
            raise IndexBusyError(f"`{lock}` is held by {who}")
        sleep(0.02)
    return False
