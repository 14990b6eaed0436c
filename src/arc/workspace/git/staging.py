"""Capturing a worktree as a tree, through a private index that nobody else knows.

Four steps: `git status` on the private index (with untracked cache and preloading: the whole cost of a large repository), the list of
new files, `git update-index` for the paths that differ (filters, attributes and modes are git's), and the tree, edited in this process from
the previous checkpoint's. The worktree's own index is neither read nor written.

Where the files could be hashed in this process, the tree does not depend on the index: `git update-index` then runs beside the commit, and
`settle` waits for it. A crash in between leaves an index behind HEAD, which the next capture notices (`_hash_here`).

Threads: one call at a time per worktree, plus that one update; the run's lease keeps other processes away.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from arc.base.atomic import write_atomic
from arc.base.faults import declare_faults, fault
from arc.base.git import Git, GitError
from arc.workspace.git.coverage import Coverage, is_special, special_files
from arc.workspace.git.errors import StageError
from arc.workspace.git.hashing import hash_files
from arc.workspace.git.locks import clear_stale_lock
from arc.workspace.git.nested import expand_untracked, ignored_paths
from arc.workspace.git.objects import GITLINK, Edits, Entry, edit_tree, tree_of
from arc.workspace.git.repository import Repository
from arc.workspace.git.status import StatusEntry, parse_status
from arc.workspace.git.worktree import Worktree, worktree_git
from arc.workspace.notices import NoticeSink
from arc.workspace.plan import Gap

MANY_CHANGES = 2_000
"""Above this many changed paths git hashes them (it then costs less than doing it here)."""
WRITE_BACK_EVERY = 16
INDEX_SETTINGS = (
    "core.untrackedCache=true",
    "core.preloadIndex=true",
    "index.version=4",
    "core.splitIndex=false",
    "index.sparse=false",
    "core.fsync=loose-object",
    "core.fsyncMethod=batch",
)

declare_faults(
    {
        "git.stage.status": "the differing paths are known, the private index is as before",
        "git.stage.indexed": "the blobs are written; the private index holds them or is being brought in step",
        "git.stage.tree": "the tree is written",
    }
)


@dataclass(frozen=True)
class Captured:
    """A captured state: its tree, how many paths differ from the base, nested repositories found, what could not be captured."""

    tree: str
    changes: int
    nested: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()


@dataclass
class Stager:
    """Captures one worktree. `exclude_globs`: gitignore-style patterns from the top; new files that match are left out."""

    repository: Repository
    worktree: Worktree
    exclude_globs: Sequence[str]
    notices: NoticeSink
    state: Path | None = None
    """Where the private index and its helpers live; None: in the worktree's administrative folder."""
    more_excludes: bytes = b""
    """Further ignore patterns (the person's own, for their checkout)."""
    _captures: int = 0
    _excludes: tuple[float, bytes] = (0.0, b"")
    _gitlinks: set[bytes] | None = None
    _updating: Thread | None = None
    _update_failed: bool = False

    def __post_init__(self) -> None:
        self._coverage = Coverage(self.notices)

    @property
    def index(self) -> Path:
        """The private index."""
        return self._state / "arc-index"

    @property
    def _state(self) -> Path:
        return self.state or self.worktree.admin

    def capture(self, base: str) -> Captured:
        """The tree of the files as they are now. `base` is the commit or tree that the private index was last in step with.

        Raises:
            StageError: git could not capture them; nothing older is reused.
        """
        self.settle()
        self._prepare()
        gaps: dict[bytes, str] = {}
        try:
            entries = self._status(gaps)
            fault("git.stage.status")
            changed = self._changed(entries, gaps)
            edits = self._hash_here(base, entries, changed)
            if edits is None:
                self._update(changed, gaps)
            elif changed:
                self._updating = Thread(target=self._update_beside, args=(changed,), name="arc-index")
                self._updating.start()
            fault("git.stage.indexed")
            tree, count = self._tree_from(base, edits) if edits is not None else self._tree(base)
        except GitError as error:
            raise StageError(f"the files in `{self.worktree.path}` could not be captured", details=error.details) from error
        fault("git.stage.tree")
        nested = self._coverage.nested_above(self.worktree.path, changed, self._git_links())
        return Captured(tree, count, nested, tuple(Gap(path, reason) for path, reason in sorted(gaps.items())))

    def settle(self) -> None:
        """Wait until the private index is in step with the last capture."""
        if self._updating is None:
            return
        self._updating.join()
        self._updating = None
        if self._update_failed:
            self._update_failed = False
            self.rebuild("HEAD")

    def _update_beside(self, changed: Sequence[bytes]) -> None:
        gaps: dict[bytes, str] = {}
        try:
            self._update(changed, gaps)
        except (GitError, OSError):  # the files were captured all the same; `settle` makes the index anew
            self._update_failed = True
        else:
            self._update_failed = bool(gaps)

    def git(self) -> Git:
        """Git on the worktree with the private index."""
        return worktree_git(
            self.repository, self.worktree, index=self.index, settings=(*INDEX_SETTINGS, f"core.excludesFile={self._excludes_file}")
        )

    def rebuild(self, commit: str) -> None:
        """Make the private index anew from a commit; every file is then compared by content once."""
        self.index.unlink(missing_ok=True)
        self.git().run("read-tree", commit)

    @property
    def _excludes_file(self) -> Path:
        return self._state / "arc-exclude"

    @property
    def _scratch(self) -> Path:
        return self._state / "arc-scratch"

    def forget_promises(self) -> None:
        """Drop `assume unchanged` marks from the private index (a copy of a person's), so that every file is looked at."""
        output = self.git().run("ls-files", "-v", "-z", read_only=True)
        marked = [line[2:] for line in output.split(b"\0")[:-1] if line[:1].islower()]
        if marked:
            self.git().run("update-index", "--no-assume-unchanged", "-z", "--stdin", input=_lines(marked))

    def _prepare(self) -> None:
        clear_stale_lock(self.index.with_name("arc-index.lock"))
        text = self._exclude_text()
        if not self._excludes_file.exists() or self._excludes_file.read_bytes() != text:
            write_atomic(self._excludes_file, text, durable=False)
        if not (self.index.exists() and self.index.stat().st_size > 32):
            self.index.unlink(missing_ok=True)
            if self.worktree.index.exists() and self.worktree.index.stat().st_size > 32:
                shutil.copyfile(self.worktree.index, self.index)
            else:
                self.rebuild("HEAD")

    def _exclude_text(self) -> bytes:
        """The run's globs after what the repository's own configuration ignores everywhere."""
        changed = (self.repository.common_dir / "config").stat().st_mtime
        if self._excludes[0] != changed:
            self._excludes = (changed, _local_excludes(self.repository) or b"")
        return self._excludes[1] + self.more_excludes + "".join(f"{glob}\n" for glob in self.exclude_globs).encode()

    def _status(self, gaps: dict[bytes, str]) -> tuple[StatusEntry, ...]:
        command = (
            "status",
            "--porcelain=v2",
            "-z",
            "--untracked-files=normal",
            "--no-renames",
            "--no-ahead-behind",
            "--ignore-submodules=none",
        )
        # Now and then git may write its untracked cache back into the index; each time would cost more than the folders it looks at again.
        write = self._captures % WRITE_BACK_EVERY == 0
        self._captures += 1
        result = self.git().finish(*command, check=False, read_only=not write)
        if result.returncode != 0 and (b"index file" in result.stderr or b"bad signature" in result.stderr):
            self.rebuild("HEAD")  # torn by a power loss: it holds nothing that cannot be made again
            result = self.git().finish(*command, check=False)
        if result.returncode != 0:
            message = os.fsdecode(result.stderr)
            raise GitError("`git status` failed", command=command, exit_code=result.returncode, stderr=message)
        for line in result.stderr.split(b"\n"):
            if line.startswith(b"warning: could not open directory '"):
                gaps[line.split(b"'")[1].rstrip(b"/")] = "the folder cannot be read"
        return parse_status(result.stdout)

    def _changed(self, entries: Sequence[StatusEntry], gaps: dict[bytes, str]) -> list[bytes]:
        """The paths to hand to `git update-index`."""
        top = self.worktree.path
        for entry in entries:
            if entry.is_submodule and entry.submodule[2:] != "..":
                gaps[entry.path] = "the submodule has uncommitted work, which is not in this checkpoint"
        changed = [entry.path for entry in entries if not entry.untracked and entry.unstaged != "."]
        changed = [path for path in changed if path not in gaps or _submodule_moved(entries, path)]
        untracked = [entry.path for entry in entries if entry.untracked]
        # A folder where a tracked file was: git reports the file as deleted and says nothing of the folder.
        untracked += [entry.path + b"/" for entry in entries if entry.unstaged == "D" and _is_folder(top, entry.path)]
        if untracked:
            submodules = self._registered_submodules() if any(name.endswith(b"/") for name in untracked) else frozenset()
            changed += [name.rstrip(b"/") for name in untracked if name.rstrip(b"/") in submodules]
            untracked = [name for name in untracked if name.rstrip(b"/") not in submodules]
            found = expand_untracked(self.git(), top, self._scratch_repository(), untracked, self._excludes_file)
            new = self._without_excluded(found.files)
            self._coverage.nested(found.nested)
            self._coverage.size(top, new)
            changed += new
        for folder in {os.path.dirname(path) for path in changed} | {b""}:
            for name in special_files(os.fsencode(top), folder):
                gaps[name] = "a pipe, socket or device cannot be stored"
        self._coverage.submodules(self._git_links(), top, gaps)
        return [path for path in changed if path not in gaps or not is_special(os.fsencode(top) + b"/" + path)]

    def _git_links(self) -> set[bytes]:
        """Paths of all submodules in the index; asked once, then kept up to date."""
        if self._gitlinks is None:
            output = self.git().run("ls-files", "--stage", "-z", read_only=True)
            self._gitlinks = {line.split(b"\t", 1)[1] for line in output.split(b"\0")[:-1] if line.startswith(b"160000")}
        return self._gitlinks

    def _update(self, changed: Sequence[bytes], gaps: dict[bytes, str]) -> None:
        """Bring the private index in step with these paths. What cannot be read stays as it was and is a gap."""
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
            unreadable = [path for path in paths if not _readable(top, path)]
            for path in unreadable:
                gaps[path] = "the file cannot be read"
            paths = [path for path in paths if path not in set(unreadable)]
            if attempt == 2 or (not unreadable and attempt == 1):
                message = os.fsdecode(result.stderr)
                raise GitError("`git update-index` failed", command=("update-index",), exit_code=result.returncode, stderr=message)

    def _hash_here(self, base: str, entries: Sequence[StatusEntry], changed: Sequence[bytes]) -> Edits | None:
        """The changes as tree edits, hashed in this process; None if git itself must say what it stored.

        That is so when index and base differ (after a crash, or HEAD is elsewhere), for submodules and where attributes may apply.
        """
        plain = all(entry.untracked or (entry.staged == "." and not entry.is_submodule) for entry in entries)
        if not plain or len(changed) > MANY_CHANGES or self.repository.head_of(self.worktree.admin) != base:
            return None
        return hash_files(self.repository, self.worktree.path, changed)

    def _tree_from(self, base: str, edits: Edits) -> tuple[str, int]:
        base_tree = tree_of(self.repository, base)
        return edit_tree(self.repository, base_tree, edits) if edits else base_tree, len(edits)

    def _tree(self, base: str) -> tuple[str, int]:
        """The tree of the private index, made from the base's tree and the entries that differ."""
        base_tree = tree_of(self.repository, base)
        output = self.git().run(
            "diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none", base_tree, read_only=True
        )
        fields = output.split(b"\0")
        edits: dict[bytes, Entry | None] = {}
        for header, path in zip(fields[0:-1:2], fields[1::2], strict=True):
            _, mode, _, new, letter = header.split(b" ")
            edits[path] = None if letter == b"D" else Entry(int(mode, 8), new.decode())
            if self._gitlinks is not None and int(mode, 8) == GITLINK:
                self._gitlinks.add(path)
        return edit_tree(self.repository, base_tree, edits) if edits else base_tree, len(edits)

    def _without_excluded(self, paths: Sequence[bytes]) -> list[bytes]:
        """New files that no glob of the run matches, also where a `.gitignore` would let them in again."""
        if not self.exclude_globs or not paths:
            return list(paths)
        scratch = self._scratch_repository()
        write_atomic(scratch / "arc-globs", "".join(f"{glob}\n" for glob in self.exclude_globs).encode(), durable=False)
        empty = scratch / "empty"
        empty.mkdir(exist_ok=True)
        git = Git(empty, git_dir=scratch, work_tree=empty, settings=(f"core.excludesFile={scratch / 'arc-globs'}",))
        excluded = set(ignored_paths(git, paths))
        return [path for path in paths if path not in excluded]

    def _scratch_repository(self) -> Path:
        """An empty repository for questions about ignore rules; it never holds anything."""
        scratch = self._scratch
        if not (scratch / "HEAD").exists():
            shutil.rmtree(scratch, ignore_errors=True)
            Git(self._state).run("init", "--quiet", "--bare", "--template=", str(scratch))
            (scratch / "config").unlink()
        return scratch

    def _registered_submodules(self) -> frozenset[bytes]:
        """Paths that the worktree's `.gitmodules` names."""
        modules = self.worktree.path / ".gitmodules"
        if not modules.is_file() or modules.is_symlink():
            return frozenset()
        command = ("config", "--file", str(modules), "--null", "--get-regexp", r"^submodule\..*\.path$")
        result = Git(self._state).finish(*command, check=False)
        return frozenset(record.split(b"\n", 1)[1] for record in result.stdout.split(b"\0") if b"\n" in record)


def _local_excludes(repository: Repository) -> bytes | None:
    """The ignore file that the repository's own configuration names, if it does."""
    configured = repository.config("core.excludesfile")
    if configured is None:
        return None
    place = Path(os.path.expanduser(configured))
    return place.read_bytes().rstrip(b"\n") + b"\n" if place.is_file() else None


def _submodule_moved(entries: Sequence[StatusEntry], path: bytes) -> bool:
    return any(entry.path == path and entry.submodule[1:2] == "C" for entry in entries)


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


def _readable(top: bytes, path: bytes) -> bool:
    place = top + b"/" + path
    try:
        if not stat.S_ISREG(os.lstat(place).st_mode):
            return True
        os.close(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return True


def _is_folder(top: Path, path: bytes) -> bool:
    place = os.fsencode(top) + b"/" + path
    return os.path.isdir(place) and not os.path.islink(place)
