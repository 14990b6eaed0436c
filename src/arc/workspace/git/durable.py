"""Bringing many small files to the disk at the price of one fsync, as git's `core.fsyncMethod=batch` does."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path

_START = 2
_START_AND_WAIT = 7
"""SYNC_FILE_RANGE_WRITE, and all three of its flags (linux/fs.h)."""


def sync_files(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Make the files durable. Those that are not there (an object that was in a pack already) are returned.

    On Linux their data is written back first, all at once; one fsync then commits the file system's journal, which holds the metadata of
    all of them, and flushes the disk's cache. Elsewhere each file is fsynced.
    """
    descriptors: list[int] = []
    missing: list[Path] = []
    try:
        for path in paths:
            try:
                descriptors.append(os.open(path, os.O_RDONLY))
            except FileNotFoundError:
                missing.append(path)
        if not descriptors:
            return tuple(missing)
        if not (sys.platform == "linux" and _write_back(descriptors)):
            for descriptor in descriptors[:-1]:
                os.fsync(descriptor)
        os.fsync(descriptors[-1])
        return tuple(missing)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _write_back(descriptors: Sequence[int]) -> bool:
    """Write the files' data back and wait for it; False if the system cannot."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "sync_file_range"):
        return False
    whole = ctypes.c_int64(0)
    for flags in (_START, _START_AND_WAIT):
        for descriptor in descriptors:
            if library.sync_file_range(descriptor, whole, whole, flags) != 0:
                return False
    return True
