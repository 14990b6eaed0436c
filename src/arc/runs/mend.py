"""Makes the files of a claimed run those of its state again, after a crash: finishes a checkpoint cycle that was cut off, sets half-done
edits aside in a named ref, puts the files back to the last checkpoint."""

from __future__ import annotations

from arc.base.errors import ArcError
from arc.base.faults import declare_faults, fault
from arc.runs.agree import Standing, branches_to, commit_in, highest_ordinal
from arc.runs.artifacts import references
from arc.runs.checkpoints import GIT_FAILURES, CheckpointWriter, Stored, place_commit, with_root
from arc.runs.live import LiveRun
from arc.runs.missing import make_missing_refs
from arc.runs.records import CheckpointFile
from arc.runs.workspaces import Opened, open_workspace, sandboxes
from arc.workflow.state import frame_in
from arc.workspace.git.branches import branch_path
from arc.workspace.git.workspace import GitWorkspace
from arc.workspace.notices import Notice
from arc.workspace.protocol import MergeInput

declare_faults(
    {
        "resume.opened": "the worktree is there again, its files are as the crash left them",
        "resume.cycle": "the cut-off checkpoint cycle was finished",
        "resume.aside": "half-done edits are in an aside ref, the files still have them",
        "resume.reset": "the files are those of the last checkpoint",
    }
)


def mend(live: LiveRun, standing: Standing, writer: CheckpointWriter) -> tuple[Opened, CheckpointFile | None]:
    """Open the workspace and make its files those of the state. Returns the state to go on from."""
    if live.repository is None:
        opened = open_workspace(live)
        if standing.checkpoint is not None and live.record.mode == "in_place":
            live.tell(Notice("warning", "resume.in_place", "without Git checkpoints the files are taken as they are; half-done edits stay"))
        return opened, standing.checkpoint
    if standing.checkpoint is not None:
        make_missing_refs(standing.checkpoint, live.repository)
    opened = open_workspace(live, expected=standing.tip)
    _tell_missing(live, standing)
    fault("resume.opened")
    workspace = opened.workspace
    assert isinstance(workspace, GitWorkspace)
    checkpoint = standing.checkpoint
    cut_off = checkpoint is not None and not standing.in_git
    if cut_off:
        assert checkpoint is not None
        checkpoint = _finish_cycle(live, standing, checkpoint, workspace, opened.fresh, writer)
        fault("resume.cycle")
    if not (cut_off and standing.branch is None):
        _set_aside(live, checkpoint, workspace, fresh=opened.fresh)
    return opened, checkpoint


def _tell_missing(live: LiveRun, standing: Standing) -> None:
    if not standing.missing:
        return
    names = ", ".join(f"`{needed.ref.removeprefix('refs/heads/')}`" for needed in standing.missing)
    back = "the start" if standing.checkpoint is None else f"the checkpoint after node `{standing.checkpoint.current_node}`"
    message = f"commits of the parallel branches {names} are not here: the run goes back to {back}, and the block runs again"
    fetch = f"git fetch REMOTE 'refs/heads/arc/branch/{live.run_id}/*:refs/heads/arc/branch/{live.run_id}/*'"
    live.tell(Notice("warning", "resume.branches_missing", message, (f"they come along with `{fetch}` before the resume",)))


def _finish_cycle(
    live: LiveRun, standing: Standing, checkpoint: CheckpointFile, workspace: GitWorkspace, fresh: bool, writer: CheckpointWriter
) -> CheckpointFile | None:
    """Steps 2 to 4 for a checkpoint that only the disk has, if its files are still there; else back to what Git has."""
    record = checkpoint.completed
    assert record is not None
    branch = standing.branch
    target: GitWorkspace | None = None if fresh else workspace
    if branch is not None:
        target = _branch_workspace(live, checkpoint, workspace)
    if target is None:
        message = (
            f"the checkpoint after node `{record.path}` (ordinal {record.ordinal}) is on the disk only and its worktree is gone: "
            f"the run goes back to the last checkpoint in Git"
        )
        live.tell(Notice("warning", "resume.files_lost", message))
        return standing.git_checkpoint
    target.adopt_merge(_merged_branches(checkpoint))
    try:
        stored = Stored(checkpoint, references(checkpoint.to_state().root))
        committed = writer.to_git(stored, record, target)
    except GIT_FAILURES as error:
        message = f"the checkpoint after node `{record.path}` still cannot be committed to Git: {error}; the files stay as they are"
        live.tell(Notice("warning", "resume.cycle_failed", message))
        return checkpoint
    writer.resave(stored, record, committed)
    writer.tell(record, committed)
    root = place_commit(committed.root, record.frame, committed.commit)
    if standing.mixed:
        message = (
            f"Git had failed after node `{record.path}`: its files could not be told from the half-done edits of what ran after it; "
            f"all are kept, in commit {committed.commit[:12]}"
        )
        live.tell(Notice("warning", "resume.files_mixed", message))
    else:
        message = f"the checkpoint after node `{record.path}` was cut off by the crash and is complete now"
        live.tell(Notice("info", "resume.cycle_finished", message))
    return with_root(checkpoint, root, git_tree_sha=committed.tree, git_parent_sha=committed.parent, git_error=None)


def _branch_workspace(live: LiveRun, checkpoint: CheckpointFile, workspace: GitWorkspace) -> GitWorkspace | None:
    """The worktree of the parallel branch that the checkpoint was taken in, files as they are; None if it is gone."""
    path, branch = workspace.home, None
    for node, inner in branches_to(checkpoint):
        path, branch = branch_path(path if branch is None else path.parent, node.ordinal, node.node_id, inner.key), inner
    if branch is None or branch.ref is None or live.repository is None:
        return None
    if not (path / ".git").exists() or live.repository.ref(branch.ref) is None:
        return None
    expected = commit_in(checkpoint.to_state().root, branch.frame.prefix)
    return GitWorkspace.attach(
        live.repository,
        run_id=live.run_id,
        path=path,
        ref=branch.ref,
        subdirectory=live.record.subdirectory,
        exclude_globs=live.config.checkpoint.exclude_globs,
        sandboxes=sandboxes(live),
        notices=live.tell,
        expected=expected,
    )


def _merged_branches(checkpoint: CheckpointFile) -> list[MergeInput]:
    """The branches that the completed node merged into its files, by its own outcome (nothing else remembers it after a crash)."""
    record = checkpoint.completed
    frame = frame_in(checkpoint.to_state().root, record.frame) if record is not None else None
    outcome = frame.node_outcomes.get(record.node) if frame is not None and record is not None else None
    merged = outcome.context_updates.get("parallel.merged") if outcome is not None else None
    if frame is None or not isinstance(merged, list):
        return []
    found: dict[str, MergeInput] = {}
    for key, results in frame.context_values.items():
        is_results = key.startswith("parallel.") and key.endswith(".results") and isinstance(results, list)
        for result in results if is_results and isinstance(results, list) else ():
            if not isinstance(result, dict) or result.get("id") not in merged:
                continue
            ref, commit, base = result.get("ref"), result.get("commit"), result.get("base")
            if isinstance(ref, str) and isinstance(commit, str) and isinstance(base, str) and commit != base:
                found[ref] = MergeInput(str(result["id"]), ref, commit, base)
    return list(found.values())


def _set_aside(live: LiveRun, checkpoint: CheckpointFile | None, workspace: GitWorkspace, *, fresh: bool) -> None:
    """Half-done edits of the interrupted node into a named ref, files back to the last checkpoint."""
    ordinal = highest_ordinal(live.folder)
    node = (checkpoint.next_node_id if checkpoint is not None else live.workflow.start) or "end"
    try:
        kept = None if fresh else workspace.set_aside(f"{ordinal}-{node}", f"half-done edits of node `{node}`, interrupted by a crash")
        fault("resume.aside")
        workspace.reset()
    except ArcError as error:
        live.tell(Notice("warning", "resume.not_reset", f"the files could not be put back to the last checkpoint: {error}; they are kept"))
        raise
    fault("resume.reset")
    if kept is not None:
        message = f"half-done edits of the interrupted node `{node}` are set aside in `{kept}`"
        live.tell(Notice("info", "resume.set_aside", message, (f"look at them: `git show {kept}`",)))
