"""The JSON documents of a run: `run.json`, `manifest.json`, `checkpoint.json`. Their fields are a promise: only added to.

Described for readers in docs/runs.md; each carries its `schema` number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from arc.base.json import JsonObject
from arc.runs.config import RunConfig
from arc.workflow.outcome import Outcome
from arc.workflow.state import CHECKPOINT_SCHEMA, FrameState, OpenBlock, RunState, RunStatus

RUN_SCHEMA = 1
MANIFEST_SCHEMA = 1

RunMode = Literal["git", "in_place", "dry_run"]
"""git: worktree and Git checkpoints; in_place: the caller's directory, disk checkpoints only; dry_run: nothing is executed for real."""

ShownStatus = Literal["created", "running", "interrupted", "waiting", "success", "partial_success", "fail", "canceled", "superseded"]
"""What `arc run list` shows. interrupted = not finished and no live process holds its lease."""


@dataclass(frozen=True)
class RunRecord:
    """`run.json`: what this run is. Written once at the start, then at each change of its status. Durable after each write.

    `repository` is the Git common directory, `subdirectory` where in the worktree nodes start (posix, "." = top).
    `logs_dir`, `worktree` are absolute paths on this machine. Times RFC 3339 UTC. `forked_from` is `RUN_ID@ORDINAL`.
    """

    schema: int
    run_id: str
    mode: RunMode
    status: RunStatus | Literal["created"]
    workflow: str
    workflow_file: str
    goal: str
    config: RunConfig
    start_directory: str
    created_at: str
    updated_at: str
    arc_version: str
    labels: dict[str, str] = field(default_factory=dict)
    repository: str | None = None
    subdirectory: str = "."
    base_sha: str | None = None
    run_branch: str | None = None
    metadata_ref: str | None = None
    worktree: str | None = None
    forked_from: str | None = None
    superseded_by: str | None = None
    failure: str | None = None
    resumed: int = 0
    snapshot_sha: str | None = None
    """With `--snapshot-dirty`: the commit that holds the dirty tree as checkpoint 0; the run branch starts there."""


@dataclass(frozen=True)
class Manifest:
    """`manifest.json` on the metadata branch: what a fresh clone needs to understand and resume the run, besides `graph.dot`.

    `sources` maps each file the workflow refers to (as written) to its blob path in the metadata tree (`sources/...`).
    """

    schema: int
    run_id: str
    graph_name: str
    goal: str
    start_time: str
    node_count: int
    edge_count: int
    run_branch: str
    base_sha: str
    workflow_file: str
    config: RunConfig
    subdirectory: str = "."
    labels: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    forked_from: str | None = None
    arc_version: str = ""
    snapshot_sha: str | None = None


@dataclass(frozen=True)
class CompletedRecord:
    """The execution that this checkpoint was taken after."""

    node: str
    path: str
    frame: str
    ordinal: int
    status: str


@dataclass(frozen=True)
class CheckpointFile:
    """`checkpoint.json`: the seed's table at the top level (the root frame), then arc's own fields.

    `git_commit_sha` is None in the copy on the metadata branch (the commit's trailer names that copy, so it cannot name the commit);
    `git_tree_sha` (the tree that the commit holds) is in both, and is what a resume compares. `git_parent_sha` is the commit before.
    In an `open_block`, each branch's frame has its own `git_commit_sha`.
    """

    schema: int
    run_id: str
    timestamp: str
    current_node: str | None
    next_node_id: str | None
    completed_nodes: tuple[str, ...]
    node_retries: dict[str, int]
    node_outcomes: dict[str, Outcome]
    context_values: JsonObject
    logs: tuple[str, ...]
    git_commit_sha: str | None
    loop_failure_signatures: dict[str, int]
    restart_failure_signatures: dict[str, int]
    node_visits: dict[str, int]
    ordinal: int
    next_ordinal: int
    status: RunStatus
    elapsed_ms: int
    completed: CompletedRecord | None = None
    incoming_edge: int | None = None
    current_fidelity: str | None = None
    failure: str | None = None
    open_block: OpenBlock | None = None
    git_tree_sha: str | None = None
    git_parent_sha: str | None = None
    git_error: str | None = None

    @classmethod
    def from_state(
        cls, state: RunState, *, run_id: str, timestamp: str, completed: CompletedRecord | None, logs: tuple[str, ...] = ()
    ) -> CheckpointFile:
        root = state.root
        return cls(
            schema=CHECKPOINT_SCHEMA,
            run_id=run_id,
            timestamp=timestamp,
            current_node=root.current_node,
            next_node_id=root.next_node_id,
            completed_nodes=root.completed_nodes,
            node_retries=root.node_retries,
            node_outcomes=root.node_outcomes,
            context_values=root.context_values,
            logs=logs,
            git_commit_sha=root.git_commit_sha,
            loop_failure_signatures=root.loop_failure_signatures,
            restart_failure_signatures=root.restart_failure_signatures,
            node_visits=root.node_visits,
            ordinal=state.ordinal,
            next_ordinal=state.next_ordinal,
            status=state.status,
            elapsed_ms=state.elapsed_ms,
            completed=completed,
            incoming_edge=root.incoming_edge,
            current_fidelity=root.current_fidelity,
            failure=state.failure,
            open_block=root.open_block,
        )

    def to_state(self) -> RunState:
        return RunState(
            root=FrameState(
                prefix="",
                current_node=self.current_node,
                next_node_id=self.next_node_id,
                completed_nodes=self.completed_nodes,
                node_retries=self.node_retries,
                node_visits=self.node_visits,
                node_outcomes=self.node_outcomes,
                context_values=self.context_values,
                loop_failure_signatures=self.loop_failure_signatures,
                restart_failure_signatures=self.restart_failure_signatures,
                incoming_edge=self.incoming_edge,
                current_fidelity=self.current_fidelity,
                git_commit_sha=self.git_commit_sha,
                open_block=self.open_block,
            ),
            ordinal=self.ordinal,
            next_ordinal=self.next_ordinal,
            status=self.status,
            failure=self.failure,
            elapsed_ms=self.elapsed_ms,
        )
