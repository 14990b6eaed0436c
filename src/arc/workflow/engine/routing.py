"""Edge selection: where the walk goes after a node. Pure: the same situation always gives the same answer.

Order, first that yields a target wins (ties: higher weight, then target id, then order of the file):

1. edges whose condition is true;
2. `jump_to_node` of the outcome;
3. edges without a condition whose label is the outcome's `preferred_label` (case, spaces and accelerator do not matter);
4. edges without a condition to one of `suggested_next_ids`, in the order of the suggestion;
5. edges without a condition (`selection=random` on the node picks among them, by weight, seeded by run and ordinal).

An edge whose condition is false is never taken. A *failed* node does not walk on as if nothing had happened: after 1 and 2 it goes to its
`retry_target` or `fallback_retry_target`, then along an edge without a condition only if that leads to a `conditional` node (which exists
to route on the outcome) or, inside a parallel branch, to the block's join; then to the graph's `retry_target` or `fallback_retry_target`;
else the walk is stuck. A failed `human` gate does not even go to a `conditional`. After a `conditional` node the facts are those of the
node before it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from arc.base.json import JsonValue
from arc.workflow.engine.graph import Graph
from arc.workflow.language.conditions import Facts
from arc.workflow.model import Edge, Node
from arc.workflow.outcome import Outcome

Why = Literal["condition", "jump", "label", "suggested", "unconditional", "random", "retry_target", "goal_gate", "join"]

_ACCELERATOR = re.compile(r"^\s*(?:\[\w\]\s*|\w\)\s+|\w\s+-\s+)")


@dataclass(frozen=True)
class Situation:
    """What a choice depends on. `routed` is the outcome that conditions see: the node's own, after a `conditional` that of the node
    before it.

    `join` holds the nodes a parallel branch ends at; `allowed` limits jumps and retry targets to the nodes of a branch (None = no limit).
    """

    node: Node
    outcome: Outcome
    routed: Outcome
    context: Mapping[str, JsonValue]
    join: Collection[str] = ()
    allowed: Collection[str] | None = None
    seed: str = ""


@dataclass(frozen=True)
class Chosen:
    """The next node, the edge that leads there (None for a jump) and the rule that chose it."""

    target: str
    edge: Edge | None
    why: Why


@dataclass(frozen=True)
class Stuck:
    """No way on. `dead_end`: the node has no outgoing edges at all."""

    reason: str
    dead_end: bool


def normalise_label(label: str) -> str:
    """Lower case, spaces collapsed, accelerator (`[K] x`, `K) x`, `K - x`) removed."""
    return " ".join(_ACCELERATOR.sub("", label, count=1).lower().split())


def choose(graph: Graph, situation: Situation) -> Chosen | Stuck:
    """The next node after `situation.node`, by the rules above."""
    node, outcome = situation.node, situation.outcome
    facts = Facts(situation.routed.status, situation.routed.preferred_label or "", situation.context)
    edges = tuple(edge for edge in graph.outgoing(node.id) if _crossable(edge, situation.routed))
    true = [edge for edge in edges if edge.condition is not None and edge.condition.evaluate(facts)]
    if true:
        best = _ranked(true)[0]
        return Chosen(best.target, best, "condition")
    jump = outcome.jump_to_node
    if jump is not None:
        if not _may_enter(graph, situation, jump):
            return Stuck(f"node `{node.id}` asked to jump to `{jump}`, which is not a node it can go to", False)
        return Chosen(jump, None, "jump")
    plain = [edge for edge in edges if edge.condition is None]
    found = _after_failure(graph, situation, plain) if outcome.status == "fail" else _after_success(situation, plain)
    return found if found is not None else _stuck(graph, situation)


def after_block(graph: Graph, situation: Situation, join: str | None) -> Chosen | Stuck:
    """Where the walk goes after a parallel block, whose own edges are branches: to the join, after a failure to a retry target."""
    if situation.outcome.status == "fail":
        return _after_failure(graph, situation, []) or _stuck_block(situation)
    if join is None:
        return Stuck(f"no branch of the parallel block `{situation.node.id}` leads to a fan-in or to the exit", False)
    return Chosen(join, None, "join")


def _after_success(situation: Situation, plain: list[Edge]) -> Chosen | None:
    if not plain:
        return None
    routed, ranked = situation.routed, _ranked(plain)
    if routed.preferred_label:
        wanted = normalise_label(routed.preferred_label)
        for edge in ranked:
            if edge.label and normalise_label(edge.label) == wanted:
                return Chosen(edge.target, edge, "label")
    for suggestion in routed.suggested_next_ids:
        for edge in ranked:
            if edge.target == suggestion:
                return Chosen(edge.target, edge, "suggested")
    if situation.node.selection == "random":
        generator = random.Random(situation.seed)
        edge = generator.choices(ranked, weights=[max(edge.weight, 1) for edge in ranked])[0]
        return Chosen(edge.target, edge, "random")
    return Chosen(ranked[0].target, ranked[0], "unconditional")


def _after_failure(graph: Graph, situation: Situation, plain: list[Edge]) -> Chosen | None:
    node, workflow = situation.node, graph.workflow
    own = _first_target(graph, situation, (node.retry_target, node.fallback_retry_target))
    if own is not None:
        return own
    for edge in _ranked(plain):
        if edge.target in situation.join or (node.type != "human" and graph.nodes[edge.target].type == "conditional"):
            return Chosen(edge.target, edge, "join" if edge.target in situation.join else "unconditional")
    return _first_target(graph, situation, (workflow.retry_target, workflow.fallback_retry_target))


def _first_target(graph: Graph, situation: Situation, targets: Iterable[str | None]) -> Chosen | None:
    for target in targets:
        if target is not None and _may_enter(graph, situation, target):
            return Chosen(target, None, "retry_target")
    return None


def _may_enter(graph: Graph, situation: Situation, target: str) -> bool:
    return target in graph.nodes and (situation.allowed is None or target in situation.allowed or target in situation.join)


def _crossable(edge: Edge, routed: Outcome) -> bool:
    """A `loop_restart` edge is for successes and passing troubles: repeating a deterministic failure afresh would repeat it for ever."""
    if not edge.loop_restart or routed.status != "fail":
        return True
    return routed.failure is not None and routed.failure.failure_class == "transient_infra"


def _ranked(edges: Iterable[Edge]) -> list[Edge]:
    return sorted(edges, key=lambda edge: (-edge.weight, edge.target, edge.index))


def _stuck(graph: Graph, situation: Situation) -> Stuck:
    node, routed = situation.node, situation.routed
    edges = graph.outgoing(node.id)
    said = f"outcome `{routed.status}`" + (f", preferred label `{routed.preferred_label}`" if routed.preferred_label else "")
    cause = f": {situation.outcome.failure.message}" if situation.outcome.status == "fail" and situation.outcome.failure else ""
    if not edges:
        return Stuck(f"node `{node.id}` ended with {said} and has no outgoing edge{cause}", True)
    return Stuck(
        f"node `{node.id}` ended with {said} and no edge matches ({'; '.join(_refusal(edge, routed) for edge in edges)}){cause}", False
    )


def _stuck_block(situation: Situation) -> Stuck:
    failure = situation.outcome.failure
    return Stuck(
        f"the parallel block `{situation.node.id}` failed and has no retry target" + (f": {failure.message}" if failure else ""), False
    )


def _refusal(edge: Edge, routed: Outcome) -> str:
    name = f"`{edge.source} -> {edge.target}`"
    if not _crossable(edge, routed):
        return f"{name} restarts the loop, which only a success or a `transient_infra` failure may"
    if edge.condition is not None:
        return f"{name} needs `{edge.condition.text}`"
    return f"{name} has no condition and a failed node does not follow it"
