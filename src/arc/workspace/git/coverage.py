"""What a capture has to tell: nested repositories, very large harvests; and what it cannot hold: special files, work inside submodules."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from arc.base.git import Git
from arc.workspace.git.nested import is_nested_repository
from arc.workspace.notices import Notice, NoticeSink


@dataclass(frozen=True)
class Limits:
    """From how many new files, or bytes in them, on one node's harvest is told loudly."""

    files: int = 10_000
    bytes: int = 200 * 1000 * 1000


DEFAULT_LIMITS = Limits()


class Coverage:
    """Tells one worktree's notices; a nested repository is told once."""

    def __init__(self, notices: NoticeSink, limits: Limits) -> None:
        self._notices = notices
        self._limits = limits
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
        if len(sizes) <= self._limits.files and total <= self._limits.bytes:
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


def unstored_histories(top: Path, folders: Iterable[bytes], submodules: set[bytes]) -> dict[bytes, str]:
    """Those of the folders that are nested repositories with commits of their own: no checkpoint holds these."""
    found: dict[bytes, str] = {}
    for folder in folders:
        if not folder or folder in submodules:
            continue
        place = top / os.fsdecode(folder)
        if is_nested_repository(place) and _has_commits(place):
            found[folder] = "the nested repository's own history is not in the checkpoints"
    return found


def show(path: bytes) -> str:
    """A path for people: control characters and bytes that are not UTF-8 escaped."""
    text = os.fsdecode(path)
    return "".join(c if c.isprintable() else "".join(f"\\x{byte:02x}" for byte in c.encode("utf-8", "surrogateescape")) for c in text)


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
