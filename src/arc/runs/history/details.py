"""What a run has done, as values: its timeline, the details of one checkpoint, the files that changed, how to go on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from arc.runs.history.disk_timeline import disk_timeline, merge
from arc.runs.history.lookup import KnownRun, NoGitError
from arc.runs.history.targets import find_text
from arc.runs.history.timeline import Timeline, TimelineEntry, git_timeline, list_refs, start_entry
from arc.runs.records import CheckpointFile
from arc.workspace.git.objects import compare_trees, describe_changes, tree_of
from arc.workspace.git.repository import Repository
from arc.workspace.protocol import Change

DiffForm: TypeAlias = Literal["patch", "stat", "name-only"]


@dataclass(frozen=True)
class CheckpointDetails:
    """One checkpoint: its line of the timeline, the whole state, the files that its commit changed, and its node's folder of logs."""

    entry: TimelineEntry
    state: CheckpointFile
    changes: tuple[Change, ...]
    node_folder: Path | None


def read_timeline(run: KnownRun) -> Timeline:
    """The run's timeline from all that is here: its refs, its folder, or both.

    Raises:
        CorruptError: a checkpoint cannot be read; names the commit or file.
    """
    git = git_timeline(run.repository, run.refs) if run.repository is not None else None
    if git is not None and run.folder is None:
        return git
    if run.folder is None:
        return Timeline(run.run_id, start_entry(run.run_id, run.record.created_at, commit=run.refs.start_sha), ())
    disk = disk_timeline(run.folder, run.record)
    return merge(git, disk) if git is not None else disk


def describe_checkpoint(run: KnownRun, timeline: Timeline, entry: TimelineEntry) -> CheckpointDetails:
    """Everything about one checkpoint. Raises `StateNotKeptError`, `CorruptError`."""
    from arc.runs.history.states import state_at

    changes = changed_files(run.repository, entry) if run.repository is not None else ()
    return CheckpointDetails(entry, state_at(run, timeline, entry), changes, _node_folder(run, entry))


def changed_files(repository: Repository, entry: TimelineEntry) -> tuple[Change, ...]:
    """The files that the checkpoint's commit changed against the one before it on its branch; renames are found."""
    if entry.commit is None or entry.parent is None:
        return ()
    return compare(repository, entry.parent, entry.commit)


def compare(repository: Repository, old: str, new: str) -> tuple[Change, ...]:
    """The files that differ between two commits, exact renames found, in order of path. Raises `UnreadableCheckpointError`."""
    return describe_changes(compare_trees(repository, tree_of(repository, old), tree_of(repository, new)))


def diff_ends(timeline: Timeline, a: str | None, b: str | None) -> tuple[TimelineEntry, TimelineEntry]:
    """The two checkpoints that `diff [A] [B]` means: all of the run, what one checkpoint's node changed, or from one to another.

    Raises `TargetSyntaxError`, `TargetAmbiguous`, `TargetNotFound`.
    """
    new = find_text(timeline, b or a or "@last")
    if a is None or (b is None and not new.ordinal):
        return timeline.start, new
    return (find_text(timeline, a) if b is not None else replace(timeline.start, commit=new.parent)), new


def changes_between(run: KnownRun, old: TimelineEntry, new: TimelineEntry, paths: Sequence[str] = ()) -> tuple[Change, ...]:
    """The files that differ between two checkpoints; `paths` (files or folders from the repository's top) narrow. Raises `NoGitError`."""
    repository = run.need_git("a diff")
    wanted = [os.fsencode(path.rstrip("/")) for path in paths]
    changes = compare(repository, need_commit(run, old), need_commit(run, new))
    if not wanted:
        return changes
    return tuple(change for change in changes if any(change.path == path or change.path.startswith(path + b"/") for path in wanted))


def count_changed(repository: Repository, entry: TimelineEntry) -> int:
    """How many paths the checkpoint's commit changed (a rename counts twice). Costs what changed, not what there is."""
    if entry.commit is None or entry.parent is None:
        return 0
    return sum(1 for _ in compare_trees(repository, tree_of(repository, entry.parent), tree_of(repository, entry.commit)))


def render_diff(
    run: KnownRun, old: TimelineEntry, new: TimelineEntry, *, form: DiffForm = "patch", paths: Sequence[str] = (), color: bool = False
) -> bytes:
    """What `git diff` shows between two checkpoints, made by plumbing: no configuration, no external program, no pager.

    `paths` are literal, relative to the top of the repository.

    Raises:
        NoGitError: the run, or one of the two checkpoints, has no commit.
    """
    repository = run.need_git("a diff")
    before, after = need_commit(run, old), need_commit(run, new)
    options = {
        "patch": ("--patch", "--find-renames"),
        "stat": ("--stat=100", "--summary", "--find-renames"),
        "name-only": ("--name-only", "--no-renames"),
    }
    shown = (f"--color={'always' if color else 'never'}", "--no-ext-diff", "--no-textconv", "--submodule=short")
    return repository.git().run("diff-tree", "-r", *options[form], *shown, before, after, "--", *paths, read_only=True)


def need_commit(run: KnownRun, entry: TimelineEntry) -> str:
    """The commit of a checkpoint's files. Raises `NoGitError` if it has none."""
    if entry.commit is None:
        raise NoGitError(f"checkpoint @{entry.ordinal} of run {run.run_id} has no commit: its files are not in Git")
    return entry.commit


def side_refs(run: KnownRun) -> tuple[str, ...]:
    """The run's refs besides its two: work set aside, and branches of parallel blocks that are not merged (yet)."""
    if run.repository is None:
        return ()
    return tuple(list_refs(run.repository.pygit2, run.refs.aside, run.refs.branches))


def next_command(run: KnownRun) -> str:
    """What a person can do with this run now, as one command."""
    run_id = run.run_id
    match run.status:
        case "running":
            return f"arc run logs {run_id} -f"
        case "waiting":
            return f"arc run answer {run_id}"
        case "interrupted" | "created" | "fail" | "canceled":
            return f"arc run resume {run_id}"
        case "superseded":
            return f"arc run show {run.record.superseded_by}"
        case "success" | "partial_success":
            return f"git merge {run.record.run_branch}" if run.repository is not None else f"arc run logs {run_id}"


def _node_folder(run: KnownRun, entry: TimelineEntry) -> Path | None:
    if run.folder is None or entry.ordinal == 0:
        return None
    folder = run.folder.node_folder(entry.ordinal, entry.path)
    return folder if folder.is_dir() else None
