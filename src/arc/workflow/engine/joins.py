"""Where the branches of a parallel block come together. Pure; looked up once per block and graph.

The join is the nearest `parallel.fan_in` at the block's own nesting depth: walking from the branch targets, a further `parallel` opens a
depth and a `parallel.fan_in` closes it. Of several, the one that most branches lead to, then the nearest, then the first in the file. A
block without such a fan-in ends where all its branches that reach the exit must pass: their nearest common post-dominator.
"""

from __future__ import annotations

from collections import deque

from arc.workflow.engine.graph import Graph

MAX_NESTING = 16
"""Depths looked through; loops through a `parallel` node would otherwise never end."""


def join_of(graph: Graph, node_id: str) -> str | None:
    """The join of the parallel block `node_id`; None if its branches neither meet nor reach the exit."""
    if node_id not in graph.joins:
        targets = tuple(dict.fromkeys(edge.target for edge in graph.outgoing(node_id)))
        fan_in = _nearest_fan_in(graph, targets)
        graph.joins[node_id] = fan_in if fan_in is not None else _post_dominator(graph, targets)
    return graph.joins[node_id]


def _nearest_fan_in(graph: Graph, targets: tuple[str, ...]) -> str | None:
    distances: dict[str, list[int]] = {}
    own_depth: set[str] = set()
    for target in targets:
        for fan_in, (distance, at_own_depth) in _fan_ins(graph, target).items():
            distances.setdefault(fan_in, []).append(distance)
            if at_own_depth:
                own_depth.add(fan_in)
    order = {name: place for place, name in enumerate(graph.nodes)}
    return min(own_depth, key=lambda name: (-len(distances[name]), max(distances[name]), order[name]), default=None)


def _fan_ins(graph: Graph, start: str) -> dict[str, tuple[int, bool]]:
    """Fan-ins that a walk from `start` meets: distance, and whether one way meets it with no inner block open."""
    found: dict[str, tuple[int, bool]] = {}
    seen: set[tuple[str, int]] = set()
    waiting = deque([(start, 0, 0)])
    while waiting:
        name, depth, distance = waiting.popleft()
        if (name, depth) in seen or depth > MAX_NESTING:
            continue
        seen.add((name, depth))
        kind = graph.nodes[name].type
        if kind == "parallel.fan_in":
            first, own = found.get(name, (distance, False))
            found[name] = (first, own or depth == 0)
            if depth == 0:
                continue
            depth -= 1
        elif kind == "parallel":
            depth += 1
        waiting.extend((edge.target, depth, distance + 1) for edge in graph.outgoing(name))
    return found


def _post_dominator(graph: Graph, targets: tuple[str, ...]) -> str | None:
    leave = graph.workflow.exit
    starts = tuple(target for target in targets if leave in graph.reachable((target,)))
    if not starts:
        return None
    waiting, seen = deque(starts), set[str]()
    while waiting:  # breadth first, so the first node found is the nearest
        name = waiting.popleft()
        if name in seen:
            continue
        seen.add(name)
        if all(leave not in graph.reachable((start,), frozenset({name})) for start in starts):
            return name
        waiting.extend(edge.target for edge in graph.outgoing(name))
    return None
