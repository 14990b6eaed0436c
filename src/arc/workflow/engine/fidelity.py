"""How much of the run so far a node is told: the fidelity modes, which one holds, and the preamble text of each. Pure and deterministic.

| mode | what is carried over |
|---|---|
| `full` | the conversation of the node's thread itself; no preamble |
| `compact` | goal, one bullet per completed node (status, failure, start of its output), context values |
| `summary:low`, `summary:medium`, `summary:high` | goal and a section per completed node, within about 600, 1,500, 3,000 tokens |
| `truncate` | goal and run id |

Where something must be left out, the newest nodes are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arc.base.json import JsonValue
from arc.workflow.model import Edge, Fidelity, Node, Workflow
from arc.workflow.outcome import Outcome
from arc.workflow.shorten import one_line, shortened

CHARACTERS_PER_TOKEN = 4
SUMMARY_TOKENS = {"summary:low": 600, "summary:medium": 1_500, "summary:high": 3_000}
COMPACT_CHARACTERS = 6_000
GOAL_CHARACTERS = 2_000

_SILENT_TYPES = frozenset({"start", "conditional", "parallel"})
_ENGINE_KEYS = frozenset(
    {"outcome", "preferred_label", "current_node", "last_stage", "last_response", "failure_class", "failure_signature"}
)
_ENGINE_PREFIXES = ("internal.", "graph.", "response.", "command.", "thread.", "current.", "parallel.", "input.")


def choose_fidelity(edge: Edge | None, node: Node, workflow: Workflow, *, previous_lost: bool) -> Fidelity:
    """The edge's mode, else the node's, else the graph's. `previous_lost`: the conversation that the node would continue is gone (a
    resume), so `full` becomes `summary:high`."""
    chosen = (edge.fidelity if edge is not None else None) or node.fidelity or workflow.default_fidelity
    return "summary:high" if chosen == "full" and previous_lost else chosen


def choose_thread(edge: Edge | None, node: Node, workflow: Workflow, previous_node: str | None) -> str:
    """The thread a node belongs to: its own, else the edge's, else the graph's default, else its first class, else the previous node's id
    (the node's own id at the beginning)."""
    return (
        node.thread_id
        or (edge.thread_id if edge is not None else None)
        or workflow.default_thread
        or (node.classes[0] if node.classes else None)
        or previous_node
        or node.id
    )


def build_preamble(
    fidelity: Fidelity,
    *,
    workflow: Workflow,
    completed: Sequence[str],
    outcomes: Mapping[str, Outcome],
    context: Mapping[str, JsonValue],
) -> str:
    """The text put before a node's prompt; empty for `full`.

    `completed` are node ids in order (with repetitions), `outcomes` their latest outcomes, `context` holds `response.<node>`.
    """
    if fidelity == "full":
        return ""
    head = _head(workflow, context)
    if fidelity == "truncate":
        return head
    stages = _stages(workflow, completed, outcomes, context)
    values = _values(context)
    if fidelity == "compact":
        return _within(COMPACT_CHARACTERS, head, "## Completed so far", [stage.bullet() for stage in stages], values)
    budget = SUMMARY_TOKENS[fidelity] * CHARACTERS_PER_TOKEN
    # The newest node may use up to half of the budget, each one before it half of what is left, but never less than a bullet.
    sections: list[str] = []
    room = budget - len(head)
    for stage in reversed(stages):
        section = stage.section(max(room // 2, 160))
        sections.append(section)
        room = max(0, room - len(section))
    return _within(budget, head, "## What happened so far", sections[::-1], values)


@dataclass(frozen=True)
class _Stage:
    name: str
    visits: int
    outcome: Outcome
    output: str

    @property
    def title(self) -> str:
        times = f", {self.visits} visits" if self.visits > 1 else ""
        return f"{self.name}: {self.outcome.status}{times}"

    def bullet(self) -> str:
        """One line."""
        parts = [f"- {self.title}"]
        if self.outcome.failure is not None:
            parts.append(f"failed: {one_line(self.outcome.failure.message, 160)}")
        if self.outcome.notes:
            parts.append(one_line(self.outcome.notes, 160))
        if self.output:
            parts.append(f"said: {one_line(self.output, 240)}")
        return "; ".join(parts)

    def section(self, size: int) -> str:
        """A heading and as much of the node's output as fits into `size` characters."""
        lines = [f"### {self.title}"]
        if self.outcome.preferred_label:
            lines.append(f"It chose: {one_line(self.outcome.preferred_label, 160)}")
        if self.outcome.failure is not None:
            lines.append(f"Failure ({self.outcome.failure.failure_class}): {one_line(self.outcome.failure.message, 400)}")
        if self.outcome.notes:
            lines.append(one_line(self.outcome.notes, 400))
        room = size - sum(len(line) + 1 for line in lines)
        if self.output and room > 0:
            lines.append(shortened(self.output.strip(), room))
        return shortened("\n".join(lines), size)


def _head(workflow: Workflow, context: Mapping[str, JsonValue]) -> str:
    lines = [f"Goal: {shortened(workflow.goal, GOAL_CHARACTERS)}"] if workflow.goal else []
    run_id = context.get("internal.run_id")
    if isinstance(run_id, str):
        lines.append(f"Run: {run_id}")
    return "\n".join(lines)


def _stages(
    workflow: Workflow, completed: Sequence[str], outcomes: Mapping[str, Outcome], context: Mapping[str, JsonValue]
) -> list[_Stage]:
    """One per node, in the order of their latest completion; nodes that only route are left out."""
    visits: dict[str, int] = {}
    for node_id in completed:
        count = visits.pop(node_id, 0)
        visits[node_id] = count + 1
    return [
        _Stage(node_id, count, outcomes[node_id], _output(context.get(f"response.{node_id}")))
        for node_id, count in visits.items()
        if node_id in outcomes and (node_id not in workflow.nodes or workflow.nodes[node_id].type not in _SILENT_TYPES)
    ]


def _output(value: JsonValue) -> str:
    if isinstance(value, dict) and "$artifact" in value:
        return f"({value.get('bytes', 'many')} bytes, too large to show)"
    return value if isinstance(value, str) else ""


def _values(context: Mapping[str, JsonValue]) -> list[str]:
    """Context values that nodes set themselves, one bullet each."""
    return [
        f"- {key} = {one_line(value if isinstance(value, str) else str(value), 200)}"
        for key, value in sorted(context.items())
        if key not in _ENGINE_KEYS and not key.startswith(_ENGINE_PREFIXES) and value is not None and not isinstance(value, dict | list)
    ]


def _within(size: int, head: str, title: str, sections: list[str], values: list[str]) -> str:
    """Head, then the newest sections that fit, then the values that fit into what is left; at most `size` characters."""
    room = size - len(head) - len(title) - 60
    kept: list[str] = []
    for section in reversed(sections):
        if len(section) + 1 > room:
            break
        kept.append(section)
        room -= len(section) + 1
    parts = [head] if head else []
    if kept:
        missing = len(sections) - len(kept)
        note = [f"({missing} earlier nodes are left out)"] if missing else []
        parts.append("\n".join([title, *note, *reversed(kept)]))
    shown: list[str] = []
    for value in values:
        if len(value) + 1 <= room - 20:
            shown.append(value)
            room -= len(value) + 1
    if shown:
        parts.append("\n".join(["## Context", *shown]))
    return "\n\n".join(parts)
