"""The Git workspace: the protocol over a worktree, which is made for a run, attached again after a crash, forked for branches, merged.

Threads: the `async` methods are called on the event loop and move their work to threads; the others block and are called in a thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from arc.base.faults import declare_faults, fault
from arc.sandbox.protocol import Sandbox, SandboxProvider
from arc.workspace.git.branch_worktree import BranchWorktree, Scene, Staged
from arc.workspace.git.branches import branch_path, branch_ref
from arc.workspace.git.coverage import show
from arc.workspace.git.errors import StageError, WorktreeError
from arc.workspace.git.merge import merge_branches
from arc.workspace.git.objects import GITLINK, compare_trees
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository
from arc.workspace.git.worktree import Worktree, add_worktree, attach_worktree, detach, registrations
from arc.workspace.notices import Notice, NoticeSink
from arc.workspace.protocol import MergeInput, MergeReport

declare_faults(
    {
        "git.merge.planned": "the branches are merged as a tree, no file is changed",
        "git.merge.applied": "the merged files are in the worktree, not yet committed",
    }
)


@dataclass
class GitWorkspace(BranchWorktree):
    """A worktree on a branch. Made by `create`, `attach` and `fork`; not by its constructor."""

    _sandbox: Sandbox | None = None
    _closed: bool = False

    @classmethod
    def create(
        cls,
        repository: Repository,
        *,
        run_id: str,
        path: Path,
        ref: str,
        commit: str,
        subdirectory: str,
        exclude_globs: Sequence[str],
        sandboxes: SandboxProvider,
        notices: NoticeSink,
    ) -> GitWorkspace:
        """A new branch `ref` at `commit` with a worktree of it at `path`.

        Raises:
            WorktreeError: it could not be made; no branch is left behind.
            RefsMovedError: the branch exists.
        """
        scene = Scene(repository, run_id, subdirectory, tuple(exclude_globs), sandboxes, notices)
        worktree = add_worktree(repository, path, ref, commit, f"arc run {run_id}")
        return cls._over(scene, worktree, ref, commit)

    @classmethod
    def attach(
        cls,
        repository: Repository,
        *,
        run_id: str,
        path: Path,
        ref: str,
        subdirectory: str,
        exclude_globs: Sequence[str],
        sandboxes: SandboxProvider,
        notices: NoticeSink,
        expected: str | None = None,
    ) -> GitWorkspace:
        """The worktree at `path` of an existing branch. Files in it stay as they are (see `set_aside` and `reset`).

        `expected` is the last checkpoint, if known: were the branch elsewhere, the difference is treated as a node's doing.

        Raises:
            WorktreeError: there is no such branch, or git cannot make the worktree.
            BranchHeldError: another worktree in use has the branch.
        """
        tip = expected or repository.ref(ref)
        if tip is None:
            raise WorktreeError(f"there is no branch `{ref.removeprefix('refs/heads/')}`")
        if repository.ref(ref) is None:
            transact(repository, [RefUpdate(ref, tip, None)])
        worktree = attach_worktree(repository, path, ref, f"arc run {run_id}", notices)
        return cls._over(Scene(repository, run_id, subdirectory, tuple(exclude_globs), sandboxes, notices), worktree, ref, tip)

    @classmethod
    def _over(cls, scene: Scene, worktree: Worktree, ref: str, tip: str) -> GitWorkspace:
        workspace = cls(scene, worktree, ref, tip)
        workspace.directory.mkdir(parents=True, exist_ok=True)
        return workspace

    @property
    def isolated(self) -> bool:
        """Each parallel branch gets a worktree of its own."""
        return True

    @property
    def ref(self) -> str | None:
        """Full name of the branch."""
        return self.branch

    @property
    def commit(self) -> str | None:
        """The last checkpoint's commit."""
        return self.tip

    @property
    def admin_directory(self) -> Path:
        """The worktree's administrative folder, for diagnosis."""
        return self.worktree.admin

    async def sandbox(self) -> Sandbox:
        """The one sandbox over `directory`, opened at the first call."""
        if self._sandbox is None:
            self._sandbox = await self.scene.sandboxes.open(self.directory)
        return self._sandbox

    # -- branches ---------------------------------------------------------------------------------------------------------------

    async def fork(self, ordinal: int, node_id: str, key: str) -> GitWorkspace:
        """The workspace of a parallel branch (see the protocol)."""
        return await asyncio.to_thread(self._fork, ordinal, node_id, key)

    def _fork(self, ordinal: int, node_id: str, key: str) -> GitWorkspace:
        ref = branch_ref(self.run_id, ordinal, node_id, key)
        path = branch_path(self.home, ordinal, node_id, key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.repository.ref(ref) is None:
            # The branch's checkout is made from this worktree, so that a sparse checkout is carried over.
            checkout = Repository(self.worktree.admin, self.repository.common_dir, self.worktree.path, ".", self.repository.trusted)
            return self._over(self.scene, add_worktree(checkout, path, ref, self.tip, f"arc run {self.run_id}"), ref, self.tip)
        worktree = attach_worktree(self.repository, path, ref, f"arc run {self.run_id}", self.notices)
        tip = self.repository.ref(ref)
        assert tip is not None
        branch = self._over(self.scene, worktree, ref, tip)
        kept = branch.set_aside(f"interrupted-{ordinal}-{node_id}-{key}", f"half-done work in branch `{key}` of `{node_id}`")
        branch.reset()
        if kept is not None:
            message = f"half-done edits in branch `{key}` of `{node_id}` are set aside in `{kept}`"
            self.notices(Notice("info", "workspace.set_aside", message))
        return branch

    async def merge(self, branches: Sequence[MergeInput]) -> MergeReport:
        """Merge branches into the files (see the protocol)."""
        return await asyncio.to_thread(self._merge, branches)

    def _merge(self, branches: Sequence[MergeInput]) -> MergeReport:
        present = self.capture()
        merged = merge_branches(self.repository, present, branches)
        plan = self.plan(merged.tree)
        blocked = tuple(show(conflict.path) for conflict in plan.conflicts)
        if blocked:
            raise StageError("the merged files cannot be written: files that are not captured are in their place", details=blocked)
        fault("git.merge.planned")
        self.apply(plan)
        self._merge_submodules(present, merged.tree)
        fault("git.merge.applied")
        keys = set(merged.report.merged)
        self._merged.add(branch for branch in branches if branch.key in keys)
        return merged.report

    def _merge_submodules(self, present: str, merged: str) -> None:
        """Submodules that the branches added, moved or removed: recorded where they are not checked out here, else told."""
        changes = list(compare_trees(self.repository, present, merged))
        links = {
            change.path: change.new for change in changes if GITLINK in (change.old and change.old.mode, change.new and change.new.mode)
        }
        checked_out = [path for path in links if (self.worktree.path / os.fsdecode(path) / ".git").exists()]
        for path in checked_out:
            del links[path]
        for path, entry in links.items():
            place = self.worktree.path / os.fsdecode(path)
            if entry is not None and entry.mode == GITLINK:
                place.mkdir(parents=True, exist_ok=True)
            elif place.is_dir() and not any(place.iterdir()):
                place.rmdir()
        if links:
            self.stager.index.set_links({path: e if e is not None and e.mode == GITLINK else None for path, e in links.items()})
        if checked_out:
            message = "submodules that are checked out here are left at their own commits by the merge"
            self.notices(Notice("warning", "workspace.submodule_not_merged", message, tuple(show(path) for path in checked_out)))

    def _leave_branch(self, ref: str, commit: str) -> None:
        """A merged branch's worktree goes if it is still there; one that must stay lets go of the branch, whose ref goes now."""
        for registration in registrations(self.repository.common_dir):
            if registration.ref != ref or registration.path is None:
                continue
            if registration.path.is_dir():
                BranchWorktree(self.scene, Worktree(registration.path, registration.admin), ref, commit).close_files(False)
            if registration.admin.is_dir():
                detach(registration.admin, commit)

    def adopt_merge(self, branches: Sequence[MergeInput]) -> None:
        """Take it that the files hold the merge of these branches already (a crash came before its commit): the next checkpoint has them
        as parents and ends their refs. A branch that is not where it was merged from is left out."""
        self._merged.add(branch for branch in branches if self.repository.ref(branch.ref) == branch.commit)

    # -- the end ----------------------------------------------------------------------------------------------------------------

    async def close(self, *, keep: bool = False) -> None:
        """End it (see the protocol)."""
        if self._closed:
            return
        self._closed = True
        if self._sandbox is not None:
            await self._sandbox.close()
        await asyncio.to_thread(self.close_files, keep)


__all__ = ["GitWorkspace", "Staged"]
