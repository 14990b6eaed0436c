"""The state of a walk, as the engine snapshots it and as `checkpoint.json` stores it.

A *frame* is one walk with its own position and context: the run itself, each branch of a parallel block, each child workflow.
Frames nest through `open_block`: a run killed inside a branch of a parallel block inside a child resumes right there.

A frame's `prefix` makes node paths unique: the root's is `""`, a branch of node `fan` towards `left` has `fan:left/`, the child of
`review` has `review/`. A node's path is prefix + id. Branches share the node ids of their graph; children have their own graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from arc.base.json import JsonObject
from arc.workflow.outcome import Outcome

CHECKPOINT_SCHEMA = 1

RunStatus = Literal["running", "success", "partial_success", "fail", "canceled"]


@dataclass(frozen=True)
class FrameState:
    """One walk. Field names and meanings of the seed's table ("What's in a checkpoint"), then arc's own.

    `next_node_id` is None at the end of the walk (and before a start has been made: then `current_node` is None too).
    `incoming_edge` is the index (in the graph's file order) of the edge chosen into `next_node_id`, so that its fidelity and thread hold
    after a resume; of a walk that ended in a failure, that of the edge into the node that failed. `git_commit_sha` is the commit on this
    frame's branch that holds the files of this state. `again`: the next node failed and is executed again on request, in the same visit
    (of the root frame that shows in its open block).
    """

    prefix: str = ""
    current_node: str | None = None
    next_node_id: str | None = None
    completed_nodes: tuple[str, ...] = ()
    node_retries: dict[str, int] = field(default_factory=dict)
    node_visits: dict[str, int] = field(default_factory=dict)
    node_outcomes: dict[str, Outcome] = field(default_factory=dict)
    context_values: JsonObject = field(default_factory=dict)
    loop_failure_signatures: dict[str, int] = field(default_factory=dict)
    restart_failure_signatures: dict[str, int] = field(default_factory=dict)
    incoming_edge: int | None = None
    current_fidelity: str | None = None
    git_commit_sha: str | None = None
    open_block: OpenBlock | None = None
    again: bool = False


@dataclass(frozen=True)
class BranchState:
    """A branch of a parallel block. `ref` is its Git branch (full ref name) where it has one, `status` how its walk stands."""

    key: str
    target: str
    status: Literal["waiting", "running", "success", "partial_success", "fail", "canceled"]
    frame: FrameState
    ref: str | None = None
    base_sha: str | None = None


@dataclass(frozen=True)
class OpenBlock:
    """A node in the middle of its execution that has checkpoints inside it: a parallel block or a child workflow.

    `node_id` is the block's node in the frame that holds it, `ordinal` its execution's ordinal (kept on resume: the block goes on).

    A block that failed and ended the walk stays in the state: a resume goes on with the branches that did not succeed, or at the node where
    the child failed. That is a new execution: `execution` is its ordinal, while `ordinal` still names the branches' refs.
    """

    kind: Literal["parallel", "child"]
    node_id: str
    ordinal: int
    branches: tuple[BranchState, ...] = ()
    child: FrameState | None = None
    cycle: int = 0
    execution: int | None = None


@dataclass(frozen=True)
class RunState:
    """Everything the engine needs to go on: the root frame and the counters of the whole run.

    `ordinal` is the ordinal of the execution that completed last; `next_ordinal` the first one not handed out yet.
    `elapsed_ms` is the running time so far over all processes (budgets and pictures survive a resume).
    """

    root: FrameState
    ordinal: int = 0
    next_ordinal: int = 1
    status: RunStatus = "running"
    failure: str | None = None
    elapsed_ms: int = 0


def frame_in(frame: FrameState, prefix: str) -> FrameState | None:
    """The frame `prefix` inside a frame (or that one itself); None if it is not open."""
    block = frame.open_block
    if frame.prefix == prefix or block is None:
        return frame if frame.prefix == prefix else None
    inner = [block.child] if block.child is not None else [branch.frame for branch in block.branches]
    return next((frame_in(one, prefix) for one in inner if prefix.startswith(one.prefix)), None)


def change_frame(frame: FrameState, prefix: str, change: Callable[[FrameState], FrameState]) -> FrameState:
    """The frame with `change` applied to the frame `prefix` inside it (nothing is changed if that is not open)."""
    block = frame.open_block
    if frame.prefix == prefix or block is None:
        return change(frame) if frame.prefix == prefix else frame

    def inside(one: FrameState) -> FrameState:
        return change_frame(one, prefix, change) if prefix.startswith(one.prefix) else one

    branches = tuple(replace(branch, frame=inside(branch.frame)) for branch in block.branches)
    child = inside(block.child) if block.child is not None else None
    return replace(frame, open_block=replace(block, branches=branches, child=child))
