"""The Git workspace: one worktree on one branch, with its private index, checkpoints, merges and plans.

Threads: the `async` methods are called on the event loop and move their work to threads; the others block and are called in a thread.
One checkpoint at a time (the runs room sees to it); each method leaves refs, HEAD and indexes consistent or raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from arc.base.errors import ArcError
from arc.base.faults import declare_faults, fault
from arc.sandbox.protocol import Sandbox, SandboxProvider
from arc.workspace.git.branches import branch_path, branch_ref
from arc.workspace.git.coverage import show, uncaptured
from arc.workspace.git.errors import StageError, WorktreeError
from arc.workspace.git.head import aside_updates, describe, free_aside_ref, look_at_head, restore_head, sync_index
from arc.workspace.git.merge import merge_branches
from arc.workspace.git.objects import GITLINK, compare_trees, describe_changes, tree_of, walk_folders, walk_tree, write_commit
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository
from arc.workspace.git.restore import Restorer, compare_plans
from arc.workspace.git.staging import Stager
from arc.workspace.git.trailers import parse_message
from arc.workspace.git.worktree import (
    Worktree,
    add_worktree,
    attach_worktree,
    detach,
    mend_links,
    registrations,
    remove_worktree,
    unlock_worktree,
)
from arc.workspace.notices import Notice, NoticeSink
from arc.workspace.plan import Gap, Plan
from arc.workspace.protocol import Change, MergeInput, MergeReport

declare_faults(
    {
        "git.commit.object": "the run commit is written, no ref has moved",
        "git.refs.before": "about to move the refs",
        "git.refs.after": "both refs have moved, HEAD and the worktree's index are as the node left them",
        "git.head.restored": "HEAD is on the run branch",
        "git.index.synced": "the worktree's own index is that of the new commit",
        "git.aside.kept": "uncommitted work is in an aside ref, the files are as they were",
        "git.merge.planned": "the branches are merged as a tree, no file is changed",
        "git.merge.applied": "the merged files are in the worktree, not yet committed",
        "git.close.removing": "everything is committed, the worktree is about to be removed",
    }
)


@dataclass(frozen=True)
class Staged:
    """A captured state, ready to be committed. `parent` is the last checkpoint; `moved_head`: what the node did to HEAD."""

    tree: str
    parent: str
    moved_head: str | None
    changes: int
    nested: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()


@dataclass
class GitWorkspace:
    """A worktree on a branch. Made by `create`, `attach` and `fork`; not by its constructor."""

    repository: Repository
    run_id: str
    worktree: Worktree
    branch: str
    tip: str
    subdirectory: str
    sandboxes: SandboxProvider
    notices: NoticeSink
    stager: Stager
    home: Path
    """The folder that holds `worktree` and `branches/`."""
    _merged: list[MergeInput] = field(default_factory=list)
    _sandbox: Sandbox | None = None
    _closed: bool = False
    _gaps: tuple[Gap, ...] = ()

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
        worktree = add_worktree(repository, path, ref, commit, f"arc run {run_id}")
        return cls._over(repository, run_id, worktree, ref, commit, subdirectory, exclude_globs, sandboxes, notices)

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
        return cls._over(repository, run_id, worktree, ref, tip, subdirectory, exclude_globs, sandboxes, notices)

    @classmethod
    def _over(
        cls,
        repository: Repository,
        run_id: str,
        worktree: Worktree,
        ref: str,
        tip: str,
        subdirectory: str,
        exclude_globs: Sequence[str],
        sandboxes: SandboxProvider,
        notices: NoticeSink,
    ) -> GitWorkspace:
        stager = Stager(repository, worktree, tuple(exclude_globs), notices)
        home = worktree.path.parent
        workspace = cls(repository, run_id, worktree, ref, tip, subdirectory, sandboxes, notices, stager, home)
        workspace.directory.mkdir(parents=True, exist_ok=True)
        return workspace

    @property
    def directory(self) -> Path:
        """Where nodes start."""
        return self.worktree.path if self.subdirectory in ("", ".") else self.worktree.path / self.subdirectory

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
            self._sandbox = await self.sandboxes.open(self.directory)
        return self._sandbox

    # -- checkpoints ------------------------------------------------------------------------------------------------------------

    def stage(self) -> Staged:
        """Capture the files. Moves no ref.

        Raises:
            StageError: they could not be captured; nothing older is reused.
            IndexBusyError: a live process holds the private index.
        """
        if not self.worktree.path.is_dir():
            raise StageError(f"the worktree `{self.worktree.path}` is gone")
        if mend_links(self.repository, self.worktree):
            message = "the worktree's link to its repository was broken, it has been put back"
            self.notices(Notice("warning", "workspace.link_mended", message))
        report = look_at_head(self.repository, self.worktree, self.branch, self.tip)
        if report.sentence is not None:
            # `git status` compares with HEAD: it must be readable, and nothing else may depend on where the node left it.
            restore = report.sentence.startswith("broke") or report.branch is None
            if restore:
                restore_head(self.repository, self.worktree, self.branch, ())
        captured = self.stager.capture(self.tip)
        new_gaps = tuple(gap for gap in captured.gaps if gap not in self._gaps)
        self._gaps = captured.gaps
        if new_gaps:
            self.notices(gap_notice(new_gaps))
        return Staged(captured.tree, self.tip, report.sentence, captured.changes, captured.nested, captured.gaps)

    def checkpoint(self, staged: Staged, message: str, updates: Sequence[RefUpdate]) -> str:
        """Commit a staged state on top of the last checkpoint (and of branches merged since) and move all refs in one transaction.

        Raises:
            RefsMovedError: a ref was not where it must be; none moved.
        """
        parents = [self.tip, *(branch.commit for branch in self._merged)]
        commit = write_commit(self.repository, staged.tree, parents, message)
        fault("git.commit.object")
        self._move(commit, updates, _node_of(message))
        return commit

    def _move(self, commit: str, updates: Sequence[RefUpdate], node: str) -> None:
        """Publish a commit as the new tip, together with further updates; then HEAD, index and merged branches."""
        report = look_at_head(self.repository, self.worktree, self.branch, self.tip)
        aside = aside_updates(self.repository, self.run_id, f"commits-{node}", report.commits)
        gone = [RefUpdate(b.ref, None, b.commit) for b in self._merged if self.repository.ref(b.ref) == b.commit]
        for branch in self._merged:
            self._leave_branch(branch)
        fault("git.refs.before")
        transact(self.repository, [*updates, RefUpdate(self.branch, commit, report.branch), *aside, *gone])
        fault("git.refs.after")
        self.tip = commit
        if report.sentence is not None:
            self.notices(describe(report, node, [update.ref for update in aside]))
        self._settle(report.unfinished)
        self._merged.clear()

    def _settle(self, unfinished: tuple[str, ...]) -> None:
        restore_head(self.repository, self.worktree, self.branch, unfinished)
        fault("git.head.restored")
        self.stager.settle()
        sync_index(self.worktree, self.stager.index, self.notices)
        fault("git.index.synced")

    def set_aside(self, name: str, reason: str) -> str | None:
        """Keep uncommitted work (and a node's own commits) in `refs/arc-aside/{run_id}/{name}`; None if there is none. Files stay."""
        staged = self.stage()
        report = look_at_head(self.repository, self.worktree, self.branch, self.tip)
        if staged.tree == tree_of(self.repository, self.tip) and not report.commits:
            return None
        parents = [self.tip, *(commit for commit in report.commits if commit != self.tip)]
        message = f"arc({self.run_id}): set aside ({name})\n\n{reason}\n\nArc-Run: {self.run_id}\n"
        commit = write_commit(self.repository, staged.tree, parents, message)
        ref = free_aside_ref(self.repository, self.run_id, name)
        transact(self.repository, [RefUpdate(ref, commit, None)])
        fault("git.aside.kept")
        return ref

    def reset(self) -> None:
        """Make branch, HEAD, index and files those of the last checkpoint. Call `set_aside` first: what is not committed goes.

        Files that are not captured (ignored, excluded) stay; were one in the way of the checkpoint's, it is named in a notice.
        """
        report = look_at_head(self.repository, self.worktree, self.branch, self.tip)
        aside = aside_updates(self.repository, self.run_id, "commits-reset", report.commits if not self._covered(report.commits) else ())
        if report.branch != self.tip or aside:
            transact(self.repository, [RefUpdate(self.branch, self.tip, report.branch), *aside])
        restore_head(self.repository, self.worktree, self.branch, report.unfinished)
        plan = self.plan(self.tip)
        self.apply(plan)
        self.stage()
        self.stager.settle()
        sync_index(self.worktree, self.stager.index, self.notices)
        if plan.conflicts:
            details = tuple(f"{show(c.path)}: {c.reason}" for c in plan.conflicts)
            self.notices(Notice("warning", "workspace.not_restored", f"{len(details)} files of the checkpoint were not put back", details))
        self.directory.mkdir(parents=True, exist_ok=True)
        self._merged.clear()

    def _covered(self, commits: Sequence[str]) -> bool:
        """Whether an aside ref of this run keeps all these commits already."""
        names = self.repository.pygit2.references.iterator()
        asides = [r.name for r in names if r.name.startswith(f"refs/arc-aside/{self.run_id}/")]
        tips = [self.repository.ref(name) for name in asides]
        git = self.repository.pygit2
        return all(any(t is not None and (t == c or git.descendant_of(t, c)) for t in tips) for c in commits)

    # -- history ----------------------------------------------------------------------------------------------------------------

    def capture(self) -> str:
        """The tree of the files as they are now."""
        return self.stage().tree

    def diff(self, old: str, new: str) -> tuple[Change, ...]:
        """Paths that differ between two commits or trees, sorted."""
        trees = tree_of(self.repository, old), tree_of(self.repository, new)
        return describe_changes(compare_trees(self.repository, *trees))

    def plan(self, target: str) -> Plan:
        """What makes the files equal to a commit or tree."""
        staged = self.stage()
        return Restorer(self.repository, self.worktree).plan(staged.tree, target, staged.gaps)

    def apply(self, plan: Plan) -> None:
        """Apply exactly this plan.

        Raises:
            PlanChangedError: the files changed since; nothing was touched.
        """
        compare_plans(plan, self.plan(plan.target))
        Restorer(self.repository, self.worktree).apply(plan)

    # -- branches ---------------------------------------------------------------------------------------------------------------

    async def fork(self, ordinal: int, node_id: str, key: str) -> GitWorkspace:
        """The workspace of a parallel branch (see the protocol)."""
        return await asyncio.to_thread(self._fork, ordinal, node_id, key)

    def _fork(self, ordinal: int, node_id: str, key: str) -> GitWorkspace:
        ref = branch_ref(self.run_id, ordinal, node_id, key)
        path = branch_path(self.home, ordinal, node_id, key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        globs = self.stager.exclude_globs
        checkout = Repository(self.worktree.admin, self.repository.common_dir, self.worktree.path, ".", self.repository.trusted)
        if self.repository.ref(ref) is None:
            worktree = add_worktree(checkout, path, ref, self.tip, f"arc run {self.run_id}")
            return self._over(self.repository, self.run_id, worktree, ref, self.tip, self.subdirectory, globs, self.sandboxes, self.notices)
        worktree = attach_worktree(self.repository, path, ref, f"arc run {self.run_id}", self.notices)
        tip = self.repository.ref(ref)
        assert tip is not None
        branch = self._over(self.repository, self.run_id, worktree, ref, tip, self.subdirectory, globs, self.sandboxes, self.notices)
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
        merged = merge_branches(self.repository, self.capture(), branches)
        plan = self.plan(merged.tree)
        blocked = tuple(show(conflict.path) for conflict in plan.conflicts)
        if blocked:
            raise StageError("the merged files cannot be written: files that are not captured are in their place", details=blocked)
        fault("git.merge.planned")
        self.apply(plan)
        fault("git.merge.applied")
        keys = set(merged.report.merged)
        self._merged += [branch for branch in branches if branch.key in keys]
        return merged.report

    def _leave_branch(self, branch: MergeInput) -> None:
        """A merged branch's worktree goes if it is still there; one that must stay lets go of the branch, whose ref goes now."""
        for registration in registrations(self.repository.common_dir):
            if registration.ref != branch.ref or registration.path is None:
                continue
            worktree = Worktree(registration.path, registration.admin)
            if registration.path.is_dir():
                stager = Stager(self.repository, worktree, self.stager.exclude_globs, self.notices)
                home = registration.path.parent
                GitWorkspace(
                    self.repository, self.run_id, worktree, branch.ref, branch.commit, ".", self.sandboxes, self.notices, stager, home
                )._close(False)
            if registration.admin.is_dir():
                detach(registration.admin, branch.commit)

    def adopt_merge(self, branches: Sequence[MergeInput]) -> None:
        """Take it that the files hold the merge of these branches already (a crash came before its commit): the next checkpoint has them
        as parents and ends their refs. A branch that is not where it was merged from is left out."""
        known = {branch.ref for branch in self._merged}
        self._merged += [b for b in branches if b.ref not in known and self.repository.ref(b.ref) == b.commit]

    # -- the end ----------------------------------------------------------------------------------------------------------------

    async def close(self, *, keep: bool = False) -> None:
        """End it (see the protocol)."""
        if self._closed:
            return
        self._closed = True
        if self._sandbox is not None:
            await self._sandbox.close()
        await asyncio.to_thread(self._close, keep)

    def _close(self, keep: bool) -> None:
        if not self.worktree.path.is_dir():
            return
        if keep:
            unlock_worktree(self.worktree)
            return
        is_run = self.branch.startswith("refs/heads/arc/run/")
        try:
            reason = self._uncommitted() if is_run else self._set_branch_aside()
        except ArcError as error:
            reason = error.message
        if reason is not None:
            unlock_worktree(self.worktree)
            self.notices(Notice("warning", "workspace.kept", f"the worktree `{self.worktree.path}` is kept: {reason}"))
            return
        fault("git.close.removing")
        remove_worktree(self.repository, self.worktree)

    def _uncommitted(self) -> str | None:
        """Why the worktree must stay, None if everything in it is committed."""
        staged = self.stage()
        if staged.tree != tree_of(self.repository, self.tip):
            return f"{staged.changes} paths in it are not committed"
        if staged.moved_head is not None:
            return f"a node {staged.moved_head}"
        return self._uncaptured()

    def _uncaptured(self) -> str | None:
        """Why the worktree must stay although all its files are committed. Looks at every captured folder once."""
        tree = tree_of(self.repository, self.tip)
        links = {path for path, entry in walk_tree(self.repository, tree) if entry.mode == GITLINK}
        gaps = {gap.path: gap.reason for gap in self._gaps}
        gaps.update(uncaptured(self.worktree.path, [b"", *walk_folders(self.repository, tree)], links))
        if not gaps:
            return None
        (path, reason), *more = sorted(gaps.items())
        return f"{show(path)}: {reason}" + (f" (and {len(more)} more)" if more else "")

    def _set_branch_aside(self) -> str | None:
        name = self.branch.removeprefix("refs/heads/arc/branch/").partition("/")[2]
        kept = self.set_aside(f"branch-{name}", f"uncommitted work in the parallel branch {name}")
        if kept is not None:
            self.notices(Notice("info", "workspace.set_aside", f"uncommitted work of the branch `{name}` is set aside in `{kept}`"))
        return self._uncaptured()


def gap_notice(gaps: Sequence[Gap]) -> Notice:
    """The notice about what a checkpoint could not hold."""
    details = tuple(f"{show(gap.path)}: {gap.reason}" for gap in gaps[:20])
    return Notice("warning", "workspace.gap", f"{len(gaps)} paths are not in this checkpoint", details)


def _node_of(message: str) -> str:
    parsed = parse_message(message)
    return parsed.node_id if parsed is not None else "unknown"
