"""The in-place workspace: a directory without Git checkpoints (no repository, no commit yet, a dirty checkout, a dry run)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from arc.sandbox.protocol import Sandbox, SandboxProvider
from arc.workspace.notices import Notice, NoticeSink
from arc.workspace.protocol import BranchConflict, MergeInput, MergeReport


class InPlaceWorkspace:
    """Works on the caller's directory itself. Branches share it; nothing is committed, nothing is ever removed.

    `dry`: of a dry run, where no command runs and sharing a directory needs no warning.
    """

    def __init__(self, directory: Path, sandboxes: SandboxProvider, notices: NoticeSink, *, dry: bool = False) -> None:
        self._directory = directory
        self._sandboxes = sandboxes
        self._notices = notices
        self._sandbox: Sandbox | None = None
        self._opening = asyncio.Lock()
        self._forked = dry

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def isolated(self) -> bool:
        """False: parallel branches share the directory."""
        return False

    @property
    def ref(self) -> str | None:
        return None

    @property
    def commit(self) -> str | None:
        return None

    async def sandbox(self) -> Sandbox:
        """The one sandbox over the directory, shared by all branches."""
        async with self._opening:
            if self._sandbox is None:
                self._sandbox = await self._sandboxes.open(self._directory)
        return self._sandbox

    async def fork(self, ordinal: int, node_id: str, key: str) -> InPlaceBranch:
        """The same directory under another handle; the first fork says that branches are not kept apart."""
        if not self._forked:
            self._forked = True
            message = "without Git checkpoints the branches of a parallel block share one directory"
            self._notices(Notice("warning", "workspace.shared_branches", message))
        return InPlaceBranch(self)

    async def merge(self, branches: Sequence[MergeInput]) -> MergeReport:
        """Nothing to do: the branches wrote to this directory. Branches that have a commit are not ours and count as conflicts."""
        foreign = tuple(BranchConflict(branch.key, branch.ref, ()) for branch in branches if branch.commit)
        return MergeReport(tuple(branch.key for branch in branches if not branch.commit), foreign)

    async def close(self, *, keep: bool = False) -> None:
        """End the processes; the directory stays as it is."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.close()


class InPlaceBranch(InPlaceWorkspace):
    """A parallel branch's handle on its block's directory: closing it ends nothing that the others use."""

    def __init__(self, parent: InPlaceWorkspace) -> None:
        super().__init__(parent.directory, parent._sandboxes, parent._notices)
        self._parent = parent
        self._forked = True

    async def sandbox(self) -> Sandbox:
        return await self._parent.sandbox()

    async def close(self, *, keep: bool = False) -> None:
        """Nothing: the parent's sandbox is shared."""
