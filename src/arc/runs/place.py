"""The lease on a directory that a run works in place in: two runs there would mix their files, and neither could tell whose they are."""

from __future__ import annotations

import hashlib
from pathlib import Path

from arc.base.atomic import make_private_directory
from arc.base.errors import ArcError
from arc.base.locks import Lease, LeaseHeldError
from arc.runs.errors import RecordWriteError
from arc.runs.world import World
from arc.workspace.git.repository import Repository


def claim_place(world: World, directory: Path, run_id: str) -> Lease:
    """Take the lease on `directory`, or on the whole checkout it lies in. It is a file of this home; the directory is not touched.

    Raises:
        LeaseHeldError: another run works there; names run, process and since when.
        RecordWriteError: home cannot be written.
    """
    place = _checkout(directory)
    name = hashlib.sha256(str(place).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    try:
        folder = make_private_directory(world.home / "places")
        return Lease.acquire(folder / f"{name}.lease", what=f"`{place}`", clock=world.clock, about=f"run {run_id}")
    except LeaseHeldError as error:
        raise LeaseHeldError(
            f"`{place}`, where the run would work in place,",
            error.owner,
            hints=("wait for it, or commit your changes: a run in a clean repository gets a worktree of its own",),
        ) from error
    except OSError as error:
        raise RecordWriteError(f"`{world.home}` cannot be written: {error.strerror}; nothing was started") from error


def _checkout(directory: Path) -> Path:
    try:
        repository = Repository.discover(directory)
    except ArcError:
        repository = None
    return (repository.top if repository is not None else directory).resolve()
