"""What a node's execution came to. The field names are the JSON of `node_outcomes` in checkpoint.json (research 1.6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from arc.agent.protocol import Usage
from arc.base.json import JsonObject

Status = Literal["success", "partial_success", "fail", "skipped", "retry"]
STATUS_WORDS: dict[str, Status] = {
    "success": "success",
    "succeeded": "success",
    "partial_success": "partial_success",
    "partially_succeeded": "partial_success",
    "fail": "fail",
    "failed": "fail",
    "skipped": "skipped",
    "retry": "retry",
}
"""Both vocabularies; the first one is what arc writes."""

FailureClass = Literal["transient_infra", "deterministic", "budget_exhausted", "compilation_loop", "canceled", "structural"]


@dataclass(frozen=True)
class Failure:
    """Why a node failed. `failure_class` comes from exit code, signal, timeout or a typed error, never from output text."""

    message: str
    failure_class: FailureClass = "deterministic"
    failure_signature: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of one execution of a node (after its retries).

    `files_touched` are the paths in which the node's checkpoint differs from the one before it on the same branch, as Git sees them: from
    the top of the worktree, sorted, the first 200 (they are in every later checkpoint too); `files_touched_count` is how many there are.
    They are set by the checkpoint, whatever a handler says; without Git they stay what the handler said.
    """

    status: Status
    preferred_label: str | None = None
    suggested_next_ids: tuple[str, ...] = ()
    context_updates: JsonObject = field(default_factory=dict)
    notes: str = ""
    failure: Failure | None = None
    usage: Usage | None = None
    files_touched: tuple[str, ...] = ()
    files_touched_count: int = 0
    jump_to_node: str | None = None
    duration_ms: int = 0

    @property
    def succeeded(self) -> bool:
        """Whether it counts as a success for gates and joins."""
        return self.status in ("success", "partial_success", "skipped")
