"""The names of the engine's events and what each one tells. Stable: docs/events.md lists exactly these, a test compares."""

from __future__ import annotations

RUN_STARTED = "run.started"
RUN_RESUMED = "run.resumed"
RUN_COMPLETED = "run.completed"
RUN_FAILED = "run.failed"
RUN_CANCELED = "run.canceled"
RUN_NOTICE = "run.notice"
NODE_STARTED = "node.started"
NODE_COMPLETED = "node.completed"
NODE_FAILED = "node.failed"
NODE_RETRYING = "node.retrying"
EDGE_SELECTED = "edge.selected"
LOOP_RESTARTED = "loop.restarted"
PARALLEL_STARTED = "parallel.started"
PARALLEL_COMPLETED = "parallel.completed"
BRANCH_STARTED = "branch.started"
BRANCH_COMPLETED = "branch.completed"
FAN_IN_MERGED = "fan_in.merged"
FAN_IN_CONFLICT = "fan_in.conflict"
CHILD_STARTED = "child.started"
CHILD_COMPLETED = "child.completed"
STALL_TIMEOUT = "stall.timeout"

ENGINE_EVENTS: dict[str, str] = {
    RUN_STARTED: "The walk begins at the start node. `workflow`, `goal`, `dry_run`.",
    RUN_RESUMED: "The walk goes on from a checkpoint. `next_node`, `checkpoint` (ordinal of the last completed execution), `was`.",
    RUN_COMPLETED: "The exit node was completed. `status` (success, partial_success), `duration_ms`.",
    RUN_FAILED: "The walk ended in a failure. `reason`, `duration_ms`.",
    RUN_CANCELED: "The walk was canceled from outside; it can be resumed. `duration_ms`.",
    RUN_NOTICE: "Something a person should know. `level` (info, warning), `code`, `message`.",
    NODE_STARTED: "An execution of a node begins. `type`, `label`, `visit`, `fidelity`, `thread`.",
    NODE_COMPLETED: "An execution ended with any status but fail. `status`, `preferred_label`, `attempts`, `duration_ms`, `usage`.",
    NODE_FAILED: "An execution ended with status fail. `message`, `failure_class`, `failure_signature`, `attempts`, `duration_ms`.",
    NODE_RETRYING: "An attempt failed and another one follows. `attempt`, `of`, `delay_ms`, `message`, `failure_class`.",
    EDGE_SELECTED: "Where the walk goes next. `target`, `why`, and for an edge `edge` (its index), `label`, `condition`.",
    LOOP_RESTARTED: "An edge with `loop_restart` was crossed: context, completed nodes, outcomes and retries start afresh. `target`.",
    PARALLEL_STARTED: "A parallel block begins, or goes on after a resume. `branches`, `max_parallel`, `join_policy`, `join`.",
    PARALLEL_COMPLETED: "A parallel block ended. `status`, `succeeded`, `failed`, `canceled` (keys of branches).",
    BRANCH_STARTED: "A branch begins, or goes on after a resume. `branch`, `target`, `ref`.",
    BRANCH_COMPLETED: "A branch ended. `branch`, `status`, `commit`, `reason`.",
    FAN_IN_MERGED: "Branches were merged. `merged` (keys, in order), `overwritten` (context keys that several branches set).",
    FAN_IN_CONFLICT: "A branch could not be merged; its ref still holds its work. `branch`, `ref`, `paths`.",
    CHILD_STARTED: "A cycle of a child workflow begins, or goes on after a resume. `workflow`, `cycle`.",
    CHILD_COMPLETED: "A cycle of a child workflow ended. `workflow`, `cycle`, `status`, `reason`.",
    STALL_TIMEOUT: "Nothing happened in any branch for the graph's `stall_timeout`; the run stops. `idle_ms`, `limit_ms`.",
}
"""name -> meaning and properties."""
