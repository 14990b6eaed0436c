"""Errors that a person can meet: a code, a sentence, hints, an exit status.

A room raises a fact (what failed on which thing, what is untouched); only the faces
(`arc.cli`, `arc.server`) turn it into a line on a terminal or a JSON object. Each subclass
declares a unique dotted `code`; `docs/errors.md` lists all of them (a test compares).
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitStatus(IntEnum):
    """Exit statuses of the `arc` command (documented in docs/cli.md)."""

    OK = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    NOT_FOUND = 4
    BUSY = 5
    INTERNAL = 70


class ArcError(Exception):
    """Base of all errors with a message for people.

    `message` is one sentence without a final period; `hints` are commands or remedies, each one
    line, shown after a blank line. `details` are further lines (positions, paths, causes).
    """

    code: ClassVar[str] = "arc.error"
    status: ClassVar[ExitStatus] = ExitStatus.FAILED

    def __init__(self, message: str, *, hints: tuple[str, ...] = (), details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hints = hints
        self.details = details


class UsageError(ArcError):
    """The command line or an argument's value cannot be used."""

    code = "usage"
    status = ExitStatus.USAGE


class RefusedError(ArcError):
    """Refused; nothing was changed."""

    code = "refused"
    status = ExitStatus.REFUSED


class NotFoundError(ArcError):
    """No such run, node, checkpoint, branch or file."""

    code = "not_found"
    status = ExitStatus.NOT_FOUND


class BusyError(ArcError):
    """A live owner holds the lock; the message names it."""

    code = "busy"
    status = ExitStatus.BUSY


class CorruptError(ArcError):
    """A stored file cannot be read as what it should be; the message names file and position."""

    code = "corrupt"
    status = ExitStatus.FAILED
