"""Leases: who owns a folder right now, held by `flock` for the life of a process and named for people.

The lock is the truth, the JSON inside is its name. The kernel drops the lock when the process dies, however it dies, so there is
nothing to break and nothing to time out. `Lease.holder` answers without touching the lock of a process on this machine.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import platform
import sys
import time
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import TracebackType

from arc.base.clock import Clock, SystemClock, rfc3339
from arc.base.errors import BusyError, CorruptError
from arc.base.json import decode, encode

_PROBE_GRACE = 0.2
"""Seconds that `acquire` retries: a probe of `holder` from another machine takes the lock for an instant."""


@dataclass(frozen=True)
class Owner:
    """A process. `start_time` tells it from a later process of the same pid (boot id and clock ticks; empty = unknown)."""

    pid: int
    start_time: str
    host: str
    since: str
    command: str
    about: str = ""
    """What it holds the lease for, such as `run 01J...`; empty if the lease itself says so."""

    def __str__(self) -> str:
        return f"{self.about + ', ' if self.about else ''}process {self.pid} on {self.host} since {self.since}"


class LeaseHeldError(BusyError):
    """Another live process holds the lease; `owner` names it (None while it is still writing its name)."""

    code = "lease.held"

    def __init__(self, what: str, owner: Owner | None, *, hints: tuple[str, ...] = ()) -> None:
        who = str(owner) if owner else "another process"
        details = (f"its command is `{owner.command}`",) if owner and owner.command else ()
        super().__init__(f"{what} is held by {who}", details=details, hints=hints)
        self.owner = owner


def process_start(pid: int) -> str | None:
    """What tells this process from others of its pid: boot id and start tick. None = no such process, "" = cannot be known here."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
        return "" if _signalable(pid) else None
    except OSError:
        return "" if _signalable(pid) else None
    state, *fields = stat.rpartition(b")")[2].split()
    if state in (b"Z", b"X"):
        return None
    return f"{boot}:{int(fields[18])}"


def _signalable(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def this_process(clock: Clock | None = None, about: str = "") -> Owner:
    """This process as an owner, from now on."""
    command = " ".join(takewhile(lambda word: not word.startswith("-"), sys.argv))  # options may hold secrets
    return Owner(
        pid=os.getpid(),
        start_time=process_start(os.getpid()) or "",
        host=platform.node(),
        since=rfc3339((clock or SystemClock()).now()),
        command=command[:200],
        about=about,
    )


class Lease:
    """A held lease. Get one with `acquire`; it ends with `release` or with the process."""

    def __init__(self, path: Path, descriptor: int, owner: Owner) -> None:
        self.path = path
        self.owner = owner
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, path: Path, *, what: str = "", clock: Clock | None = None, about: str = "") -> Lease:
        """Take the lease on `path` (created if missing), at once or not at all.

        `what` names the thing in the message (`run 01J...`), `about` what it is held for. Raises `LeaseHeldError` (a `BusyError`) naming
        the live owner, `OSError`.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _lock(descriptor):
                raise LeaseHeldError(what or f"`{path}`", _read_owner(path))
            owner = this_process(clock, about)
            record = encode(owner)
            os.pwrite(descriptor, record, 0)
            os.ftruncate(descriptor, len(record))
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, owner)

    @staticmethod
    def holder(path: Path) -> Owner | None:
        """The live process that holds the lease, or None. Reads only; a process of this machine is recognised by pid and start time.

        For a name written on another machine only the lock itself can tell: it is probed for an instant.
        """
        owner = _read_owner(path)
        if owner is None:
            return None
        if owner.host != platform.node():
            return owner if _locked_elsewhere(path) else None
        start = process_start(owner.pid)
        if start is None:
            return None
        return owner if not start or not owner.start_time or start == owner.start_time else None

    def release(self) -> None:
        """Give it back: the name is wiped, the lock dropped, the file stays. Idempotent."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()


def _lock(descriptor: int) -> bool:
    deadline = time.monotonic() + _PROBE_GRACE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        else:
            return True


def _locked_elsewhere(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read_owner(path: Path) -> Owner | None:
    """The name in a lease. It is written in place (the lock hangs on the inode), so a torn one is read again."""
    for _ in range(5):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        if not data.strip():
            return None
        try:
            return decode(data, Owner, path)
        except CorruptError:
            time.sleep(0.01)
    return None
