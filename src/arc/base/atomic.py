"""Files that are whole or absent after a crash: atomic replacement, append-only logs, private and exclusive directories.

Everything here blocks (it waits for the disk); on an event loop call it through `asyncio.to_thread`.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from types import TracebackType

TEMPORARY_SUFFIX = ".arc-tmp"
"""End of the names of files being written. One that outlives its process is litter: see `remove_leftovers`."""


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Replace `path` by `data`: temporary file in the same directory, fsync, rename, fsync of the directory.

    A reader sees the old content or the new one, never a mixture; when the call has returned, the new content survives a power cut.
    `durable=False` leaves both fsyncs out (for files that can be made again). On any error the old file is untouched and the
    temporary one is removed. Raises `OSError`.
    """
    temporary = path.with_name(f".{path.name[:100]}.{os.urandom(6).hex()}{TEMPORARY_SUFFIX}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            _write_all(descriptor, data)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable (new, renamed and deleted entries)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private_directory(path: Path) -> Path:
    """Create a directory that only its owner can enter (0700), and missing parents likewise; one that exists is left as it is."""
    for directory in (*reversed(path.parents), path):
        with contextlib.suppress(FileExistsError):
            if not directory.is_dir():
                os.mkdir(directory, 0o700)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return path


def create_exclusive_directory(path: Path) -> Path:
    """Create `path` (0700) and its missing parents; of two processes that try, exactly one succeeds.

    Raises `FileExistsError` if anything of that name exists. The new name is durable on return.
    """
    make_private_directory(path.parent)
    os.mkdir(path, 0o700)
    sync_directory(path.parent)
    return path


def remove_leftovers(directory: Path) -> tuple[str, ...]:
    """Delete temporary files that a killed `write_atomic` left directly in `directory`. Only for the owner of the directory."""
    removed = []
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(directory):
            if entry.name.endswith(TEMPORARY_SUFFIX) and entry.is_file(follow_symlinks=False):
                os.unlink(entry.path)
                removed.append(entry.name)
    return tuple(removed)


class AppendLog:
    """An append-only file of lines: one `write` per record, so that a crash tears at most the last one.

    Opening a log whose last line is torn ends that line first: the torn piece stays where it is (nothing is deleted) and the next
    record starts on a line of its own. Used from one thread at a time.
    """

    def __init__(self, path: Path, *, mode: int = 0o600) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
        size = os.fstat(self._descriptor).st_size
        self.torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"
        if self.torn:
            _write_all(self._descriptor, b"\n")

    def append(self, record: bytes) -> None:
        """Add one record (a newline is added if it has none). Raises `OSError`; the log then ends where it ended before."""
        line = record if record.endswith(b"\n") else record + b"\n"
        before = os.fstat(self._descriptor).st_size
        try:
            _write_all(self._descriptor, line)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, before)
            raise

    def sync(self) -> None:
        """Wait until everything appended is on the disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> AppendLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def read_lines(path: Path) -> tuple[list[bytes], bool]:
    """The complete lines of an append-only log, without their newlines, and whether a torn piece follows them.

    A missing file is an empty log. A torn piece in the middle (see `AppendLog`) is returned as a line: its reader will fail to decode it.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], False
    *lines, tail = data.split(b"\n")
    return lines, tail != b""


def _write_all(descriptor: int, data: bytes) -> None:
    """Write everything; a short write (a full disk) goes on until the system says why."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
