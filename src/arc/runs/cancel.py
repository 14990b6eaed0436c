"""Cancelling a run: the live process is asked to stop (SIGTERM), told to (SIGKILL) only if that was allowed; a dead run is marked.

A pid is signalled only through a descriptor of that very process (pidfd) whose start time is the lease's: never a later process that
happens to have the same number.
"""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from arc.base.atomic import write_atomic
from arc.base.clock import rfc3339
from arc.base.errors import BusyError, RefusedError
from arc.base.locks import Lease, Owner, process_start
from arc.runs.history.lookup import KnownRun
from arc.runs.records import ShownStatus
from arc.runs.store import RunFolder, shown_status
from arc.runs.world import World

CancelResult = Literal["stopped", "killed", "marked", "requested", "finished"]
"""stopped: its process ended after SIGTERM; killed: after SIGKILL; marked: no process was alive, `run.json` now says canceled;
requested: its process is on another machine and will read the request; finished: there was nothing to cancel."""

_STEP = 0.05


class StillRunningError(BusyError):
    """The process did not end within the grace."""

    code = "cancel.still_running"


class NotPermittedError(RefusedError):
    """The process belongs to somebody else."""

    code = "cancel.not_permitted"


@dataclass(frozen=True)
class Canceled:
    """What a cancel did. `status` is what the run is shown as now."""

    run_id: str
    result: CancelResult
    status: ShownStatus
    owner: Owner | None


def cancel_run(
    run: KnownRun, world: World, *, grace: float = 10.0, force: bool = False, wait: Callable[[float], None] = time.sleep
) -> Canceled:
    """Cancel a run. `grace` is how many seconds its process has to stop after SIGTERM.

    Raises:
        StillRunningError: it did not, and `force` is not set; the run goes on trying to stop.
        NotPermittedError: the process is another user's.
        NoFolderError: only the run's refs are here.
    """
    folder = run.need_folder("cancelling")
    owner = folder.holder()
    if owner is None:
        return _mark(folder, world, "marked")
    if owner.host != platform.node():
        write_atomic(folder.cancel_file, f"canceled from {platform.node()} at {rfc3339(world.clock.now())}\n".encode())
        return Canceled(run.run_id, "requested", shown_status(folder), owner)
    descriptor = _open_process(owner)
    if descriptor is None:
        return _mark(folder, world, "marked")
    try:
        _signal(descriptor, signal.SIGTERM, run.run_id, owner)
        if _ended(folder, owner, grace, wait):
            return _mark(folder, world, "stopped", owner)
        if not force:
            raise StillRunningError(
                f"run {run.run_id} was asked to stop and {owner} has not ended within {grace:g} s",
                hints=(f"arc run cancel {run.run_id} --force", f"arc run logs {run.run_id} -f"),
            )
        _signal(descriptor, signal.SIGKILL, run.run_id, owner)
        if not _ended(folder, owner, grace, wait):
            raise StillRunningError(f"run {run.run_id}: {owner} was killed and is still there")
    finally:
        os.close(descriptor)
    return _mark(folder, world, "killed", owner)


def _open_process(owner: Owner) -> int | None:
    """A descriptor of exactly the process that the lease names; None if it is gone."""
    try:
        descriptor = os.pidfd_open(owner.pid)
    except ProcessLookupError:
        return None
    # The descriptor cannot change its process any more, so what is compared now is what will be signalled.
    if owner.start_time and process_start(owner.pid) != owner.start_time:
        os.close(descriptor)
        return None
    return descriptor


def _signal(descriptor: int, number: signal.Signals, run_id: str, owner: Owner) -> None:
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise NotPermittedError(f"run {run_id} belongs to {owner}, which this user may not signal") from error


def _ended(folder: RunFolder, owner: Owner, grace: float, wait: Callable[[float], None]) -> bool:
    deadline = time.monotonic() + grace
    while True:
        if folder.holder() != owner:
            return True
        if time.monotonic() >= deadline:
            return False
        wait(_STEP)


def _mark(folder: RunFolder, world: World, result: CancelResult, owner: Owner | None = None) -> Canceled:
    """Write `canceled` unless the run finished; its process, if it stopped in order, has written it itself."""
    with Lease.acquire(folder.lease_file, what=f"run {folder.run_id}", clock=world.clock):
        record = folder.read_record()
        if record.status in ("created", "running") and record.superseded_by is None:
            folder.write_record(replace(record, status="canceled", updated_at=rfc3339(world.clock.now())))
        elif result == "marked":
            result = "finished"
    return Canceled(folder.run_id, result, shown_status(folder), owner)
