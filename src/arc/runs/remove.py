"""Removing one run: worktree, refs, folder, in this order; and what must be known before (size, uncommitted work)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from arc.base.errors import RefusedError
from arc.base.faults import declare_faults, fault
from arc.base.git import Git
from arc.base.locks import Lease
from arc.runs.history.lookup import KnownRun, open_known
from arc.runs.store import RunFolder, own_names
from arc.runs.world import World
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.worktree import Worktree, registrations, remove_worktree

declare_faults(
    {
        "gc.worktree": "the collected run's worktree is gone, its refs are not",
        "gc.refs": "the collected run's refs are gone, its folder is not",
        "gc.files": "the collected run's folder has only run.json left",
    }
)


class UncommittedWorkError(RefusedError):
    """The run's worktree holds work that is in no commit."""

    code = "gc.uncommitted"


def folder_size(path: Path) -> int:
    """Bytes of all files below a folder, links not followed; what vanishes meanwhile counts nothing."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                continue
    return total


def uncommitted_work(run: KnownRun) -> str:
    """What the run's worktree has that no commit has, in words; empty if nothing (or no worktree)."""
    if run.folder is None or not run.folder.worktree.is_dir():
        return ""
    worktree = _worktree(run)
    if worktree is None:
        return "it is not registered in its repository, so nobody can tell" if any(run.folder.worktree.iterdir()) else ""
    git = Git(worktree.path, git_dir=worktree.admin, work_tree=worktree.path, trusted=True)
    output = git.run("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", read_only=True)
    count = len([line for line in output.split(b"\0") if line])
    return f"{count} file{'s' if count != 1 else ''}" if count else ""


def unreadable_work(folder: RunFolder) -> str:
    """Why a folder whose run cannot be read may hold work of somebody, in words; empty if it does not."""
    for place in (folder.worktree, folder.branches):
        if place.is_dir() and any(place.iterdir()):
            return f"`{place}` may hold work that no commit has: look, and remove it yourself"
    return ""


def remove_corrupt(world: World, folder: RunFolder) -> tuple[str, ...]:
    """Delete the folder of a run that cannot be read. Its refs, wherever they are, stay. Returns the paths that arc did not make and left.

    Raises:
        LeaseHeldError: a process works on it. UncommittedWorkError: it has a worktree now.
    """
    if not folder.path.is_dir():
        return _remove_folder(world, folder)
    with Lease.acquire(folder.lease_file, what=f"run {folder.run_id}", clock=world.clock):
        if work := unreadable_work(folder):
            raise UncommittedWorkError(work)
        return _remove_folder(world, folder)


def remove_run(world: World, run: KnownRun, refs: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Delete a run's worktree, its refs (each only from the value given) and its folder. Returns the paths that arc did not make and left.

    Raises:
        LeaseHeldError: it has become live. UncommittedWorkError: its worktree has become dirty. RefsMovedError: a ref has moved.
    """
    folder = run.folder
    if folder is None:
        if run.repository is not None:
            transact(run.repository, [RefUpdate(name, None, commit) for name, commit in refs])
        return ()
    with Lease.acquire(folder.lease_file, what=f"run {run.run_id}", clock=world.clock):
        run = open_known(folder)
        if work := uncommitted_work(run):
            raise UncommittedWorkError(f"the worktree `{folder.worktree}` has uncommitted work ({work})")
        worktree = _worktree(run)
        if worktree is not None and run.repository is not None:
            remove_worktree(run.repository, worktree)
        fault("gc.worktree")
        if run.repository is not None:
            transact(run.repository, [RefUpdate(name, None, commit) for name, commit in refs])
        fault("gc.refs")
        return _remove_folder(world, folder)


def _worktree(run: KnownRun) -> Worktree | None:
    if run.folder is None or run.repository is None:
        return None
    wanted = os.path.realpath(run.folder.worktree)
    for registration in registrations(run.repository.common_dir):
        if registration.path is not None and os.path.realpath(registration.path) == wanted:
            return Worktree(registration.path, registration.admin)
    return None


def _remove_folder(world: World, folder: RunFolder) -> tuple[str, ...]:
    """Everything but `run.json` first, so that a crash leaves a run that can be named and collected again.

    In a folder given by `--logs-dir`, what arc did not make is left.
    """
    home = world.runs / folder.run_id
    at_home, own = folder.path == home, own_names()
    last = ("run.json", "lease", "location.json")
    left = []
    for entry in sorted(folder.path.iterdir()) if folder.path.is_dir() else ():
        if entry.name in last:
            continue
        if not at_home and entry.name not in own and not entry.name.endswith(".arc-tmp"):
            left.append(str(entry))
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    fault("gc.files")
    for name in last:
        (folder.path / name).unlink(missing_ok=True)
    if not left and folder.path.is_dir():
        folder.path.rmdir()
    if not at_home:
        (home / "location.json").unlink(missing_ok=True)
        shutil.rmtree(home)
    return tuple(left)
