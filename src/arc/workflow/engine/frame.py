"""The mutable position of one walk, and its immutable snapshots (`FrameState`).

Only the engine holds frames. A frame changes in one place (`record` and what `advance` sets afterwards), under the checkpoint lock, so
that every snapshot shows each frame between two nodes. Values enter the context as copies and are never changed in place, so snapshots
share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from arc.base.json import JsonObject, JsonValue
from arc.workflow.engine.graph import Graph
from arc.workflow.engine.threads import ThreadStore
from arc.workflow.model import Edge, Node
from arc.workflow.outcome import Failure, Outcome
from arc.workflow.state import BranchState, FrameState, OpenBlock
from arc.workspace.protocol import Workspace

LAST_STAGE = "last_stage"
WALK_FAILURE = "internal.walk_failure"
"""Context key of a walk that ended in a failure: its reason. In the state, so that a resume knows without running anything."""

GATE_JUMP = "internal.gate_jump"
"""Context key: the goal gate a jump was made for, and its visits then. The gate must have run again before the exit is asked for
again."""

ENGINE_KEYS = frozenset(
    {"outcome", "preferred_label", "current_node", LAST_STAGE, "last_response", "failure_class", "failure_signature", "current.preamble"}
)
"""Context keys that describe a walk's position; a branch or child keeps its own and does not hand them back."""


@dataclass(frozen=True)
class WalkEnd:
    """How a walk ended. `reason` is set for failures."""

    status: Literal["success", "partial_success", "fail"]
    reason: str = ""


@dataclass(frozen=True)
class Execution:
    """One finished execution of a node: what `Frame.record` needs."""

    ordinal: int
    attempts: int
    outcome: Outcome
    fidelity: str | None = None


def copy_json(value: JsonValue) -> JsonValue:
    """A deep copy; strings and numbers are shared."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_json(item) for item in value]
    return value


def copy_object(value: JsonObject) -> JsonObject:
    """A deep copy of an object."""
    return {key: copy_json(item) for key, item in value.items()}


@dataclass
class Branch:
    """A branch of an open parallel block. `canceled` is decided by the block; every other status is that of the frame's walk."""

    key: str
    target: str
    frame: Frame
    started: bool = False
    canceled: bool = False
    ref: str | None = None
    base: str | None = None

    @property
    def status(self) -> Literal["waiting", "running", "success", "partial_success", "fail", "canceled"]:
        if self.canceled:
            return "canceled"
        end = self.frame.end() if self.started else None
        if end is not None:
            return end.status
        return "running" if self.started else "waiting"

    def snapshot(self) -> BranchState:
        return BranchState(self.key, self.target, self.status, self.frame.snapshot(), self.ref, self.base)


@dataclass
class Block:
    """A node in the middle of its execution that has checkpoints inside it (state.py: `OpenBlock`)."""

    kind: Literal["parallel", "child"]
    node_id: str
    ordinal: int
    branches: list[Branch] = field(default_factory=list)
    child: Frame | None = None
    cycle: int = 0
    execution: int | None = None

    def snapshot(self) -> OpenBlock:
        branches = tuple(branch.snapshot() for branch in self.branches)
        child = self.child.snapshot() if self.child else None
        return OpenBlock(self.kind, self.node_id, self.ordinal, branches, child, self.cycle, self.execution)

    def can_go_on(self, outcome: Outcome) -> bool:
        """Whether the block, failed like this, has parts to take up again: unless it had merged already, or its child got to its end."""
        if self.child is not None:
            end = self.child.end()
            return end is None or end.status == "fail"
        return "parallel.merged" not in outcome.context_updates and any(
            branch.status not in ("success", "partial_success") for branch in self.branches
        )


@dataclass
class Frame:
    """One walk. Fields as in `FrameState`; besides: where it runs and where it must stop.

    `stops` are nodes at which the walk ends without entering them (the join of a branch), `allowed` the nodes that jumps may reach
    (None = all), `enclosing` the parallel nodes whose branches this walk is inside of. `host` is the frame that holds the block of a
    branch or child; a branch also has it as `parent`: it shares graph and history. `opened` is the block of the state resumed from until
    its runner has opened it again. `fresh` is False for the first node after a resume, `resumed` True from then on: what was said in
    another process is lost. `again` is True while a failed node is run again on request (the visit is the same one), `reopening` until
    the runner of a failed block has taken it up again.
    """

    graph: Graph
    workspace: Workspace
    prefix: str = ""
    parent: Frame | None = None
    host: Frame | None = None
    enclosing: frozenset[str] = frozenset()
    stops: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None
    threads: ThreadStore = field(default_factory=ThreadStore)
    current: str | None = None
    next: str | None = None
    completed: list[str] = field(default_factory=list)
    retries: dict[str, int] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    context: JsonObject = field(default_factory=dict)
    loop_signatures: dict[str, int] = field(default_factory=dict)
    restart_signatures: dict[str, int] = field(default_factory=dict)
    incoming: Edge | None = None
    fidelity: str | None = None
    commit: str | None = None
    block: Block | None = None
    opened: OpenBlock | None = None
    fresh: bool = True
    resumed: bool = False
    again: bool = False
    reopening: bool = False
    _failed_block: tuple[Block, list[str], dict[str, int]] | None = field(default=None, init=False)

    def path(self, node_id: str) -> str:
        """The node's path: unique in the run."""
        return self.prefix + node_id

    def visit(self, node_id: str) -> int:
        """The number of the visit that an execution of the node now belongs to."""
        return self.visits.get(node_id, 0) + (0 if self.again else 1)

    @property
    def last_outcome(self) -> Outcome | None:
        """The outcome that routing looks at: of the last node that was not a mere `conditional`."""
        last = self.context.get(LAST_STAGE)
        return self.outcomes.get(last) if isinstance(last, str) else None

    def end(self) -> WalkEnd | None:
        """How the walk ended, None while it goes on."""
        reason = self.context.get(WALK_FAILURE)
        if reason is not None:
            return WalkEnd("fail", str(reason))
        at_end = self.next in self.stops if self.next is not None else self.current is not None
        if not at_end:
            return None
        if not self.stops and any(outcome.status == "partial_success" for outcome in self.outcomes.values()):
            return WalkEnd("partial_success")  # the whole walk got through, not everything in it did
        last = self.last_outcome
        if last is None or last.status in ("success", "skipped"):
            return WalkEnd("success")
        if last.status == "partial_success":
            return WalkEnd("partial_success")
        return WalkEnd(
            "fail", last.failure.message if last.failure else f"node `{self.context.get(LAST_STAGE)}` ended with `{last.status}`"
        )

    def history(self) -> tuple[list[str], dict[str, Outcome]]:
        """Completed nodes and latest outcomes, in a branch those of the frames around it first."""
        if self.parent is None:
            return self.completed, self.outcomes
        completed, outcomes = self.parent.history()
        return [*completed, *self.completed], {**outcomes, **self.outcomes}

    def record(self, node: Node, execution: Execution) -> None:
        """Take an execution's result into the position: outcome, visits, retries and the engine's context keys."""
        outcome, block = execution.outcome, self.block
        before = (list(self.completed), dict(self.visits))
        if block is not None:
            self._absorb()
        updates = copy_object(outcome.context_updates)
        self.outcomes[node.id] = replace(outcome, context_updates=updates)
        self.context.update((key, value) for key, value in updates.items() if not key.startswith("internal."))
        if not self.again:
            self.visits[node.id] = self.visits.get(node.id, 0) + 1
        self.retries[node.id] = execution.attempts - 1
        self.completed.append(node.id)
        self.current, self.fidelity, self.block = node.id, execution.fidelity, None
        self.opened = None
        self._failed_block = (block, *before) if block is not None and outcome.status == "fail" and block.can_go_on(outcome) else None
        self.fresh, self.again = True, False
        self._describe_position(node, execution)

    def note_files(self, node_id: str, touched: tuple[str, ...], count: int) -> None:
        """After the checkpoint: what it found changed in the files belongs to the node's outcome (if a `loop_restart` has left one)."""
        outcome = self.outcomes.get(node_id)
        if outcome is not None:
            self.outcomes[node_id] = replace(outcome, files_touched=touched, files_touched_count=count)

    def keep_failed_block(self) -> None:
        """After the next position is known: if the walk ended at a block that failed, the state keeps the block, so that a resume can go on
        inside it; what its branches completed is then counted when it ends for good."""
        kept, self._failed_block = self._failed_block, None
        end = self.end()
        if kept is None or end is None or end.status != "fail" or (self.next is not None and self.next not in self.stops):
            return
        block, completed, visits = kept
        node_id = block.node_id
        self.completed = [*completed, node_id]
        self.visits = {**visits, node_id: self.visits[node_id]}
        self.opened = block.snapshot()

    def _absorb(self) -> None:
        """Take over what the branches of the block did."""
        whole = with_branches(self.snapshot())
        self.completed, self.outcomes, self.retries = list(whole.completed_nodes), whole.node_outcomes, whole.node_retries
        self.visits = whole.node_visits
        self.loop_signatures, self.restart_signatures = whole.loop_failure_signatures, whole.restart_failure_signatures

    def _describe_position(self, node: Node, execution: Execution) -> None:
        outcome, context = execution.outcome, self.context
        context["current_node"] = node.id
        context["internal.node_visit_count"] = self.visits.get(node.id, 1)
        context[f"internal.retry_count.{node.id}"] = self.retries[node.id]
        if execution.fidelity is not None:
            context["internal.fidelity"] = execution.fidelity
        response = outcome.context_updates.get(f"response.{node.id}")
        if isinstance(response, str):
            context["last_response"] = response[:200]
        if node.type == "conditional" and outcome.succeeded and self.last_outcome is not None:
            return  # it routes on the outcome before it, which stays visible
        context[LAST_STAGE] = node.id
        context["outcome"] = outcome.status
        context["preferred_label"] = outcome.preferred_label or ""
        context["failure_class"] = outcome.failure.failure_class if outcome.failure else ""
        context["failure_signature"] = (outcome.failure.failure_signature or "") if outcome.failure else ""

    def fail(self, reason: str) -> None:
        """End the walk here as failed; `next` stays where it is (None: the failed node itself runs again on request)."""
        self.context[WALK_FAILURE] = reason

    def restart(self) -> None:
        """What crossing a `loop_restart` edge does: everything afresh but visits, signatures, `graph.*` and `input.*` (in a branch: the
        context that its block started with)."""
        if self.parent is not None:
            self.context = dict(self.parent.context)
        else:
            self.context = {key: value for key, value in self.context.items() if key.startswith(("graph.", "input."))}
        self.completed, self.outcomes, self.retries = [], {}, {}

    def snapshot(self) -> FrameState:
        return FrameState(
            prefix=self.prefix,
            current_node=self.current,
            next_node_id=self.next,
            completed_nodes=tuple(self.completed),
            node_retries=dict(self.retries),
            node_visits=dict(self.visits),
            node_outcomes=dict(self.outcomes),
            context_values=dict(self.context),
            loop_failure_signatures=dict(self.loop_signatures),
            restart_failure_signatures=dict(self.restart_signatures),
            incoming_edge=self.incoming.index if self.incoming else None,
            current_fidelity=self.fidelity,
            git_commit_sha=self.commit,
            open_block=self.block.snapshot() if self.block else self.opened,
            again=self.again,
        )

    def restore(self, state: FrameState) -> None:
        """Take a snapshot's position; its open block is opened again by the block's runner."""
        context = copy_object(state.context_values)
        self.current, self.next = state.current_node, state.next_node_id
        self.completed, self.retries = list(state.completed_nodes), dict(state.node_retries)
        self.visits, self.outcomes, self.context = dict(state.node_visits), dict(state.node_outcomes), context
        self.loop_signatures = dict(state.loop_failure_signatures)
        self.restart_signatures = dict(state.restart_failure_signatures)
        self.incoming = self.graph.edge(state.incoming_edge)
        self.fidelity, self.commit = state.current_fidelity, state.git_commit_sha
        self.opened, self.fresh, self.resumed = state.open_block, False, True
        self.again = state.again or (state.open_block is not None and state.open_block.execution is not None)


def differences(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> JsonObject:
    """Context keys that a branch or child set or changed, without the engine's own."""
    return {
        key: value
        for key, value in after.items()
        if key not in ENGINE_KEYS
        and not key.startswith(("internal.", "graph.", "parallel."))
        and (key not in before or before[key] != value)
    }


def with_branches(frame: FrameState) -> FrameState:
    """The frame after its open block: what the branches did (also in failed blocks of their own) taken over. Where several executed the
    same node, a branch that succeeded has the last word. A child's nodes stay its own."""
    block = frame.open_block
    if block is None:
        return frame
    branches = [(branch.status in ("success", "partial_success"), with_branches(branch.frame)) for branch in block.branches]
    completed, visits = list(frame.completed_nodes), dict(frame.node_visits)
    outcomes, retries = dict(frame.node_outcomes), dict(frame.node_retries)
    loops, restarts = dict(frame.loop_failure_signatures), dict(frame.restart_failure_signatures)
    for _, inner in sorted(branches, key=lambda branch: branch[0]):
        outcomes.update(inner.node_outcomes)
        retries.update(inner.node_retries)
    for _, inner in branches:
        completed.extend(inner.completed_nodes)
        for node_id, count in inner.node_visits.items():
            if node_id != block.node_id:  # its own visit was not counted yet when the branches began
                visits[node_id] = visits.get(node_id, 0) + count - frame.node_visits.get(node_id, 0)
        for mine, theirs in ((loops, inner.loop_failure_signatures), (restarts, inner.restart_failure_signatures)):
            mine.update({key: max(count, mine.get(key, 0)) for key, count in theirs.items()})
    return replace(
        frame,
        completed_nodes=tuple(completed),
        node_visits=visits,
        node_outcomes=outcomes,
        node_retries=retries,
        loop_failure_signatures=loops,
        restart_failure_signatures=restarts,
        open_block=None,
    )


def failed(message: str, failure_class: Literal["deterministic", "structural", "transient_infra"] = "deterministic") -> Outcome:
    """A failed outcome with that message."""
    return Outcome("fail", failure=Failure(message, failure_class))
