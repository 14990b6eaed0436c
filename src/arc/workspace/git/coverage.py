"""What a capture has to tell: nested repositories, very large harvests; and what it cannot hold: special files, work inside submodules."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from arc.base.git import Git
from arc.workspace.git.nested import is_nested_repository
from arc.workspace.notices import Notice, NoticeSink

MANY_FILES = 10_000
MANY_BYTES = 200 * 1000 * 1000


class Coverage:
    """Tells one worktree's notices; a nested repository is told once."""

    def __init__(self, notices: NoticeSink) -> None:
        self._notices = notices
        self._told: set[bytes] = set()

    def nested(self, paths: Iterable[bytes]) -> None:
        """Nested repositories were captured as plain files."""
        new = sorted(set(paths) - self._told)
        self._told.update(new)
        if new:
            message = f"{len(new)} nested {'repository is' if len(new) == 1 else 'repositories are'} captured as files, without `.git`"
            self._notices(Notice("warning", "workspace.nested_repository", message, tuple(show(path) for path in new)))

    def nested_above(self, top: Path, changed: Iterable[bytes], submodules: set[bytes]) -> tuple[str, ...]:
        """Nested repositories that hold one of the paths (also where the folder was tracked before the repository was made); told too."""
        folders: set[bytes] = set()
        for path in changed:
            folder = os.path.dirname(path)
            while folder and folder not in folders:
                folders.add(folder)
                folder = os.path.dirname(folder)
        found = [folder for folder in sorted(folders - submodules) if is_nested_repository(top / os.fsdecode(folder))]
        self.nested(found)
        return tuple(show(path) for path in found)

    def size(self, top: Path, new: Sequence[bytes]) -> None:
        """A loud word when one node makes very many or very large new files: they are committed, but hardly meant."""
        place = os.fsencode(top)
        sizes = {path: _size(place + b"/" + path) for path in new}
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
        message = f"this node made {len(sizes)} new files, {total / 1e6:.0f} MB; all committed (`[checkpoint] exclude_globs` narrows it)"
        self._notices(Notice("warning", "workspace.many_new_files", message, details))

    def submodules(self, paths: Iterable[bytes], top: Path, gaps: dict[bytes, str]) -> None:
        """Files in the folder of a submodule that is not checked out, and commits that exist only in this worktree, are gaps."""
        for path in paths:
            place = top / os.fsdecode(path)
            if not place.is_dir() or place.is_symlink():
                continue
            if not (place / ".git").exists():
                if any(place.iterdir()):
                    gaps.setdefault(path, "the submodule is not checked out, the files in its folder are not in this checkpoint")
            elif not _published(place):
                gaps.setdefault(path, "the submodule's commit exists only in this worktree")


def uncaptured(top: Path, folders: Iterable[bytes], submodules: set[bytes]) -> dict[bytes, str]:
    """What these folders hold that no commit does: special files, and the history of nested repositories. One look at each folder."""
    place = os.fsencode(top)
    found: dict[bytes, str] = {}
    for folder in folders:
        for name in special_files(place, folder):
            found[name] = "a pipe, socket or device cannot be stored"
        if (
            folder
            and folder not in submodules
            and is_nested_repository(top / os.fsdecode(folder))
            and _has_commits(top / os.fsdecode(folder))
        ):
            found[folder] = "the nested repository's own history is not in the checkpoints"
    return found


def show(path: bytes) -> str:
    """A path for people: control characters and bytes that are not UTF-8 escaped."""
    text = os.fsdecode(path)
    return "".join(c if c.isprintable() else "".join(f"\\x{byte:02x}" for byte in c.encode("utf-8", "surrogateescape")) for c in text)


def special_files(top: bytes, folder: bytes) -> list[bytes]:
    """Pipes, sockets and devices directly in a folder, as paths from the top."""
    try:
        with os.scandir(top + b"/" + folder if folder else top) as entries:
            odd = [e for e in entries if not (e.is_symlink() or e.is_file(follow_symlinks=False) or e.is_dir(follow_symlinks=False))]
    except OSError:  # the folder is gone: its files are among the deleted ones
        return []
    return [folder + b"/" + entry.name if folder else entry.name for entry in odd]


def is_special(place: bytes) -> bool:
    """Whether something stands there that git cannot store."""
    try:
        mode = os.lstat(place).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode))


def _published(place: Path) -> bool:
    """Whether a submodule's HEAD is on one of its remote branches or tags."""
    git = Git(place)
    head = git.finish("rev-parse", "--verify", "--quiet", "HEAD", check=False, read_only=True)
    if head.returncode != 0:
        return True  # no commit at all: nothing that could be lost but files, which `git status` reports
    answer = git.finish("for-each-ref", "--count=1", "--contains", "HEAD", "refs/remotes", "refs/tags", check=False, read_only=True)
    return bool(answer.stdout.strip())


def _has_commits(place: Path) -> bool:
    result = Git(place).finish("rev-list", "--all", "--max-count=1", check=False, read_only=True)
    return result.returncode != 0 or bool(result.stdout.strip())


def _size(place: bytes) -> int:
    try:
        return os.lstat(place).st_size
    except OSError:
        return 0
