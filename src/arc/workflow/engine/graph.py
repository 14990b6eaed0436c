"""A workflow indexed for walking: edges by source, reachability. Pure; built once per workflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from arc.workflow.model import Edge, Node, Workflow


class Graph:
    """`Workflow` scans its edges at each question; a walk of thousands of visits asks this index instead."""

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        out: dict[str, list[Edge]] = {name: [] for name in workflow.nodes}
        for edge in workflow.edges:
            out.setdefault(edge.source, []).append(edge)
        self._out = {name: tuple(edges) for name, edges in out.items()}
        self.joins: dict[str, str | None] = {}
        """Joins of parallel blocks already looked up (`joins.join_of`)."""
        self._edges = {edge.index: edge for edge in workflow.edges}

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self.workflow.nodes

    def outgoing(self, node_id: str) -> tuple[Edge, ...]:
        """Edges that leave a node, in the order of the file."""
        return self._out.get(node_id, ())

    def edge(self, index: int | None) -> Edge | None:
        """The edge with that index in the file."""
        return None if index is None else self._edges.get(index)

    def reachable(self, starts: Iterable[str], stops: frozenset[str] = frozenset()) -> frozenset[str]:
        """Nodes that a walk from `starts` can enter without entering a stop (the starts included, unless they are stops)."""
        seen: set[str] = set()
        waiting = [start for start in starts if start not in stops]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            waiting.extend(edge.target for edge in self.outgoing(node) if edge.target not in stops)
        return frozenset(seen)
