"""Hashing changed files in this process, where git would store them byte for byte.

Only where no attribute, no filter and no line-ending conversion can apply; everywhere else the git program decides what is stored.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from pygit2.enums import ObjectType

from arc.workspace.git.objects import EXECUTABLE, FILE, LINK, Edits, Entry
from arc.workspace.git.repository import Repository

_LARGEST = 64 * 1024 * 1024


def hash_files(repository: Repository, top: Path, paths: Sequence[bytes]) -> Edits | None:
    """Write the files' blobs and return them as tree edits (None for a path: it is gone); None as a whole: git must do it."""
    if not _stored_as_they_are(repository) or _attributes_above(os.fsencode(top), paths):
        return None
    edits: dict[bytes, Entry | None] = {}
    for path in paths:
        try:
            edits[path] = _hash(repository, os.fsencode(top) + b"/" + path)
        except (FileNotFoundError, NotADirectoryError):
            edits[path] = None
        except OSError:
            return None  # unreadable: git finds that out too, and says so
        if edits[path] is _TOO_LARGE:
            return None
    return edits


_TOO_LARGE = Entry(0, "")


def _hash(repository: Repository, place: bytes) -> Entry | None:
    status = os.lstat(place)
    if stat.S_ISLNK(status.st_mode):
        return Entry(LINK, repository.write(ObjectType.BLOB, os.readlink(place)))
    if not stat.S_ISREG(status.st_mode):
        return None
    if status.st_size > _LARGEST:
        return _TOO_LARGE
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        data = file.read()
    return Entry(EXECUTABLE if status.st_mode & 0o100 else FILE, repository.write(ObjectType.BLOB, data))


def _stored_as_they_are(repository: Repository) -> bool:
    """Whether the repository's configuration changes nothing about contents and modes."""
    convert = (repository.config("core.autocrlf") or "false").lower()
    modes = (repository.config("core.filemode") or "true").lower()
    links = (repository.config("core.symlinks") or "true").lower()
    attributes = repository.common_dir / "info" / "attributes"
    plain = convert in ("false", "no", "off", "0") and all(value in ("true", "yes", "on", "1") for value in (modes, links))
    return plain and not attributes.exists()


def _attributes_above(top: bytes, paths: Sequence[bytes]) -> bool:
    """Whether a `.gitattributes` file lies in a folder of one of the paths."""
    if os.path.lexists(top + b"/.gitattributes"):
        return True
    seen: set[bytes] = set()
    for path in paths:
        folder = os.path.dirname(path)
        while folder and folder not in seen:
            seen.add(folder)
            if os.path.lexists(top + b"/" + folder + b"/.gitattributes"):
                return True
            folder = os.path.dirname(folder)
    return False
