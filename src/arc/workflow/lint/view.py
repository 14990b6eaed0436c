"""What a lint rule looks at: the syntax tree, the resolved workflow where there is one, and the shape of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from arc.workflow.language.attributes import SHAPES, TYPE_WORDS, WELL_KNOWN_IDS
from arc.workflow.language.conditions import Condition, parse_condition
from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.syntax import EdgeSyntax, GraphSyntax, NodeSyntax
from arc.workflow.language.text import SourceText, ValueLocator
from arc.workflow.model import Workflow
from arc.workflow.values import Attribute, Position


@dataclass(frozen=True)
class Finding:
    """What a rule found: a sentence without final period, the exact place, and what to do about it."""

    message: str
    position: Position
    hint: str = ""
    expected: tuple[str, ...] = ()


@dataclass(frozen=True)
class View:
    """One graph under examination. `workflow` is None while the graph has errors: rules then see the syntax only."""

    syntax: GraphSyntax
    workflow: Workflow | None

    @cached_property
    def types(self) -> Mapping[str, str]:
        """Node id -> canonical node type (or the unknown word as written)."""
        if self.workflow is not None:
            return {node.id: node.type for node in self.workflow.nodes.values()}
        types = {node.id: canonical_type(node) for node in self.syntax.nodes.values()}
        for kind in ("start", "exit"):  # `node [shape=box]` also reaches a node called `start`: then its id decides
            if kind not in types.values():
                types.update({node_id: kind for node_id in types if WELL_KNOWN_IDS.get(node_id) == kind})
        return types

    @cached_property
    def start(self) -> str | None:
        """The start node, or None if there is not exactly one."""
        return self._only("start")

    @cached_property
    def exit(self) -> str | None:
        """The exit node, or None if there is not exactly one."""
        return self._only("exit")

    def _only(self, kind: str) -> str | None:
        found = [node_id for node_id, node_type in self.types.items() if node_type == kind]
        return found[0] if len(found) == 1 else None

    @cached_property
    def _outgoing(self) -> Mapping[str, tuple[EdgeSyntax, ...]]:
        return _group(self.syntax.edges, by_source=True)

    @cached_property
    def _incoming(self) -> Mapping[str, tuple[EdgeSyntax, ...]]:
        return _group(self.syntax.edges, by_source=False)

    def outgoing(self, node_id: str) -> tuple[EdgeSyntax, ...]:
        """Edges that leave a node, in the order of the file."""
        return self._outgoing.get(node_id, ())

    def incoming(self, node_id: str) -> tuple[EdgeSyntax, ...]:
        """Edges that enter a node, in the order of the file."""
        return self._incoming.get(node_id, ())

    def of_type(self, *kinds: str) -> Iterator[NodeSyntax]:
        """The nodes of these types, in the order of the file."""
        return (node for node in self.syntax.nodes.values() if self.types.get(node.id) in kinds)

    @cached_property
    def conditions(self) -> Mapping[int, Condition]:
        """Edge index -> its condition; edges with a condition that cannot be read are left out (`condition_syntax` reports them)."""
        if self.workflow is not None:
            return {edge.index: edge.condition for edge in self.workflow.edges if edge.condition is not None}
        found: dict[int, Condition] = {}
        for edge in self.syntax.edges:
            attribute = edge.attributes.get("condition")
            if attribute is None or not str(attribute.value).strip():
                continue
            try:
                found[edge.index] = parse_condition(str(attribute.value), attribute.value_position)
            except WorkflowError:
                continue
        return found

    def has_condition(self, edge: EdgeSyntax) -> bool:
        """Whether the edge carries a condition, readable or not."""
        attribute = edge.attributes.get("condition")
        return attribute is not None and bool(str(attribute.value).strip())

    def inside(self, attribute: Attribute, offset: int) -> Position:
        """The place of one character of an attribute's (decoded) text."""
        if not isinstance(attribute.value, str):
            return attribute.value_position
        return self.locator(attribute).at(offset)

    def locator(self, attribute: Attribute) -> ValueLocator:
        """Places inside an attribute's text."""
        return ValueLocator(self._text, attribute)

    @cached_property
    def _text(self) -> SourceText:
        return SourceText(self.syntax.source, self.syntax.file)

    def jumps(self, node_id: str) -> tuple[str, ...]:
        """Where routing may go from this node besides its edges: the retry targets that apply to it."""
        own = [text(self.syntax.nodes[node_id].attributes, name) for name in RETRY_NAMES]
        targets = own if any(own) else [text(self.syntax.attributes, name) for name in RETRY_NAMES]
        return tuple(target for target in targets if target in self.syntax.nodes)

    def reached_from(self, starts: Iterable[str], *, jumps: bool = True) -> set[str]:
        """All nodes that a walk from `starts` can come to, them included."""
        reached: set[str] = set()
        waiting = [node_id for node_id in starts if node_id in self.syntax.nodes]
        while waiting:
            node_id = waiting.pop()
            if node_id in reached:
                continue
            reached.add(node_id)
            waiting.extend(edge.target for edge in self.outgoing(node_id))
            if jumps:
                waiting.extend(self.jumps(node_id))
        return reached

    def reaching(self, target: str) -> set[str]:
        """All nodes from which a walk can come to `target`, it included."""
        backward: dict[str, list[str]] = {}
        for node_id in self.syntax.nodes:
            for successor in [*(edge.target for edge in self.outgoing(node_id)), *self.jumps(node_id)]:
                backward.setdefault(successor, []).append(node_id)
        reached: set[str] = set()
        waiting = [target]
        while waiting:
            node_id = waiting.pop()
            if node_id not in reached:
                reached.add(node_id)
                waiting.extend(backward.get(node_id, ()))
        return reached


RETRY_NAMES = ("retry_target", "fallback_retry_target")


def canonical_type(node: NodeSyntax) -> str:
    """The node's type from `type`, `shape` or its id (for graphs that `arc.workflow.language.resolve` could not read)."""
    word = text(node.attributes, "type")
    if word:
        return TYPE_WORDS.get(word, word)
    return SHAPES.get(text(node.attributes, "shape")) or WELL_KNOWN_IDS.get(node.id, "agent")


def _group(edges: Iterable[EdgeSyntax], *, by_source: bool) -> dict[str, tuple[EdgeSyntax, ...]]:
    groups: dict[str, list[EdgeSyntax]] = {}
    for edge in edges:
        groups.setdefault(edge.source if by_source else edge.target, []).append(edge)
    return {node_id: tuple(group) for node_id, group in groups.items()}


def pick(attributes: Mapping[str, Attribute], *names: str) -> Attribute | None:
    """The first of these attributes that is given (aliases in order of preference)."""
    return next((attributes[name] for name in names if name in attributes), None)


def text(attributes: Mapping[str, Attribute], *names: str) -> str:
    """The trimmed text of the first of these attributes, "" if none is given."""
    attribute = pick(attributes, *names)
    return "" if attribute is None else str(attribute.value).strip()


def flag(attributes: Mapping[str, Attribute], name: str) -> bool:
    """Whether a boolean attribute is given and true (quoted "true" counts)."""
    attribute = attributes.get(name)
    return attribute is not None and (attribute.value is True or str(attribute.value).strip().lower() == "true")


def place(attributes: Mapping[str, Attribute], names: tuple[str, ...], otherwise: Position) -> Position:
    """Where the value of the first given attribute starts, or `otherwise`."""
    attribute = pick(attributes, *names)
    return otherwise if attribute is None else attribute.value_position
