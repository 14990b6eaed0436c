"""What every kind of workspace answers: where its files are, fork, merge, close; and its history: capture, diff, plan, apply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from arc.sandbox.protocol import Sandbox
from arc.workspace.plan import Plan


@dataclass(frozen=True)
class Change:
    """One path that differs between two states. `old_path` is set for renames; paths are bytes as Git and the kernel have them."""

    path: bytes
    kind: Literal["added", "modified", "deleted", "renamed", "mode", "kind"]
    old_path: bytes | None = None


@dataclass(frozen=True)
class MergeInput:
    """A branch to merge: its key, the ref and the commit that hold its files, and the commit it started from."""

    key: str
    ref: str
    commit: str
    base: str


@dataclass(frozen=True)
class BranchConflict:
    """A branch whose files could not be merged. Nothing of it was merged; its `ref` still holds all of it."""

    key: str
    ref: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class MergeReport:
    """What a fan-in did with the files: branches merged, in order; branches in conflict."""

    merged: tuple[str, ...]
    conflicts: tuple[BranchConflict, ...]


class Workspace(Protocol):
    """The files that one frame of a run works on: a Git worktree, or a directory in place.

    Methods are called on the event loop's thread and move blocking work to threads themselves.
    """

    @property
    def directory(self) -> Path:
        """Where nodes start: the worktree, or the subdirectory of it that the run was started in."""
        ...

    @property
    def isolated(self) -> bool:
        """Whether `fork` gives each branch files of its own (False in place: branches share the directory)."""
        ...

    @property
    def ref(self) -> str | None:
        """Full name of this workspace's Git branch, None without Git."""
        ...

    @property
    def commit(self) -> str | None:
        """The last checkpoint's commit on that branch (at first: the commit it starts from)."""
        ...

    async def sandbox(self) -> Sandbox:
        """The one, cached sandbox over this workspace."""
        ...

    async def fork(self, ordinal: int, node_id: str, key: str) -> Workspace:
        """The workspace of branch `key` of the block `node_id` executed as `ordinal`, starting from this one's last checkpoint.

        If its branch exists already (a resume) it is re-attached to where the branch stands; half-done edits are set aside.
        """
        ...

    async def merge(self, branches: Sequence[MergeInput]) -> MergeReport:
        """Merge the branches' files into this workspace, in order, each by a three-way merge.

        The next checkpoint commits the result, with the merged branches as further parents.
        """
        ...

    async def close(self, *, keep: bool = False) -> None:
        """End it: processes stopped, the worktree removed if everything in it is committed and `keep` is False.

        Uncommitted work is never thrown away: the run's own worktree is then kept and named in a notice, a branch's edits are set
        aside in a named ref. Idempotent.
        """
        ...


class History(Protocol):
    """States of a workspace: capture one, compare two, plan a return, apply exactly the plan that was shown."""

    def capture(self) -> str:
        """Record the files as they are now; returns the state's id (Git: a tree). Moves no branch."""
        ...

    def diff(self, old: str, new: str) -> tuple[Change, ...]: ...
    def plan(self, target: str) -> Plan:
        """What making the files equal to state `target` would do."""
        ...

    def apply(self, plan: Plan) -> None:
        """Apply it. Raises `PlanChanged` if the files are no longer what the plan was made for; nothing is touched then."""
        ...
