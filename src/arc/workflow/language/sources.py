"""Where the texts come from that a workflow refers to: prompts (`@file.md`) and child workflows."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from arc.base.errors import NotFoundError
from arc.workflow.language.text import decode_source


class SourceReader(Protocol):
    """Reads a text by its path relative to the workflow file (`/` between parts)."""

    def read(self, path: str) -> str:
        """The file's text.

        Raises:
            NotFoundError: there is no such file, or it cannot be read; says why.
            WorkflowError: it is not UTF-8.
        """
        ...


class FileSources:
    """Files on disk, relative to a directory (the one of the workflow file)."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, path: str) -> str:
        try:
            data = (self._directory / path).read_bytes()
        except FileNotFoundError:
            raise NotFoundError(f"there is no file `{path}`") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise NotFoundError(f"`{path}` cannot be read: {reason}") from error
        return decode_source(data, path)


class StoredSources:
    """The texts that an earlier reading recorded (`Workflow.sources`), by path: replays it without the files."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = {normal_path(path): text for path, text in files.items()}

    def read(self, path: str) -> str:
        try:
            return self._files[normal_path(path)]
        except KeyError:
            raise NotFoundError(f"the stored workflow holds no file `{path}`") from None


class RecordingSources:
    """Passes reading on and keeps what was read, by the normal form of its path."""

    def __init__(self, reader: SourceReader) -> None:
        self._reader = reader
        self.texts: dict[str, str] = {}

    def read(self, path: str) -> str:
        path = normal_path(path)
        if path not in self.texts:
            self.texts[path] = self._reader.read(path)
        return self.texts[path]


def normal_path(path: str) -> str:
    """`./a//b/../c.md` → `a/c.md`. Absolute paths stay absolute, leading `..` stays."""
    return posixpath.normpath(path)


def join_path(base: str, path: str) -> str:
    """`path` as written in a file in directory `base` (itself relative to the workflow file), relative to the workflow file."""
    return normal_path(posixpath.join(base, path))
