"""Plans for a Git workspace: what a return to a state would do, and doing exactly that.

A plan is the difference between the tree of the files as they are now and the wanted tree; the hashes in its steps are `{mode} {blob id}`.
The wanted contents are written by git (so that its filters apply) to a folder beside the worktree, and from there moved into place one by
one, each move atomic. Paths are walked folder by folder without following symbolic links. Files whose content is right are not touched.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from arc.base.faults import declare_faults, fault
from arc.base.git import Git
from arc.workspace.git.errors import PlanChangedError
from arc.workspace.git.objects import EXECUTABLE, FILE, GITLINK, Entry, TreeChange, compare_trees, tree_of
from arc.workspace.git.repository import Repository
from arc.workspace.git.worktree import Worktree
from arc.workspace.plan import Action, Conflict, Gap, Plan, Step

declare_faults(
    {
        "git.apply.written": "the wanted contents are written beside the worktree, nothing in it is changed",
        "git.apply.step": "one path of a plan is in place",
    }
)


@dataclass(frozen=True)
class Restorer:
    """Makes and applies plans for one worktree."""

    repository: Repository
    worktree: Worktree

    def plan(self, present: str, target: str, gaps: Sequence[Gap] = ()) -> Plan:
        """What turns `present` (the captured tree of the files) into `target` (a commit or tree)."""
        tree = tree_of(self.repository, target)
        steps: list[Step] = []
        conflicts: list[Conflict] = []
        lost = list(gaps)
        changes = sorted(compare_trees(self.repository, present, tree), key=lambda change: change.path)
        going = {change.path for change in changes if change.new is None}
        for change in changes:
            if GITLINK in (change.old.mode if change.old else 0, change.new.mode if change.new else 0):
                lost.append(Gap(change.path, "a submodule is not moved"))
            elif (reason := self._in_the_way(change, going)) is not None:
                conflicts.append(Conflict(change.path, reason))
            else:
                steps.append(Step(change.path, _action(change), _hash(change.old), _hash(change.new)))
        return Plan(tree, tuple(steps), tuple(conflicts), tuple(lost))

    def apply(self, plan: Plan) -> None:
        """Do the plan's steps: first what goes (deepest first), then what comes. The caller has checked that it still holds."""
        restored = [step for step in plan.steps if step.then is not None and step.action != "mode"]
        with _staging_folder(self.worktree.path) as staging:
            self._write_contents(plan.target, restored, staging)
            fault("git.apply.written")
            for step in reversed(plan.steps):
                if step.then is None or step.action == "kind":
                    self._remove(step)
            for step in plan.steps:
                if step.action == "mode":
                    self._set_mode(step)
                elif step.then is not None:
                    self._place(step, os.fsencode(staging) + b"/" + step.path)
                fault("git.apply.step")

    def _in_the_way(self, change: TreeChange, going: set[bytes]) -> str | None:
        """Why a path cannot be written: something is there that git does not know (ignored, excluded), and it is not the same."""
        if change.new is None:
            return None
        top = os.fsencode(self.worktree.path)
        folder = os.path.dirname(change.path)
        while folder:
            if folder not in going and os.path.lexists(top + b"/" + folder) and not _is_folder(top + b"/" + folder):
                return "a file that is not captured stands where a folder of it would be"
            folder = os.path.dirname(folder)
        place = top + b"/" + change.path
        if not os.path.lexists(place):
            return None
        if _is_folder(place):
            inside = (os.path.join(root, name) for root, folders, files in os.walk(place) for name in [*files, *_links(root, folders)])
            foreign = any(path[len(top) + 1 :] not in going for path in inside)
            return "the folder in its place holds files that are not captured" if foreign else None
        return "a file that is not captured is in its place" if change.old is None else None

    def _write_contents(self, tree: str, steps: Sequence[Step], staging: Path) -> None:
        """Have git write the wanted files below `staging`: attributes of the wanted state first, so that its filters are the right ones."""
        if not steps:
            return
        index = staging / ".arc-index"
        bare = Git(staging, git_dir=self.worktree.admin, work_tree=staging, index=index, trusted=self.repository.trusted)
        bare.run("read-tree", tree)
        names = b"".join(step.path + b"\0" for step in steps)
        attributes = bare.run("ls-files", "-z", "--cached", "--", ":(glob)**/.gitattributes", extra_env={"GIT_LITERAL_PATHSPECS": "0"})
        bare.run("checkout-index", "--force", "--quiet", "-z", "--stdin", input=attributes)
        bare.run("checkout-index", "--force", "--quiet", "-z", "--stdin", input=names)
        index.unlink()

    def _remove(self, step: Step) -> None:
        with self._folder(step.path, create=False) as (descriptor, name):
            if descriptor is None:
                return
            try:
                if stat.S_ISDIR(os.lstat(name, dir_fd=descriptor).st_mode):
                    return  # only the folders above a removed file go, and only when they are empty
                _forced(descriptor, lambda: os.unlink(name, dir_fd=descriptor))
            except FileNotFoundError:
                return
        folder = os.path.dirname(step.path)
        while folder:
            with self._folder(folder, create=False) as (descriptor, name):
                if descriptor is None:
                    return
                try:
                    _forced(descriptor, lambda: os.rmdir(name, dir_fd=descriptor))
                except OSError:  # not empty: something else lives there
                    return
            folder = os.path.dirname(folder)

    def _place(self, step: Step, source: bytes) -> None:
        with self._folder(step.path, create=True) as (descriptor, name):
            assert descriptor is not None
            if _is_folder_at(name, descriptor):
                _forced(descriptor, lambda: os.rmdir(name, dir_fd=descriptor))
            _forced(descriptor, lambda: os.rename(source, name, dst_dir_fd=descriptor))

    def _set_mode(self, step: Step) -> None:
        with self._folder(step.path, create=False) as (descriptor, name):
            assert descriptor is not None
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
            try:
                mode = stat.S_IMODE(os.fstat(file).st_mode)
                readers = mode & 0o444
                os.fchmod(file, mode | readers >> 2 if (step.then or "").startswith(f"{EXECUTABLE:o}") else mode & ~0o111)
            finally:
                os.close(file)

    @contextmanager
    def _folder(self, path: bytes, *, create: bool) -> Iterator[tuple[int | None, bytes]]:
        """The open folder of a path and the name in it; no symbolic link is followed. None if a folder is missing (or is none)."""
        *folders, name = path.split(b"/")
        descriptor = os.open(self.worktree.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for folder in folders:
                if create:
                    with suppress(FileExistsError):
                        _forced(descriptor, partial(os.mkdir, folder, dir_fd=descriptor))
                try:
                    below = _open_folder(descriptor, folder)
                except (FileNotFoundError, NotADirectoryError):
                    if create:
                        raise PlanChangedError(f"`{os.fsdecode(path)}` cannot be written: a folder of it was replaced meanwhile") from None
                    yield None, name
                    return
                except OSError as error:
                    if create:
                        raise PlanChangedError(f"`{os.fsdecode(path)}` cannot be written: {error.strerror}") from error
                    yield None, name
                    return
                os.close(descriptor)
                descriptor = below
            yield descriptor, name
        finally:
            os.close(descriptor)


def _forced(folder: int, work: Callable[[], None]) -> None:
    """Do something to a name in an open folder, also if the folder's owner has closed it for writing."""
    try:
        work()
    except PermissionError:
        os.fchmod(folder, stat.S_IMODE(os.fstat(folder).st_mode) | 0o700)
        work()


def _open_folder(above: int, name: bytes) -> int:
    """Open a folder by its name in another; one that its owner has closed is opened for the owner. Links are not followed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=above)
    except PermissionError:
        status = os.lstat(name, dir_fd=above)
        if not stat.S_ISDIR(status.st_mode):
            raise
        os.chmod(name, stat.S_IMODE(status.st_mode) | 0o700, dir_fd=above)
        return os.open(name, flags, dir_fd=above)


def compare_plans(shown: Plan, now: Plan) -> None:
    """Make sure that a plan still says what was shown.

    Raises:
        PlanChangedError: files changed in between.
    """
    if shown.digest != now.digest:
        changed = set(shown.steps) ^ set(now.steps)
        names = tuple(sorted({os.fsdecode(step.path) for step in changed}))[:5]
        raise PlanChangedError("the files changed after the plan was made; nothing was touched", details=names)


@contextmanager
def _staging_folder(worktree: Path) -> Iterator[Path]:
    """A private folder on the worktree's file system, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=".arc-restore-", dir=worktree.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _action(change: TreeChange) -> Action:
    if change.new is None:
        return "delete"
    if change.old is None:
        return "restore"
    if change.old.mode & 0o170000 != change.new.mode & 0o170000:
        return "kind"
    return "mode" if change.old.id == change.new.id and {change.old.mode, change.new.mode} == {FILE, EXECUTABLE} else "restore"


def _hash(entry: Entry | None) -> str | None:
    return None if entry is None else f"{entry.mode:o} {entry.id}"


def _is_folder(place: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(place).st_mode)
    except OSError:
        return False


def _is_folder_at(name: bytes, descriptor: int) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(name, dir_fd=descriptor).st_mode)
    except FileNotFoundError:
        return False


def _links(root: bytes, folders: Sequence[bytes]) -> list[bytes]:
    return [name for name in folders if os.path.islink(os.path.join(root, name))]
