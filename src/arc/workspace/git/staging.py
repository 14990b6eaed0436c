"""Capturing a worktree as a tree, through a private index that nobody else knows.

Four steps: `git status` on the private index (with untracked cache and preloading: the whole cost of a large repository), the list of
new files, `git update-index` for the paths that differ (filters, attributes and modes are git's), and the tree, edited in this process from
the previous checkpoint's. The worktree's own index is neither read nor written.

Threads: one call at a time per worktree; the run's lease keeps other processes away.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from arc.base.atomic import write_atomic
from arc.base.faults import declare_faults, fault
from arc.base.git import Git, GitError
from arc.workspace.git.errors import StageError
from arc.workspace.git.locks import clear_stale_lock
from arc.workspace.git.nested import expand_untracked, ignored_paths, is_nested_repository
from arc.workspace.git.objects import GITLINK, Entry, edit_tree, tree_of
from arc.workspace.git.repository import Repository
from arc.workspace.git.status import StatusEntry, parse_status
from arc.workspace.git.worktree import Worktree, worktree_git
from arc.workspace.notices import Notice, NoticeSink
from arc.workspace.plan import Gap

MANY_FILES = 10_000
MANY_BYTES = 200 * 1000 * 1000
INDEX_SETTINGS = ("core.untrackedCache=true", "core.preloadIndex=true", "index.version=4", "core.splitIndex=false", "index.sparse=false")

declare_faults(
    {
        "git.stage.status": "the differing paths are known, the private index is as before",
        "git.stage.indexed": "the private index holds the files, their blobs are written",
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
    _reported: set[bytes] = field(default_factory=set)
    _gitlinks: set[bytes] | None = None

    @property
    def index(self) -> Path:
        """The private index, in the worktree's administrative folder."""
        return self.worktree.admin / "arc-index"

    def capture(self, base: str) -> Captured:
        """The tree of the files as they are now. `base` is the commit or tree that the private index was last in step with.

        Raises:
            StageError: git could not capture them; nothing older is reused.
        """
        self._prepare()
        gaps: dict[bytes, str] = {}
        try:
            entries = self._status(gaps)
            fault("git.stage.status")
            changed = self._changed(entries, gaps)
            self._update(changed, gaps)
            fault("git.stage.indexed")
            tree, count = self._tree(base)
        except GitError as error:
            raise StageError(f"the files in `{self.worktree.path}` could not be captured", details=error.details) from error
        fault("git.stage.tree")
        nested = self._nested_above(changed)
        return Captured(tree, count, nested, tuple(Gap(path, reason) for path, reason in sorted(gaps.items())))

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
        return self.worktree.admin / "arc-exclude"

    @property
    def _scratch(self) -> Path:
        return self.worktree.admin / "arc-scratch"

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
        text = b""
        if (configured := _local_excludes(self.repository)) is not None:
            text = configured.rstrip(b"\n") + b"\n"
        return text + "".join(f"{glob}\n" for glob in self.exclude_globs).encode()

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
        result = self.git().finish(*command, check=False)
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
        if untracked:
            submodules = self._registered_submodules() if any(name.endswith(b"/") for name in untracked) else frozenset()
            changed += [name.rstrip(b"/") for name in untracked if name.rstrip(b"/") in submodules]
            untracked = [name for name in untracked if name.rstrip(b"/") not in submodules]
            found = expand_untracked(self.git(), top, self._scratch_repository(), untracked, self._excludes_file)
            new = self._without_excluded(found.files)
            self._report_nested(found.nested)
            self._report_size(new)
            changed += new
        for folder in {os.path.dirname(path) for path in changed} | {b""}:
            for name in _special_files(os.fsencode(top), folder):
                gaps[name] = "a pipe, socket or device cannot be stored"
        changed = [path for path in changed if path not in gaps or not _is_special(os.fsencode(top) + b"/" + path)]
        self._check_gitlinks(entries, gaps)
        return changed

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
            Git(self.worktree.admin).run("init", "--quiet", "--bare", "--template=", str(scratch))
            (scratch / "config").unlink()
        return scratch

    def _registered_submodules(self) -> frozenset[bytes]:
        """Paths that the worktree's `.gitmodules` names."""
        modules = self.worktree.path / ".gitmodules"
        if not modules.is_file() or modules.is_symlink():
            return frozenset()
        command = ("config", "--file", str(modules), "--null", "--get-regexp", r"^submodule\..*\.path$")
        result = Git(self.worktree.admin).finish(*command, check=False)
        return frozenset(record.split(b"\n", 1)[1] for record in result.stdout.split(b"\0") if b"\n" in record)

    def _check_gitlinks(self, entries: Sequence[StatusEntry], gaps: dict[bytes, str]) -> None:
        """Submodules: files in the folder of one that is not checked out, and commits that exist only there, are gaps."""
        if self._gitlinks is None:
            output = self.git().run("ls-files", "--stage", "-z", read_only=True)
            self._gitlinks = {line.split(b"\t", 1)[1] for line in output.split(b"\0")[:-1] if line.startswith(b"160000")}
        for path in self._gitlinks:
            place = self.worktree.path / os.fsdecode(path)
            if not place.is_dir() or place.is_symlink():
                continue
            if not (place / ".git").exists():
                if any(place.iterdir()):
                    gaps.setdefault(path, "the submodule is not checked out, the files in its folder are not in this checkpoint")
            elif not _published(place):
                gaps.setdefault(path, "the submodule's commit exists only in this worktree")

    def _report_nested(self, nested: Iterable[bytes]) -> None:
        new = [path for path in nested if path not in self._reported]
        self._reported.update(new)
        if new:
            message = (
                f"{len(new)} nested {'repository is' if len(new) == 1 else 'repositories are'} captured as plain files, without `.git`"
            )
            self.notices(Notice("warning", "workspace.nested_repository", message, tuple(show(path) for path in new)))

    def _nested_above(self, changed: Iterable[bytes]) -> tuple[str, ...]:
        """Nested repositories that hold one of the paths (also where the folder was tracked before the repository was made)."""
        folders: set[bytes] = set()
        for path in changed:
            folder = os.path.dirname(path)
            while folder and folder not in folders:
                folders.add(folder)
                folder = os.path.dirname(folder)
        gitlinks = self._gitlinks or set()
        nested = [f for f in sorted(folders) if f not in gitlinks and is_nested_repository(self.worktree.path / os.fsdecode(f))]
        self._report_nested(nested)
        return tuple(show(path) for path in nested)

    def _report_size(self, new: Sequence[bytes]) -> None:
        """A loud word when one node makes very many or very large new files: they are committed, but hardly meant."""
        top = os.fsencode(self.worktree.path)
        sizes = {path: _size(top + b"/" + path) for path in new}
        total = sum(sizes.values())
        if len(sizes) <= MANY_FILES and total <= MANY_BYTES:
            return
        count: Counter[bytes] = Counter()
        volume: Counter[bytes] = Counter()
        for path, size in sizes.items():
            folder = b"/".join(path.split(b"/")[:-1][:2]) or b"."
            count[folder] += 1
            volume[folder] += size
        largest = sorted(count, key=lambda folder: (volume[folder], count[folder]), reverse=True)[:5]
        details = tuple(f"{show(folder)}: {count[folder]} files, {volume[folder] / 1e6:.0f} MB" for folder in largest)
        message = (
            f"this node made {len(sizes)} new files, {total / 1e6:.0f} MB; all are committed (`[checkpoint] exclude_globs` narrows it)"
        )
        self.notices(Notice("warning", "workspace.many_new_files", message, details))


def show(path: bytes) -> str:
    """A path for people: control characters and bytes that are not UTF-8 escaped."""
    return "".join(
        c if c.isprintable() else c.encode("utf-8", "surrogateescape").decode("latin-1").encode("unicode_escape").decode()
        for c in os.fsdecode(path)
    )


def _local_excludes(repository: Repository) -> bytes | None:
    """The ignore file that the repository's own configuration names, if it does."""
    config = pygit2_config(repository)
    if "core.excludesfile" not in config:
        return None
    place = Path(os.path.expanduser(config["core.excludesfile"]))
    return place.read_bytes() if place.is_file() else None


def pygit2_config(repository: Repository) -> dict[str, str]:
    """The repository's own configuration, names in lower case."""
    return {entry.name.lower(): entry.value or "" for entry in repository.pygit2.config}


def _published(place: Path) -> bool:
    """Whether a submodule's HEAD is on one of its remote branches or tags, or is what it was cloned at."""
    git = Git(place)
    head = git.finish("rev-parse", "--verify", "--quiet", "HEAD", check=False, read_only=True)
    if head.returncode != 0:
        return True  # no commit at all: nothing that could be lost but files, which `git status` reports
    answer = git.finish("for-each-ref", "--count=1", "--contains", "HEAD", "refs/remotes", "refs/tags", check=False, read_only=True)
    return bool(answer.stdout.strip())


def _submodule_moved(entries: Sequence[StatusEntry], path: bytes) -> bool:
    return any(entry.path == path and entry.submodule[1:2] == "C" for entry in entries)


def _lines(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def _special_files(top: bytes, folder: bytes) -> list[bytes]:
    """Pipes, sockets and devices directly in a folder, as paths from the top."""
    try:
        with os.scandir(top + b"/" + folder if folder else top) as entries:
            odd = [e for e in entries if not (e.is_symlink() or e.is_file(follow_symlinks=False) or e.is_dir(follow_symlinks=False))]
    except OSError:  # the folder is gone: its files are among the deleted ones
        return []
    return [folder + b"/" + entry.name if folder else entry.name for entry in odd]


def _is_special(place: bytes) -> bool:
    try:
        mode = os.lstat(place).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode))


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


def _size(place: bytes) -> int:
    try:
        return os.lstat(place).st_size
    except OSError:
        return 0
