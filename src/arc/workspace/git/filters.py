"""Filters that `.gitattributes` files name but no configuration of the repository defines: content then passes as it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pygit2

from arc.base.git import Git
from arc.workspace.git.coverage import show
from arc.workspace.git.repository import Repository
from arc.workspace.notices import Notice

ATTRIBUTES = b".gitattributes"


def attribute_files(git: Git) -> tuple[bytes, ...]:
    """All `.gitattributes` files in the index that `git` works with."""
    output = git.run("ls-files", "-z", "--", ":(glob)**/.gitattributes", extra_env={"GIT_LITERAL_PATHSPECS": "0"}, read_only=True)
    return tuple(output.split(b"\0")[:-1])


def undefined_filters(repository: Repository, top: Path, files: Iterable[bytes]) -> dict[str, bytes]:
    """Names of filters that one of these files asks for and the repository's configuration does not define, each with that file."""
    found: dict[str, bytes] = {}
    for path in files:
        for name in _filters_in(top / path.decode(errors="surrogateescape")):
            if name not in found and not _is_defined(repository, name):
                found[name] = path
    return found


def filter_notice(found: dict[str, bytes]) -> Notice:
    """What it means that these filters are missing."""
    names = ", ".join(f"`{name}`" for name in sorted(found))
    message = (
        f"the filter{'s' if len(found) > 1 else ''} {names} in .gitattributes {'are' if len(found) > 1 else 'is'} not defined in the "
        "repository's own configuration: files are checked out and committed as they are"
    )
    hints = tuple(f"{show(path)} asks for `{name}`" for name, path in sorted(found.items()))
    if "lfs" in found:
        hints += ("to define it for this repository: `git lfs install --local`",)
    return Notice("warning", "workspace.filter_undefined", message, hints)


def _filters_in(file: Path) -> list[str]:
    try:
        lines = file.read_text("utf-8", "replace").splitlines() if file.is_file() else []
    except OSError:
        return []
    words = (word for line in lines if not line.lstrip().startswith("#") for word in line.split()[1:])
    return [word.removeprefix("filter=") for word in words if word.startswith("filter=")]


def _is_defined(repository: Repository, name: str) -> bool:
    try:
        return any(repository.config(f"filter.{name}.{key}") is not None for key in ("clean", "smudge", "process"))
    except (ValueError, pygit2.GitError):
        return False
