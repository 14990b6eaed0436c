"""The graph as parsed: nodes, edges and attributes with their positions, defaults and derived classes already applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from arc.workflow.values import Attribute, Position


@dataclass(frozen=True)
class NodeSyntax:
    """A node. `attributes` holds its own and the inherited `node [...]` defaults; `classes` the explicit ones and those derived
    from the labels of the subgraphs around it, outermost first. `declared` is False if it only appears in edges."""

    id: str
    position: Position
    attributes: Mapping[str, Attribute]
    classes: tuple[str, ...]
    declared: bool


@dataclass(frozen=True)
class EdgeSyntax:
    """One edge (a chain `a -> b -> c` gives two). `index` is its place in the file, from 0."""

    source: str
    target: str
    position: Position
    attributes: Mapping[str, Attribute]
    index: int


@dataclass(frozen=True)
class SubgraphSyntax:
    """A subgraph, kept for the picture: nodes that belong in it (those of inner subgraphs too), and its own attributes."""

    name: str
    label: str
    nodes: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True)
class GraphSyntax:
    """One `digraph`. Mappings keep the order of the file."""

    name: str
    file: str
    source: str
    attributes: Mapping[str, Attribute]
    nodes: Mapping[str, NodeSyntax]
    edges: tuple[EdgeSyntax, ...]
    subgraphs: tuple[SubgraphSyntax, ...]
    position: Position
    repeated: tuple[tuple[Attribute, Attribute], ...] = ()
    """Attributes that one list gives twice with different values, under one name or two spellings of it: the first, the one that counts."""
