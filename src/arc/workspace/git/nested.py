"""Repositories inside the worktree that are not submodules: captured as plain files, their `.git` aside.

Git itself either refuses them (no commit yet) or records only a commit id (a gitlink), and their files would be lost. Here their files
are listed by git with a scratch repository whose work tree is the nested one: so the nested `.gitignore` files and `info/exclude`
apply as the outer ones do, and `.git` is never entered.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pygit2

from arc.base.git import Git, GitError

_ARGUMENT_BYTES = 100_000


@dataclass(frozen=True)
class Untracked:
    """New files (paths from the top), and the nested repositories they were found in."""

    files: tuple[bytes, ...]
    nested: tuple[bytes, ...]


def expand_untracked(git: Git, top: Path, scratch: Path, names: Iterable[bytes], excludes: Path) -> Untracked:
    """Turn untracked names as git reports them (folders end in `/`) into files.

    `git` works on the worktree's private index; `scratch` is an empty repository; `excludes` a file of ignore patterns.
    """
    names = list(names)
    files = [name for name in names if not name.endswith(b"/")]
    folders = [name for name in names if name.endswith(b"/")]
    nested: list[bytes] = []
    waiting = [name for name in folders if is_nested_repository(top / os.fsdecode(name))]
    for chunk in _chunks([name for name in folders if name not in set(waiting)]):
        output = git.run("ls-files", "--others", "--exclude-standard", "-z", "--", *map(os.fsdecode, chunk), read_only=True)
        for name in output.split(b"\0")[:-1]:
            (waiting if name.endswith(b"/") else files).append(name)
    inside: list[bytes] = []
    while waiting:
        folder = waiting.pop()
        nested.append(folder.rstrip(b"/"))
        for name in _list_nested(top, scratch, folder, excludes):
            (waiting if name.endswith(b"/") else inside).append(folder + name)
    if inside:
        ignored = set(ignored_paths(git, inside))
        files += [name for name in inside if name not in ignored]
    return Untracked(tuple(dict.fromkeys(files)), tuple(sorted(nested)))


def ignored_paths(git: Git, paths: Iterable[bytes]) -> tuple[bytes, ...]:
    """Those of the paths that the outer repository's rules ignore."""
    command = ("check-ignore", "--no-index", "-z", "--stdin")
    # `./` keeps names that begin with a colon from being read as pathspec magic; the command refuses literal pathspecs.
    lines = b"".join(b"./" + path + b"\0" for path in paths)
    result = git.finish(*command, input=lines, check=False, extra_env={"GIT_LITERAL_PATHSPECS": "0"}, read_only=True)
    if result.returncode not in (0, 1):
        stderr = result.stderr.decode(errors="replace")
        raise GitError("`git check-ignore` failed", command=command, exit_code=result.returncode, stderr=stderr)
    return tuple(line.removeprefix(b"./") for line in result.stdout.split(b"\0")[:-1])


def is_nested_repository(folder: Path) -> bool:
    """Whether the folder has a `.git` of its own that git would take for a repository."""
    place = folder / ".git"
    try:
        return place.is_file() or (place / "HEAD").is_file() or (place / "HEAD").is_symlink()
    except OSError:
        return False


def _list_nested(top: Path, scratch: Path, folder: bytes, excludes: Path) -> Iterable[bytes]:
    """Files of one nested repository (deeper ones as `name/`), relative to it; what it tracks is there although it ignores it."""
    place = top / os.fsdecode(folder)
    own = place / ".git" / "info" / "exclude"
    more = [f"--exclude-from={own}"] if own.is_file() else []
    git = Git(place, git_dir=scratch, work_tree=place, settings=(f"core.excludesFile={excludes}",))
    names = git.run("ls-files", "--others", "--exclude-standard", *more, "-z", read_only=True).split(b"\0")[:-1]
    return dict.fromkeys([*names, *_tracked(place)])


def _tracked(place: Path) -> list[bytes]:
    """Files in a nested repository's own index that are still there; its gitlinks are listed anyway."""
    try:
        index = pygit2.Index(str(place / ".git" / "index"))
        names = [os.fsencode(entry.path) for entry in index if entry.mode & 0o170000 != 0o160000]
    except (pygit2.GitError, OSError, UnicodeError):
        return []  # no index or an unreadable one: what it tracks is then not known, only what lies there
    return [name for name in names if os.path.lexists(place / os.fsdecode(name)) and not (place / os.fsdecode(name)).is_dir()]


def _chunks(names: list[bytes]) -> Iterable[list[bytes]]:
    """The names in portions that fit on a command line."""
    chunk: list[bytes] = []
    size = 0
    for name in names:
        chunk.append(name)
        size += len(name) + 1
        if size > _ARGUMENT_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
