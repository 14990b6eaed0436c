"""Three-way merges of parallel branches, tree by tree, in declared order; a branch in conflict is left out whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pygit2
from pygit2.enums import MergeFlag

from arc.workspace.git.coverage import show
from arc.workspace.git.objects import tree_of
from arc.workspace.git.refs import RefUpdate
from arc.workspace.git.repository import Repository
from arc.workspace.protocol import BranchConflict, MergeInput, MergeReport


@dataclass(frozen=True)
class MergedTree:
    """The tree with all mergeable branches in it, and what happened to each."""

    tree: str
    report: MergeReport


def merge_branches(repository: Repository, ours: str, branches: Sequence[MergeInput]) -> MergedTree:
    """Merge each branch's changes since its base into `ours` (a tree), renames followed; contents only, nothing is written to files."""
    merged: list[str] = []
    conflicts: list[BranchConflict] = []
    for branch in branches:
        index = repository.pygit2.merge_trees(
            _tree(repository, branch.base), _tree(repository, ours), _tree(repository, branch.commit), flags=MergeFlag.FIND_RENAMES
        )
        if index.conflicts is not None:
            conflicts.append(BranchConflict(branch.key, branch.ref, _paths(index)))
            continue
        ours = str(index.write_tree(repository.pygit2))
        merged.append(branch.key)
    return MergedTree(ours, MergeReport(tuple(merged), tuple(conflicts)))


@dataclass
class MergedBranches:
    """Branches whose files are merged and not committed yet: parents of the next checkpoint, whose refs end with it."""

    branches: list[MergeInput] = field(default_factory=list)

    @property
    def commits(self) -> tuple[str, ...]:
        return tuple(branch.commit for branch in self.branches)

    def add(self, branches: Iterable[MergeInput]) -> None:
        """Note further ones; those that are known are passed over."""
        known = {branch.ref for branch in self.branches}
        self.branches += [branch for branch in branches if branch.ref not in known]

    def endings(self, repository: Repository) -> list[RefUpdate]:
        """Deletions of their refs, where these are still at the merged commit."""
        return [RefUpdate(b.ref, None, b.commit) for b in self.branches if repository.ref(b.ref) == b.commit]

    def clear(self) -> None:
        self.branches.clear()


def _tree(repository: Repository, state: str) -> pygit2.Tree:
    found = repository.pygit2[tree_of(repository, state)]
    assert isinstance(found, pygit2.Tree)
    return found


def _paths(index: pygit2.Index) -> tuple[str, ...]:
    """Names of all paths that a conflict touches, sorted."""
    names: set[str] = set()
    for sides in index.conflicts or ():
        names.update(show(side.path.encode("utf-8", "surrogateescape")) for side in sides if side is not None)
    return tuple(sorted(names))
