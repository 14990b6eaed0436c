"""Rules about parallel blocks: branches start together and have to meet again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from arc.workflow.lint.view import Finding, View, pick, text

_K_OF_N = re.compile(r"^\s*k_of_n\(\s*(\d+)\s*\)\s*$")


def meeting_points(view: View, target: str) -> frozenset[str]:
    """The fan-in nodes at which a walk from `target` leaves the block it is in; inner blocks are walked through to their own."""
    deepest = sum(1 for _ in view.of_type("parallel"))
    found: set[str] = set()
    seen: set[tuple[str, int]] = set()
    waiting = [(target, 0)]
    while waiting:
        node_id, depth = waiting.pop()
        if (node_id, depth) in seen or depth > deepest:
            continue
        seen.add((node_id, depth))
        kind = view.types.get(node_id)
        if kind == "parallel.fan_in":
            if depth == 0:
                found.add(node_id)
                continue
            depth -= 1
        elif kind == "parallel":
            depth += 1
        waiting.extend((edge.target, depth) for edge in view.outgoing(node_id))
    return frozenset(found)


def blocks(view: View) -> Mapping[str, tuple[frozenset[str], ...]]:
    """Parallel node id -> for each of its branches, where it can meet the others."""
    return {node.id: tuple(meeting_points(view, edge.target) for edge in view.outgoing(node.id)) for node in view.of_type("parallel")}


def parallel_needs_fan_in(view: View) -> Iterator[Finding]:
    """All branches of a parallel block meet in one fan-in node, where a conflict is an outcome that edges can route.

    Without one, arc merges where the ways meet; a branch that leads elsewhere goes on alone, as far as the exit.
    """
    for node_id, branches in blocks(view).items():
        edges = view.outgoing(node_id)
        position = view.syntax.nodes[node_id].position
        if not branches:
            continue  # dead_end reports it
        if not any(branches):
            yield Finding(
                f"the branches of parallel node `{node_id}` meet in no fan-in node: a conflict between them cannot be routed",
                position,
                hint="lead every branch to one node of `type=parallel.fan_in` (or `shape=tripleoctagon`)",
            )
            continue
        for edge, meeting in zip(edges, branches, strict=True):
            if not meeting:
                yield Finding(
                    f"the branch of `{node_id}` that starts at `{edge.target}` never meets the others",
                    edge.position,
                    hint=f"lead it to the fan-in node {_names(frozenset().union(*branches))}",
                )
        together = [meeting for meeting in branches if meeting]
        if not frozenset.intersection(*together):
            yield Finding(
                f"the branches of parallel node `{node_id}` meet in different fan-in nodes: {_names(frozenset().union(*together))}",
                position,
                hint="lead every branch to the same one",
            )


def fan_in_without_parallel(view: View) -> Iterator[Finding]:
    """A fan-in node ends a parallel block."""
    closed = {fan_in for branches in blocks(view).values() for meeting in branches for fan_in in meeting}
    for node in view.of_type("parallel.fan_in"):
        if node.id not in closed:
            yield Finding(
                f"fan-in node `{node.id}` ends no parallel block: there is nothing to merge",
                node.position,
                hint="start the branches from one node of `type=parallel` (or `shape=component`)",
            )


def parallel_single_branch(view: View) -> Iterator[Finding]:
    """A parallel block has at least two branches."""
    for node in view.of_type("parallel"):
        if len(view.outgoing(node.id)) == 1:
            yield Finding(
                f"parallel node `{node.id}` has only one branch",
                node.position,
                hint="add an edge for each branch, or make it an ordinary node",
            )


def parallel_edge_conditions(view: View) -> Iterator[Finding]:
    """A condition on an edge of a parallel node decides whether that branch starts; if none starts, the block fails."""
    for node in view.of_type("parallel"):
        edges = view.outgoing(node.id)
        if edges and all(view.has_condition(edge) for edge in edges):
            yield Finding(
                f"every branch of parallel node `{node.id}` has a condition: if none of them holds, the block fails",
                edges[0].attributes["condition"].name_position,
                hint="leave one branch without a condition, or lead around the block from the node before it",
            )


def join_count_possible(view: View) -> Iterator[Finding]:
    """`k_of_n(N)` asks for no more branches than there are."""
    for node in view.of_type("parallel"):
        attribute = pick(node.attributes, "join_policy")
        match = _K_OF_N.match(text(node.attributes, "join_policy"))
        branches = len(view.outgoing(node.id))
        if attribute is not None and match and int(match[1]) > branches:
            yield Finding(
                f"`join_policy` of `{node.id}` waits for {match[1]} branches, but there are only {branches}",
                attribute.value_position,
            )


def _names(ids: frozenset[str]) -> str:
    return " or ".join(f"`{node_id}`" for node_id in sorted(ids))
