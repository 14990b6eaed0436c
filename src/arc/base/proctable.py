"""Find and signal all processes that belong to a program, by reading `/proc` (Linux).

Everything here is synchronous and takes some 20 microseconds per process on the machine: call `members` in a thread.
A process is named by its id and start time together; signals go through a pidfd after the start time was compared, so a
reused process id is never hit.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

AVAILABLE = os.path.exists("/proc/self/stat")
"""Whether this system has a process table to read; without it only the leader's group is signalled."""


@dataclass(frozen=True)
class Member:
    """A living process: `started` is in clock ticks since boot."""

    pid: int
    started: int
    name: str


@dataclass(frozen=True)
class _Row:
    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    started: int


@dataclass(frozen=True)
class Family:
    """A program and all that it started. `leader` leads its group and session (None: found by the marker alone).

    `marker` is looked for in the environments of processes that started at `since` or later (ticks); with `whole_variable` it must be
    one whole `NAME=value`.
    """

    leader: int | None
    marker: bytes
    since: int
    whole_variable: bool = False

    def members(self) -> list[Member]:
        """Those alive now (zombies are not), the leader first. Never this process or one of its ancestors."""
        if not AVAILABLE:
            return []
        rows = {row.pid: row for row in _rows()}
        excluded = _ancestors(rows)
        found = {row.pid for row in rows.values() if row.pid not in excluded and self._is_own(row)}
        grown = True
        while grown:
            more = {row.pid for row in rows.values() if row.parent in found and row.pid not in found and row.pid not in excluded}
            found |= more
            grown = bool(more)
        order = sorted(found, key=lambda pid: (pid != self.leader, pid))
        return [Member(pid, rows[pid].started, rows[pid].name) for pid in order if rows[pid].state not in "ZX"]

    def _is_own(self, row: _Row) -> bool:
        if self.leader is not None and self.leader in (row.pid, row.group, row.session):
            return True
        if row.started < self.since or row.state in "ZX":
            return False
        try:
            with open(f"/proc/{row.pid}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            return False
        return self.marker in environment.split(b"\0") if self.whole_variable else self.marker in environment

    def signal(self, members: Iterable[Member], number: signal.Signals) -> None:
        """Signal the leader's whole group in one call (nobody in it can slip away by forking), then each of `members` outside it."""
        members = list(members)
        if self.leader is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, number)
        for member in members:
            row = _row(member.pid)
            if row is not None and row.group != self.leader:
                _signal_one(member, number)


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None if it is gone or this system does not tell."""
    row = _row(pid)
    return None if row is None else row.started


def _signal_one(member: Member, number: signal.Signals) -> None:
    try:
        handle = os.pidfd_open(member.pid)
    except OSError:
        return
    try:
        if start_time(member.pid) == member.started:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def _ancestors(rows: dict[int, _Row]) -> set[int]:
    """This process and its ancestors."""
    found: set[int] = set()
    pid = os.getpid()
    while pid in rows and pid not in found:
        found.add(pid)
        pid = rows[pid].parent
    return found


def _rows() -> Iterable[_Row]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            row = _row(int(name))
            if row is not None:
                yield row


def _row(pid: int) -> _Row | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name is in parentheses and may itself hold spaces and parentheses: the last one ends it.
    head, _, tail = text.rpartition(b")")
    fields = tail.split()
    if len(fields) < 20:
        return None
    name = head.partition(b"(")[2].decode(errors="replace")
    return _Row(pid, name, fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))
