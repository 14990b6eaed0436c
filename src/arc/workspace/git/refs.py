"""Moving refs: one transaction for all refs of a step, each with the value it must have had before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arc.base.git import GitError
from arc.workspace.git.errors import RefsMovedError, RefsWriteError
from arc.workspace.git.repository import Repository

DURABLE = ("core.fsync=loose-object,reference",)
"""Written refs reach the disk before the transaction returns (so do the objects, before any ref moves)."""
_NOT_WRITABLE = ("No space left on device", "Disk quota exceeded", "Permission denied", "Read-only file system", "Input/output error")


@dataclass(frozen=True)
class RefUpdate:
    """Move `ref` from `old` to `new` (commit ids). `old` None: it must not exist; `new` None: delete it."""

    ref: str
    new: str | None
    old: str | None


def transact(repository: Repository, updates: Sequence[RefUpdate]) -> None:
    """Apply all updates or none. The repository's hooks do not run.

    Raises:
        RefsMovedError: a ref was not at its expected value (or is locked by another process); nothing moved.
        RefsWriteError: the refs could not be written; nothing moved.
        ObjectsVanishedError: objects written for them have been pruned; nothing moved.
    """
    if not updates:
        return
    lines = [b"start"]
    for update in updates:
        ref, none = update.ref.encode(), b"0" * len(update.new or update.old or "0" * 40)
        if update.new is None:
            lines.append(b"delete %s %s" % (ref, (update.old or "").encode()))
        else:
            lines.append(b"update %s %s %s" % (ref, update.new.encode(), (update.old or "").encode() or none))
    lines += [b"prepare", b"commit", b""]
    repository.sync_objects()
    try:
        repository.git(settings=DURABLE).run("update-ref", "--no-deref", "--stdin", input=b"\n".join(lines))
    except GitError as error:
        names = ", ".join(f"`{update.ref}`" for update in updates)
        reason = next((words for words in _NOT_WRITABLE if words in error.stderr), None)
        if reason is not None:
            raise RefsWriteError(f"the refs {names} could not be written: {reason.lower()}", details=error.details) from error
        raise RefsMovedError(f"the refs {names} could not be moved together, none of them was", details=error.details) from error
