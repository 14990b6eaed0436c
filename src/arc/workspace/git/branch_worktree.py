"""One worktree on one branch of a run: captured, committed on top of the last checkpoint whatever a node did, set aside, returned, closed.

Everything here blocks; it is called in a thread. One call at a time (the runs room sees to it); each method leaves refs, HEAD and indexes
consistent or raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from arc.base.errors import ArcError
from arc.base.faults import declare_faults, fault
from arc.sandbox.protocol import SandboxProvider
from arc.workspace.git.coverage import DEFAULT_LIMITS, Limits, show, unstored_histories
from arc.workspace.git.errors import StageError
from arc.workspace.git.head import aside_updates, describe, free_aside_ref, look_at_head, restore_head
from arc.workspace.git.merge import MergedBranches
from arc.workspace.git.objects import GITLINK, compare_trees, describe_changes, tree_of, walk_tree, write_commit
from arc.workspace.git.own_index import OwnIndex
from arc.workspace.git.private_index import PrivateIndex
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository
from arc.workspace.git.restore import Restorer, compare_plans
from arc.workspace.git.shared import SharedState
from arc.workspace.git.staging import Stager
from arc.workspace.git.trailers import parse_message
from arc.workspace.git.worktree import Worktree, mend_links, remove_worktree, symbolic_ref, unlock_worktree
from arc.workspace.notices import Notice, NoticeSink
from arc.workspace.plan import Gap, Plan
from arc.workspace.protocol import Change

declare_faults(
    {
        "git.commit.object": "the run commit is written, no ref has moved",
        "git.refs.before": "about to move the refs",
        "git.refs.after": "both refs have moved, HEAD and the worktree's index are as the node left them",
        "git.head.restored": "HEAD is on the run branch",
        "git.index.synced": "the worktree's own index is that of the new commit",
        "git.aside.kept": "uncommitted work is in an aside ref, the files are as they were",
        "git.close.removing": "everything is committed, the worktree is about to be removed",
    }
)

RUN_BRANCHES = "refs/heads/arc/run/"


@dataclass(frozen=True)
class Scene:
    """What all worktrees of one run have in common."""

    repository: Repository
    run_id: str
    subdirectory: str
    exclude_globs: tuple[str, ...]
    sandboxes: SandboxProvider
    notices: NoticeSink
    limits: Limits = DEFAULT_LIMITS

    @cached_property
    def shared(self) -> SharedState:
        """What the worktrees share with the caller's repository, as it was at the first call."""
        return SharedState(self.repository, self.run_id, self.notices)


@dataclass(frozen=True)
class Staged:
    """A captured state, ready to be committed. `parent` is the last checkpoint; `moved_head`: what the node did to HEAD; `changes`: how
    many paths differ from `parent`, `paths` the first of them."""

    tree: str
    parent: str
    moved_head: str | None
    changes: int
    paths: tuple[bytes, ...] = ()
    nested: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()


@dataclass
class BranchWorktree:
    """A worktree, the branch it is on, and that branch's last checkpoint (`tip`)."""

    scene: Scene
    worktree: Worktree
    branch: str
    tip: str
    _merged: MergedBranches = field(default_factory=MergedBranches)
    _gaps: tuple[Gap, ...] = ()
    _told_shared: bool = False

    def __post_init__(self) -> None:
        index = PrivateIndex(self.scene.repository, self.worktree, self.scene.exclude_globs)
        self.stager = Stager(index, self.scene.notices, self.scene.limits)
        self._own_index = OwnIndex(index, self.scene.notices)
        self._shared = self.scene.shared

    @property
    def repository(self) -> Repository:
        return self.scene.repository

    @property
    def run_id(self) -> str:
        return self.scene.run_id

    @property
    def notices(self) -> NoticeSink:
        return self.scene.notices

    @property
    def home(self) -> Path:
        """The folder that holds `worktree` and `branches/`."""
        return self.worktree.path.parent

    @property
    def directory(self) -> Path:
        """Where nodes start."""
        return self.worktree.path if self.scene.subdirectory in ("", ".") else self.worktree.path / self.scene.subdirectory

    # -- checkpoints ------------------------------------------------------------------------------------------------------------

    def stage(self) -> Staged:
        """Capture the files. Moves no ref; the private index may still be brought in step afterwards, beside what follows.

        New files are looked for where a folder has changed. One that only a change of an ignore file unknown to git lets in is found by the
        next look at everything, at the latest when the worktree is closed.

        Raises:
            StageError: they could not be captured; nothing older is reused.
            IndexBusyError: a live process holds the private index.
        """
        return self._stage(whole=False)

    def _stage(self, *, whole: bool) -> Staged:
        if not self.worktree.path.is_dir():
            raise StageError(f"the worktree `{self.worktree.path}` is gone")
        if broken := mend_links(self.repository, self.worktree):
            message = "the worktree's link to its repository was broken, it has been put back"
            self.notices(Notice("warning", "workspace.link_mended", message, broken))
        report = look_at_head(self.repository, self.worktree, self.branch, self.tip)
        # `git status` compares with HEAD: it must be readable, and nothing else may depend on where the node left it.
        if report.sentence is not None and (report.sentence.startswith("broke") or report.branch is None):
            restore_head(self.repository, self.worktree, self.branch, ())
        captured = self.stager.capture(self.tip, whole=whole)
        new_gaps = tuple(gap for gap in captured.gaps if gap not in self._gaps)
        self._gaps = captured.gaps
        if new_gaps:
            self.notices(gap_notice(new_gaps))
        return Staged(captured.tree, self.tip, report.sentence, captured.changes, captured.paths, captured.nested, captured.gaps)

    def checkpoint(self, staged: Staged, message: str, updates: Sequence[RefUpdate]) -> str:
        """Commit a staged state on top of the last checkpoint (and of branches merged since) and move all refs in one transaction.

        Raises:
            RefsMovedError: a ref was not where it must be; none moved.
            RefsWriteError: the refs could not be written; none moved.
            ObjectsVanishedError: what was to be committed has been pruned; none moved, and the next checkpoint stores it again.
        """
        commit = write_commit(self.repository, staged.tree, [self.tip, *self._merged.commits], message)
        fault("git.commit.object")
        self._move(commit, staged.tree, updates, _node_of(message))
        return commit

    def _move(self, commit: str, tree: str, updates: Sequence[RefUpdate], node: str) -> None:
        """Publish a commit as the new tip, together with further updates; then HEAD, index and merged branches."""
        report = look_at_head(self.repository, self.worktree, self.branch, self.tip)
        aside = aside_updates(self.repository, self.run_id, f"commits-{node}", report.commits)
        staged_only = self._keep_staged(tree, node)
        for branch in self._merged.branches:
            self._leave_branch(branch.ref, branch.commit)
        fault("git.refs.before")
        ended = self._merged.endings(self.repository)
        transact(self.repository, [*updates, RefUpdate(self.branch, commit, report.branch), *aside, *staged_only, *ended])
        fault("git.refs.after")
        self.tip = commit
        if report.sentence is not None:
            self.notices(describe(report, node, [update.ref for update in aside]))
        self._put_right(report.unfinished)
        self._merged.clear()
        self._look_around(node)

    def _put_right(self, unfinished: tuple[str, ...]) -> None:
        """HEAD and the worktree's own index as the last checkpoint has them."""
        restore_head(self.repository, self.worktree, self.branch, unfinished)
        fault("git.head.restored")
        self.stager.settle(self.tip)
        self._own_index.sync()
        fault("git.index.synced")

    def _keep_staged(self, tree: str, who: str) -> list[RefUpdate]:
        """A ref for what is staged in the worktree's own index and nowhere else."""
        message = f"arc({self.run_id}): staged only ({who})\n\nStaged, then changed in the file.\n\nArc-Run: {self.run_id}\n"
        commit = self._own_index.staged_only(self.tip, tree, message)
        updates = aside_updates(self.repository, self.run_id, f"staged-{who}", (commit,) if commit else ())
        for update in updates:
            told = f"what `{who}` staged and then changed in the files is kept at {update.ref}"
            self.notices(Notice("info", "workspace.staged_kept", told))
        return updates

    def _look_around(self, who: str) -> None:
        self._shared.look(self.worktree, who)
        if not self._told_shared and symbolic_ref(self.repository.common_dir) == self.branch and not self.repository.pygit2.is_bare:
            self._told_shared = True
            message = (
                f"the run's branch is checked out at `{self.repository.common_dir.parent}` too: its files are not moved with the branch"
            )
            self.notices(Notice("warning", "workspace.branch_shared", message))

    def _leave_branch(self, ref: str, commit: str) -> None:
        """Called for each merged branch before its ref goes."""

    # -- setting aside and returning --------------------------------------------------------------------------------------------

    def set_aside(self, name: str, reason: str) -> str | None:
        """Keep uncommitted work (and a node's own commits) in `refs/arc-aside/{run_id}/{name}`; None if there is none. Files stay."""
        staged = self._stage_whole()
        report = look_at_head(self.repository, self.worktree, self.branch, self.tip)
        transact(self.repository, self._keep_staged(staged.tree, name))
        self._own_index.examined()
        self._look_around(name)
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
        commits = report.commits if not self._covered(report.commits) else ()
        aside = aside_updates(self.repository, self.run_id, "commits-reset", commits)
        if report.branch != self.tip or aside:
            transact(self.repository, [RefUpdate(self.branch, self.tip, report.branch), *aside])
        restore_head(self.repository, self.worktree, self.branch, report.unfinished)
        plan = self.plan(self.tip)
        self.apply(plan)
        transact(self.repository, self._keep_staged(self._stage_whole().tree, "reset"))
        self._put_right(())
        if plan.conflicts:
            details = tuple(f"{show(c.path)}: {c.reason}" for c in plan.conflicts)
            self.notices(Notice("warning", "workspace.not_restored", f"{len(details)} files of the checkpoint were not put back", details))
        self.directory.mkdir(parents=True, exist_ok=True)
        self._merged.clear()

    def _covered(self, commits: Sequence[str]) -> bool:
        """Whether an aside ref of this run keeps all these commits already."""
        git = self.repository.pygit2
        prefix = f"refs/arc-aside/{self.run_id}/"
        tips = [self.repository.ref(found.name) for found in git.references.iterator() if found.name.startswith(prefix)]
        return all(any(t is not None and (t == c or git.descendant_of(t, c)) for t in tips) for c in commits)

    # -- history ----------------------------------------------------------------------------------------------------------------

    def capture(self) -> str:
        """The tree of the files as they are now."""
        return self._stage_whole().tree

    def diff(self, old: str, new: str) -> tuple[Change, ...]:
        """Paths that differ between two commits or trees, sorted."""
        trees = tree_of(self.repository, old), tree_of(self.repository, new)
        return describe_changes(compare_trees(self.repository, *trees))

    def plan(self, target: str) -> Plan:
        """What makes the files equal to a commit or tree."""
        staged = self._stage_whole()
        return Restorer(self.repository, self.worktree).plan(staged.tree, target, staged.gaps)

    def apply(self, plan: Plan) -> None:
        """Apply exactly this plan.

        Raises:
            PlanChangedError: the files changed since; nothing was touched.
        """
        compare_plans(plan, self.plan(plan.target))
        Restorer(self.repository, self.worktree).apply(plan)

    def _stage_whole(self) -> Staged:
        """`stage`, looking everywhere and with nothing left to be done beside."""
        staged = self._stage(whole=True)
        self.stager.settle(self.tip)
        return staged

    # -- the end ----------------------------------------------------------------------------------------------------------------

    def close_files(self, keep: bool) -> None:
        """Remove the worktree if everything in it is committed (a branch's edits: set aside); else, or with `keep`, it becomes an
        ordinary one and is named in a notice."""
        if not self.worktree.path.is_dir():
            return
        if keep:
            self.stager.settle(self.tip)
            unlock_worktree(self.worktree)
            return
        try:
            reason = self._uncommitted() if self.branch.startswith(RUN_BRANCHES) else self._set_branch_aside()
        except (ArcError, OSError) as error:
            reason = error.message if isinstance(error, ArcError) else f"{error.strerror or error}"
        if reason is not None:
            unlock_worktree(self.worktree)
            self.notices(Notice("warning", "workspace.kept", f"the worktree `{self.worktree.path}` is kept: {reason}"))
            return
        fault("git.close.removing")
        remove_worktree(self.repository, self.worktree)

    def _uncommitted(self) -> str | None:
        """Why the worktree must stay, None if everything in it is committed."""
        staged = self._stage_whole()
        if staged.tree != tree_of(self.repository, self.tip):
            return f"{staged.changes} paths in it are not committed"
        if staged.moved_head is not None:
            return f"a node {staged.moved_head}"
        transact(self.repository, self._keep_staged(staged.tree, "end"))
        self._look_around("the end of the run")
        return self._uncaptured()

    def _uncaptured(self) -> str | None:
        """Why the worktree must stay although all its files are committed. Looks at every folder that is not ignored once."""
        tree = tree_of(self.repository, self.tip)
        links = {path for path, entry in walk_tree(self.repository, tree) if entry.mode == GITLINK}
        folders, special = self.stager.look_everywhere(self.tip)
        gaps = {gap.path: gap.reason for gap in (*self._gaps, *special)}
        gaps.update(unstored_histories(self.worktree.path, folders, links))
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
