"""The workflow as the engine uses it: every attribute read, typed, with variables, files and stylesheet applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from arc.agent.protocol import ModelChoice
from arc.workflow.language.conditions import Condition
from arc.workflow.values import Diagnostic, Position, Value

Fidelity = Literal["full", "compact", "summary:high", "summary:medium", "summary:low", "truncate"]
RetryPolicyName = Literal["none", "standard", "aggressive", "linear", "patient"]
ErrorPolicy = Literal["continue", "fail_fast", "ignore"]
JoinKind = Literal["wait_all", "first_success", "k_of_n", "quorum"]

NODE_TYPES = (
    "start",
    "exit",
    "agent",
    "prompt",
    "command",
    "human",
    "conditional",
    "parallel",
    "parallel.fan_in",
    "wait",
    "stack.manager_loop",
)
"""Canonical handler types; other spellings (`codergen`, `tool`, `wait.human`, shapes) are mapped to these when a workflow is read."""


@dataclass(frozen=True)
class JoinPolicy:
    """`k_of_n(N)` has `count` N; `quorum(F)` has `fraction` F in (0, 1]."""

    kind: JoinKind = "wait_all"
    count: int = 0
    fraction: float = 0.0


@dataclass(frozen=True)
class Node:
    """A node, all attributes of research 1.3 read. Times in milliseconds; None = not given (a graph or policy default applies)."""

    id: str
    type: str
    label: str
    position: Position
    classes: tuple[str, ...] = ()
    prompt: str = ""
    timeout_ms: int | None = None
    max_retries: int | None = None
    retry_policy: RetryPolicyName | None = None
    retry_target: str | None = None
    fallback_retry_target: str | None = None
    goal_gate: bool = False
    allow_partial: bool = False
    auto_status: bool = False
    max_visits: int | None = None
    selection: Literal["deterministic", "random"] = "deterministic"
    fidelity: Fidelity | None = None
    thread_id: str | None = None
    choice: ModelChoice = field(default_factory=ModelChoice)
    project_memory: bool = True
    script: str = ""
    language: Literal["shell", "python"] = "shell"
    working_directory: str = "."
    environment: Mapping[str, str] = field(default_factory=dict)
    join_policy: JoinPolicy = field(default_factory=JoinPolicy)
    error_policy: ErrorPolicy = "continue"
    max_parallel: int = 4
    duration_ms: int | None = None
    human_default_choice: str | None = None
    child: Workflow | None = None
    poll_interval_ms: int = 45_000
    max_cycles: int = 1000
    stop_condition: Condition | None = None
    attributes: Mapping[str, Value] = field(default_factory=dict)
    """Everything as written (variables expanded), unknown attributes included: for users' own handlers."""

    @property
    def asks_model(self) -> bool:
        """Whether an execution of the node asks a model: agents, prompts, and fan-ins that let one pick the branches."""
        return self.type in ("agent", "prompt") or (self.type == "parallel.fan_in" and bool(self.prompt))


@dataclass(frozen=True)
class Edge:
    """An edge; `index` is its place in the file."""

    source: str
    target: str
    index: int
    position: Position
    label: str = ""
    condition: Condition | None = None
    weight: int = 0
    fidelity: Fidelity | None = None
    thread_id: str | None = None
    loop_restart: bool = False
    freeform: bool = False


@dataclass(frozen=True)
class Workflow:
    """A whole workflow, ready to run. `nodes` and `edges` keep the order of the file; `source` is the DOT text as parsed.

    `attributes` are the graph attributes as written (mirrored into the context as `graph.<name>`). `sources` are the
    texts of all files the graph refers to (`@file` prompts, child workflows), by the path as written: what a resume on
    another machine needs besides `source`. `notices` were found while reading (unknown attributes and the like).
    """

    name: str
    file: str
    source: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]
    start: str
    exit: str
    goal: str = ""
    label: str = ""
    default_max_retries: int = 0
    retry_target: str | None = None
    fallback_retry_target: str | None = None
    default_fidelity: Fidelity = "compact"
    default_thread: str | None = None
    max_node_visits: int = 0
    stall_timeout_ms: int = 600_000
    loop_restart_signature_limit: int = 3
    attributes: Mapping[str, Value] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[Diagnostic, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    """The run's inputs (`-i KEY=VALUE`), as they were used for `$name`."""

    def outgoing(self, node_id: str) -> tuple[Edge, ...]:
        """Edges that leave a node, in the order of the file."""
        return tuple(edge for edge in self.edges if edge.source == node_id)

    def incoming(self, node_id: str) -> tuple[Edge, ...]:
        """Edges that enter a node, in the order of the file."""
        return tuple(edge for edge in self.edges if edge.target == node_id)
