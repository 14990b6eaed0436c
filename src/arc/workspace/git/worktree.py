"""Worktrees: adding one on a branch, re-attaching one after a crash, putting its links back, removing it.

A worktree has two halves that name each other: the folder with the files (its `.git` file names the administrative folder) and the
administrative folder `{common}/worktrees/{name}` (its `gitdir` file names the `.git` file). A crash, a person or a node can lose either.
It is locked (`git worktree lock`) while its run lives, so that no `git worktree prune` takes the half that is left.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from arc.base.atomic import write_atomic
from arc.base.faults import declare_faults, fault
from arc.base.git import Git, GitError
from arc.base.locks import Lease
from arc.workspace.git.errors import BranchHeldError, WorktreeError
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository
from arc.workspace.notices import Notice, NoticeSink

declare_faults(
    {
        "git.worktree.branch": "the branch exists, no worktree yet",
        "git.worktree.added": "the worktree is registered and locked, its files are not there yet",
        "git.worktree.filled": "the worktree has its files",
        "git.worktree.moved": "the registration of a lost folder was made anew under a temporary name",
    }
)


@dataclass(frozen=True)
class Worktree:
    """A linked worktree: the folder with the files and its administrative folder."""

    path: Path
    admin: Path

    @property
    def index(self) -> Path:
        """The worktree's own index: what agents see; arc only ever replaces it whole."""
        return self.admin / "index"


@dataclass(frozen=True)
class Registration:
    """What an administrative folder says: where its files are, which branch is checked out (None: detached)."""

    admin: Path
    path: Path | None
    ref: str | None


def registrations(common_dir: Path) -> tuple[Registration, ...]:
    """All linked worktrees of a repository, as registered (whether or not their folders exist)."""
    found: list[Registration] = []
    folder = common_dir / "worktrees"
    for admin in sorted(folder.iterdir()) if folder.is_dir() else ():
        link = _read(admin / "gitdir")
        path = None if link is None else Path(os.path.normpath(admin / os.fsdecode(link))).parent
        found.append(Registration(admin, path, symbolic_ref(admin)))
    return tuple(found)


def add_worktree(repository: Repository, path: Path, ref: str, commit: str, reason: str) -> Worktree:
    """Make the branch `ref` at `commit` and a locked worktree of it at `path`. No hooks; the caller's sparse checkout holds.

    Raises:
        WorktreeError: it failed; neither branch nor registration is left behind.
        RefsMovedError: the branch exists already.
    """
    transact(repository, [RefUpdate(ref, commit, None)])
    fault("git.worktree.branch")
    try:
        return _register(repository, path, ref, reason)
    except (WorktreeError, OSError):
        transact(repository, [RefUpdate(ref, None, commit)])
        raise


def attach_worktree(repository: Repository, path: Path, ref: str, reason: str, notices: NoticeSink) -> Worktree:
    """The worktree of an existing branch at `path`, whatever a crash has left of it. Files that are there stay as they are.

    Raises:
        BranchHeldError: another worktree in use has the branch.
        WorktreeError: git cannot make it.
    """
    _forget(repository, _beside(path), True)  # killed while it was registered again
    _release_branch(repository, path, ref, notices)
    ours = next((r for r in registrations(repository.common_dir) if r.path is not None and _same(r.path, path)), None)
    if ours is not None:
        worktree = Worktree(path, ours.admin)
        had_files = path.is_dir()
        if not had_files:
            path.mkdir(parents=True, mode=0o700)
            (ours.admin / "arc-index").unlink(missing_ok=True)
            (ours.admin / "index").unlink(missing_ok=True)
        mend_links(repository, worktree)
        _lock(worktree, reason)
        if not had_files:
            worktree_git(repository, worktree).run("symbolic-ref", "HEAD", ref)
            _fill(repository, worktree)
        elif not worktree.index.exists() and not (ours.admin / "arc-index").exists():
            _rebuild_index(repository, worktree, ref)
        return worktree
    if path.is_dir() and any(path.iterdir()):
        return _register_around(repository, path, ref, reason)
    return _register(repository, path, ref, reason)


def worktree_git(repository: Repository, worktree: Worktree, *, index: Path | None = None, settings: tuple[str, ...] = ()) -> Git:
    """The git program on a worktree. Works also while the worktree's `.git` file is missing."""
    return Git(worktree.path, git_dir=worktree.admin, work_tree=worktree.path, index=index, settings=settings, trusted=repository.trusted)


def symbolic_ref(admin: Path) -> str | None:
    """The branch that the HEAD in an administrative folder (or in the repository's own) is on; None if it is detached or broken."""
    return _symbolic(_read(admin / "HEAD"))


def mend_links(repository: Repository, worktree: Worktree) -> tuple[str, ...]:
    """Put back what binds the two halves together (`.git`, `gitdir`, `commondir`); what was wrong, in words."""
    wanted = {
        worktree.path / ".git": os.fsencode(f"gitdir: {worktree.admin}\n"),
        worktree.admin / "gitdir": os.fsencode(f"{worktree.path / '.git'}\n"),
        worktree.admin / "commondir": b"../..\n",
    }
    told: list[str] = []
    for place, content in wanted.items():
        if _equivalent(place, content):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir() and not place.is_symlink():
            told.append(f"a repository of its own stood at `{place}`; all of it is kept at `{_move_aside(place, worktree.path)}`")
        else:
            told.append(f"`{place}` did not name its other half")
        write_atomic(place, content, mode=0o644)
    return tuple(told)


def remove_worktree(repository: Repository, worktree: Worktree) -> None:
    """Remove files and registration. The caller has made sure that everything in it is committed or set aside."""
    shutil.rmtree(worktree.path, ignore_errors=True)
    if worktree.path.exists():
        _force_remove(worktree.path)
    with _one_at_a_time(repository):
        shutil.rmtree(worktree.admin, ignore_errors=True)
        folder = worktree.admin.parent
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def unlock_worktree(worktree: Worktree) -> None:
    """Let the worktree be an ordinary one (it is kept, its run has ended)."""
    (worktree.admin / "locked").unlink(missing_ok=True)


@contextmanager
def _one_at_a_time(repository: Repository) -> Iterator[int]:
    """Hold off other threads and processes of arc while a worktree is registered; yields the descriptor that holds the lock.

    `git worktree add` reads the registrations of all others and fails when it meets one that is half made. The lock is on the repository's
    folder itself, so there is no file to leave behind.
    """
    descriptor = os.open(repository.common_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def wait_for_registrations(repository: Repository) -> None:
    """Wait until nobody is registering a worktree: neither another arc nor the git that a killed arc has left behind."""
    with _one_at_a_time(repository):
        pass


def _add(repository: Repository, git: Git, path: Path, ref: str, reason: str) -> None:
    """`git worktree add` without its files, locked, under arc's lock until git has ended. Raises `GitError`, `OSError`."""
    # A checkout of the branch's short name; --force only waives a registration of the same path whose folder is gone.
    options = ("--quiet", "--force", "--no-checkout", "--lock", "--reason", reason)
    with _one_at_a_time(repository) as lock:
        git.run("worktree", "add", *options, str(path), _short(ref), holding=(lock,))


def _register(repository: Repository, path: Path, ref: str, reason: str) -> Worktree:
    """`git worktree add`, in two steps so that a crash between them leaves a locked registration."""
    git = Git(repository.top, trusted=repository.trusted) if repository.top != repository.common_dir else repository.git()
    fresh = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _add(repository, git, path, ref, reason)
    except (GitError, OSError) as error:
        _forget(repository, path, fresh)
        details = error.details if isinstance(error, GitError) else ()
        raise WorktreeError(f"the worktree at `{path}` could not be made: {error}", details=details) from error
    found = next((r for r in registrations(repository.common_dir) if r.path is not None and _same(r.path, path)), None)
    if found is None:
        raise WorktreeError(f"git did not register the worktree at `{path}`")
    worktree = Worktree(path, found.admin)
    fault("git.worktree.added")
    try:
        _fill(repository, worktree)
    except GitError as error:
        _forget(repository, path, fresh)
        raise WorktreeError(f"the files of `{_short(ref)}` could not be written to `{path}`", details=error.details) from error
    fault("git.worktree.filled")
    return worktree


def _fill(repository: Repository, worktree: Worktree) -> None:
    """Write the branch's files. Filters apply; a sparse checkout is honoured."""
    git = worktree_git(repository, worktree, settings=("index.version=4", "core.untrackedCache=true"))
    git.run("reset", "--hard", "--quiet", "--no-recurse-submodules")


def _register_around(repository: Repository, path: Path, ref: str, reason: str) -> Worktree:
    """A new registration for a folder that is still full of files: made beside it, then moved over."""
    beside = _beside(path)
    git = repository.git()
    try:
        _add(repository, git, beside, ref, reason)
    except GitError as error:
        raise WorktreeError(f"the worktree at `{path}` could not be registered again", details=error.details) from error
    fault("git.worktree.moved")
    found = next(r for r in registrations(repository.common_dir) if r.path is not None and _same(r.path, beside))
    worktree = Worktree(path, found.admin)
    write_atomic(worktree.admin / "gitdir", os.fsencode(f"{path / '.git'}\n"), mode=0o644)
    mend_links(repository, worktree)
    shutil.rmtree(beside, ignore_errors=True)
    _rebuild_index(repository, worktree, ref)
    return worktree


def _beside(path: Path) -> Path:
    """Where a new registration for `path` is made."""
    return path.with_name(f"{path.name}.arc-new")


def _rebuild_index(repository: Repository, worktree: Worktree, ref: str) -> None:
    """An index of the branch's tip with no knowledge of the files; they are compared by content the next time."""
    git = worktree_git(repository, worktree, settings=("index.version=4",))
    git.run("read-tree", ref)
    git.run("update-index", "-q", "--refresh", check=False)


def _release_branch(repository: Repository, path: Path, ref: str, notices: NoticeSink) -> None:
    """Make sure that no other worktree holds the branch: dead ones let go of it, live ones are refused by name."""
    main_head = symbolic_ref(repository.common_dir)
    if main_head == ref and not _is_bare(repository):
        raise BranchHeldError(
            f"`{_short(ref)}` is checked out in the repository's main checkout `{repository.common_dir.parent}`",
            hints=(f"switch it to another branch: `git -C {repository.common_dir.parent} switch -`",),
        )
    for other in registrations(repository.common_dir):
        if other.ref != ref or (other.path is not None and _same(other.path, path)):
            continue
        if other.path is None or not (other.path / ".git").exists():
            _detach(repository, other)
            continue
        owner = Lease.holder(other.path.parent / "lease")
        if owner is not None or _read(other.admin / "locked") is None:
            who = f"used by {owner}" if owner is not None else "not one of a dead run"
            raise BranchHeldError(
                f"`{_short(ref)}` is checked out in the worktree `{other.path}` ({who})",
                hints=(f"release it: `git -C {other.path} switch --detach`",),
            )
        _detach(repository, other)
        message = f"the worktree `{other.path}` of a dead process no longer holds `{_short(ref)}`; its files are untouched"
        notices(Notice("warning", "workspace.worktree_released", message))


def _detach(repository: Repository, other: Registration) -> None:
    commit = repository.ref(other.ref) if other.ref is not None else None
    if commit is None:
        return
    detach(other.admin, commit)


def detach(admin: Path, commit: str) -> None:
    """Make a worktree's HEAD stand for a commit instead of a branch."""
    write_atomic(admin / "HEAD", commit.encode() + b"\n", mode=0o644)


def _forget(repository: Repository, path: Path, remove_files: bool) -> None:
    """Undo a half-made registration of `path` (the folder too if we made it)."""
    for registration in registrations(repository.common_dir):
        if registration.path is not None and _same(registration.path, path):
            shutil.rmtree(registration.admin, ignore_errors=True)
    if remove_files and path.is_dir():
        shutil.rmtree(path, ignore_errors=True)


def _lock(worktree: Worktree, reason: str) -> None:
    write_atomic(worktree.admin / "locked", reason.encode(), mode=0o644)


def _is_bare(repository: Repository) -> bool:
    return repository.pygit2.is_bare


def _move_aside(place: Path, path: Path) -> Path:
    """A node replaced `.git` by a repository of its own: kept beside the worktree, under a free name."""
    number = 1
    while (target := path.with_name(f"{path.name}.git-aside-{number}")).exists():
        number += 1
    place.rename(target)
    return target


def _force_remove(path: Path) -> None:
    """Remove folders that were made unwritable or unreadable."""
    os.chmod(path, 0o700)
    for folder, names, _ in os.walk(path):
        for name in names:
            place = os.path.join(folder, name)
            if not os.path.islink(place):
                os.chmod(place, 0o700)
    shutil.rmtree(path)


def _equivalent(place: Path, content: bytes) -> bool:
    """Whether a link file says the same place, in whatever spelling."""
    present = _read(place)
    if present is None or present == content.rstrip(b"\n"):
        return present is not None
    if place.name == "commondir":
        return _same(place.parent / os.fsdecode(present), place.parent / "../..")
    prefix = b"gitdir: " if place.name == ".git" else b""
    if not present.startswith(prefix):
        return False
    wanted = content.rstrip(b"\n")[len(prefix) :]
    return _same(place.parent / os.fsdecode(present[len(prefix) :]), Path(os.fsdecode(wanted)))


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/")


def _symbolic(head: bytes | None) -> str | None:
    return os.fsdecode(head[5:].strip()) if head is not None and head.startswith(b"ref: ") else None


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes().rstrip(b"\n")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
