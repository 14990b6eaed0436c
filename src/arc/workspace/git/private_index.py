"""The private index of a worktree, which nobody but arc knows: made, kept in step with the files, and questions asked of it.

Bringing it in step can run beside other work (`update_beside`); `settle` waits for that. A crash in between leaves an index behind HEAD,
which the next capture sees as such.

Threads: one call at a time per worktree, plus that one update; the run's lease keeps other processes away.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from arc.base.atomic import write_atomic
from arc.base.git import Git, GitError
from arc.workspace.git.locks import clear_stale_lock
from arc.workspace.git.nested import ignored_paths
from arc.workspace.git.objects import Entry
from arc.workspace.git.repository import Repository
from arc.workspace.git.worktree import Worktree, worktree_git

INDEX_SETTINGS = (
    "core.untrackedCache=true",
    "core.preloadIndex=true",
    "index.version=4",
    "core.splitIndex=false",
    "index.sparse=false",
    "core.fsync=loose-object",
    "core.fsyncMethod=batch",
)
_CHECKSUM = 20
"""Bytes of the SHA-1 at the end of an index file."""


@dataclass
class PrivateIndex:
    """One worktree's private index. `exclude_globs`: the run's patterns for new files that are left out."""

    repository: Repository
    worktree: Worktree
    exclude_globs: Sequence[str] = ()
    state: Path | None = None
    """Where the index and its helpers live; None: in the worktree's administrative folder."""
    more_excludes: bytes = b""
    """Further ignore patterns (the person's own, for their checkout)."""
    _excludes: tuple[float, bytes] = (0.0, b"")
    _gitlinks: set[bytes] | None = None
    _updating: Thread | None = None
    _update_failed: bool = False
    _checked: bool = False

    @property
    def path(self) -> Path:
        """The index file."""
        return self._state / "arc-index"

    @property
    def excludes_file(self) -> Path:
        """The ignore patterns that apply beside the `.gitignore` files."""
        return self._state / "arc-exclude"

    @property
    def _state(self) -> Path:
        return self.state or self.worktree.admin

    def git(self) -> Git:
        """Git on the worktree with this index."""
        settings = (*INDEX_SETTINGS, f"core.excludesFile={self.excludes_file}")
        return worktree_git(self.repository, self.worktree, index=self.path, settings=settings)

    def prepare(self, base: str) -> None:
        """Make sure that it is there and that no dead process holds it."""
        clear_stale_lock(self.path.with_name("arc-index.lock"))
        text = self._exclude_text()
        if not self.excludes_file.exists() or self.excludes_file.read_bytes() != text:
            write_atomic(self.excludes_file, text, durable=False)
        if not self._checked and not is_whole(self.path):
            self.path.unlink(missing_ok=True)
            if is_whole(self.worktree.index):
                shutil.copy2(self.worktree.index, self.path)  # with its time: git doubts files that changed when it was written
            else:
                self.rebuild(base)
        elif not self.path.exists():
            self.rebuild(base)
        self._checked = True

    def ignore_rules(self) -> tuple[bytes, float]:
        """What changes when ignore rules outside the worktree change."""
        try:
            changed = (self.repository.common_dir / "info" / "exclude").stat().st_mtime
        except OSError:
            changed = 0.0
        return self._exclude_text(), changed

    def rebuild(self, state: str) -> None:
        """Make it anew from a commit or tree; every file is then compared by content once."""
        self.path.unlink(missing_ok=True)
        self.git().run("read-tree", state)

    def forget_promises(self) -> None:
        """Drop `assume unchanged` marks (it is a copy of a person's index), so that every file is looked at."""
        output = self.git().run("ls-files", "-v", "-z", read_only=True)
        marked = [line[2:] for line in output.split(b"\0")[:-1] if line[:1].islower()]
        if marked:
            self.git().run("update-index", "--no-assume-unchanged", "-z", "--stdin", input=_lines(marked))

    # -- in step with the files -------------------------------------------------------------------------------------------------

    def update(self, changed: Sequence[bytes], gaps: dict[bytes, str]) -> None:
        """Bring it in step with these paths. What cannot be read stays as it was and is added to `gaps`."""
        top = os.fsencode(self.worktree.path)
        behind_links = [path for path in changed if _behind_link(top, path)]
        if behind_links:
            self.git().run("update-index", "--force-remove", "-z", "--stdin", input=_lines(behind_links))
        hidden = set(behind_links)
        paths = [path for path in changed if path not in hidden]
        for attempt in range(3):
            if not paths:
                return
            result = self.git().finish("update-index", "--add", "--remove", "--replace", "-z", "--stdin", input=_lines(paths), check=False)
            if result.returncode == 0:
                return
            unreadable = {path: reason for path in paths if (reason := _unreadable(top, path)) is not None}
            gaps.update(unreadable)
            paths = [path for path in paths if path not in unreadable]
            if attempt == 2 or (not unreadable and attempt == 1):
                message = os.fsdecode(result.stderr)
                raise GitError("`git update-index` failed", command=("update-index",), exit_code=result.returncode, stderr=message)

    def set_links(self, links: Mapping[bytes, Entry | None]) -> None:
        """Record submodules at these commits (None: gone), whatever the files say; those that are not checked out count as unchanged."""
        lines = [b"%o %s\t%s\0" % (e.mode, e.id.encode(), p) if e else b"0 %s\t%s\0" % (b"0" * 40, p) for p, e in links.items()]
        self.git().run("update-index", "-z", "--index-info", input=b"".join(lines))
        self._gitlinks = None

    def update_beside(self, changed: Sequence[bytes]) -> None:
        """Begin `update` in a thread; every path is known to be readable. The thread is not a daemon: a process that ends waits for it."""
        self._update_failed = True  # until it has succeeded, whatever ends it
        self._updating = Thread(target=self._update_now, args=(changed,), name="arc-index")
        self._updating.start()

    def _update_now(self, changed: Sequence[bytes]) -> None:
        gaps: dict[bytes, str] = {}
        try:
            self.update(changed, gaps)
        except (GitError, OSError):  # the files were captured all the same; `settle` makes the index anew
            return
        self._update_failed = bool(gaps)

    def settle(self, base: str) -> bool:
        """Wait for an update that runs beside; if it failed, make the index anew from `base` (the last checkpoint). False: it was."""
        if self._updating is None:
            return True
        self._updating.join()
        self._updating = None
        if self._update_failed:
            clear_stale_lock(self.path.with_name("arc-index.lock"))
            self.rebuild(base)
        return not self._update_failed

    # -- questions --------------------------------------------------------------------------------------------------------------

    def git_links(self) -> set[bytes]:
        """Paths of all submodules in it; asked once, then kept up to date by `note_link`."""
        if self._gitlinks is None:
            output = self.git().run("ls-files", "--stage", "-z", read_only=True)
            self._gitlinks = {line.split(b"\t", 1)[1] for line in output.split(b"\0")[:-1] if line.startswith(b"160000")}
        return self._gitlinks

    def note_link(self, path: bytes) -> None:
        """A submodule is there now."""
        if self._gitlinks is not None:
            self._gitlinks.add(path)

    def registered_submodules(self) -> frozenset[bytes]:
        """Paths that the worktree's `.gitmodules` names."""
        modules = self.worktree.path / ".gitmodules"
        if not modules.is_file() or modules.is_symlink():
            return frozenset()
        command = ("config", "--file", str(modules), "--null", "--get-regexp", r"^submodule\..*\.path$")
        result = Git(self._state).finish(*command, check=False)
        return frozenset(record.split(b"\n", 1)[1] for record in result.stdout.split(b"\0") if b"\n" in record)

    def without_excluded(self, paths: Sequence[bytes]) -> list[bytes]:
        """New files that no glob of the run matches, also where a `.gitignore` would let them in again."""
        if not self.exclude_globs or not paths:
            return list(paths)
        scratch = self.scratch_repository()
        write_atomic(scratch / "arc-globs", "".join(f"{glob}\n" for glob in self.exclude_globs).encode(), durable=False)
        empty = scratch / "empty"
        empty.mkdir(exist_ok=True)
        git = Git(empty, git_dir=scratch, work_tree=empty, settings=(f"core.excludesFile={scratch / 'arc-globs'}",))
        excluded = set(ignored_paths(git, paths))
        return [path for path in paths if path not in excluded]

    def scratch_repository(self) -> Path:
        """An empty repository for questions about ignore rules; it never holds anything."""
        scratch = self._state / "arc-scratch"
        if not (scratch / "HEAD").exists():
            shutil.rmtree(scratch, ignore_errors=True)
            Git(self._state).run("init", "--quiet", "--bare", "--template=", str(scratch))
            (scratch / "config").unlink()
        return scratch

    def _exclude_text(self) -> bytes:
        """The run's globs after what the repository's own configuration ignores everywhere."""
        changed = (self.repository.common_dir / "config").stat().st_mtime
        if self._excludes[0] != changed:
            self._excludes = (changed, _local_excludes(self.repository))
        return self._excludes[1] + self.more_excludes + "".join(f"{glob}\n" for glob in self.exclude_globs).encode()


def is_whole(index: Path) -> bool:
    """Whether an index file is there and is not torn. Git itself does not look, and takes the rest of a torn one for deleted files."""
    try:
        data = index.read_bytes()
    except FileNotFoundError:
        return False
    body, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
    return body.startswith(b"DIRC") and checksum in (hashlib.sha1(body, usedforsecurity=False).digest(), bytes(_CHECKSUM))


def _local_excludes(repository: Repository) -> bytes:
    """The ignore patterns of the file that the repository's own configuration names, if it does."""
    configured = repository.config("core.excludesfile")
    place = Path(os.path.expanduser(configured)) if configured is not None else None
    return place.read_bytes().rstrip(b"\n") + b"\n" if place is not None and place.is_file() else b""


def _lines(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def _behind_link(top: bytes, path: bytes) -> bool:
    """Whether a folder of the path is a symbolic link now: the path itself is then gone."""
    folder = os.path.dirname(path)
    while folder:
        if os.path.islink(top + b"/" + folder):
            return True
        folder = os.path.dirname(folder)
    return False


def _unreadable(top: bytes, path: bytes) -> str | None:
    """Why a file cannot be read; None if it can, or is gone."""
    place = top + b"/" + path
    try:
        if not stat.S_ISREG(os.lstat(place).st_mode):
            return None
        os.close(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"the file cannot be read ({(error.strerror or 'unknown').lower()})"
    return None
