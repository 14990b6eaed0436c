"""From statements to the graph: scoped defaults, derived classes, nodes made by edges, chains.

A node belongs where it is declared (`name [..]` or `name;`), or, if it never is, where an edge first names it: the defaults and
subgraphs of that place are its own. Statements work in the order of the file, as in DOT: defaults hold for what comes after them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, cast

from arc.workflow.language.attributes import Level, find_attribute
from arc.workflow.language.errors import WorkflowError, problem
from arc.workflow.language.literals import LiteralError, classify_word, decode_string
from arc.workflow.language.syntax import EdgeSyntax, GraphSyntax, NodeSyntax, SubgraphSyntax
from arc.workflow.language.text import SourceText
from arc.workflow.language.trees import AttributeTree, DefaultsTree, GraphTree, NodeTree, PathTree, StatementTree, SubgraphTree, ValueTree
from arc.workflow.values import Attribute, Position, Value

if TYPE_CHECKING:
    from lark import Token

MAX_NESTING = 64
"""Subgraphs may be nested this deep."""
MAX_EDGES = 100_000
"""Most edges in one workflow; edges between subgraphs multiply."""

_NODE_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_DROPPED_IN_CLASS = re.compile(r"[^a-z0-9_-]")


def build_graph(tree: GraphTree, text: SourceText, source: str) -> GraphSyntax:
    """Apply the statements of a parsed digraph; `source` is the text as given.

    Raises:
        WorkflowError: rule `syntax`: a bad node id, key or number, or subgraphs nested too deep.
    """
    return _Builder(text).graph(tree, source)


@dataclass
class _Node:
    id: str
    position: Position
    declared: bool
    defaults: dict[str, Attribute]
    classes: tuple[str, ...]
    own: dict[str, Attribute] = field(default_factory=dict)


@dataclass
class _Subgraph:
    name: str
    label: str
    attributes: dict[str, Attribute]
    nodes: dict[str, None] = field(default_factory=dict)


@dataclass
class _Scope:
    """What is in force at a point of the text. `around` are the subgraphs from the outermost in; `named` collects node ids used here."""

    node_defaults: dict[str, Attribute]
    edge_defaults: dict[str, Attribute]
    attributes: dict[str, Attribute]
    classes: tuple[str, ...]
    around: tuple[_Subgraph, ...]
    named: dict[str, None]


class _Builder:
    def __init__(self, text: SourceText) -> None:
        self.text = text
        self.nodes: dict[str, _Node] = {}
        self.edges: list[EdgeSyntax] = []
        self.subgraphs: list[_Subgraph] = []
        self.named_subgraphs: dict[str, _Subgraph] = {}
        self.homes: dict[str, tuple[_Subgraph, ...]] = {}
        self.repeated: list[tuple[Attribute, Attribute]] = []

    def graph(self, tree: GraphTree, source: str) -> GraphSyntax:
        scope = _Scope({}, {}, {}, (), (), {})
        self.statements(tree.statements, scope)
        for node, around in self.homes.items():
            for subgraph in around:
                subgraph.nodes[node] = None
        return GraphSyntax(
            name=_name(tree.name) or "workflow",
            file=self.text.file,
            source=source,
            attributes=scope.attributes,
            nodes={node.id: self.finish(node) for node in self.nodes.values()},
            edges=tuple(self.edges),
            subgraphs=tuple(SubgraphSyntax(each.name, each.label, tuple(each.nodes), each.attributes) for each in self.subgraphs),
            position=self.position(tree.keyword),
            repeated=tuple(self.repeated),
        )

    def finish(self, node: _Node) -> NodeSyntax:
        attributes = {**node.defaults, **node.own}
        explicit = attributes.get("class")
        classes = re.split(r"[\s,]+", str(explicit.value).strip()) if explicit else []
        merged = tuple(dict.fromkeys(name for name in (*classes, *node.classes) if name))
        return NodeSyntax(node.id, node.position, attributes, merged, node.declared)

    def statements(self, statements: Sequence[StatementTree], scope: _Scope) -> None:
        for statement in statements:
            if isinstance(statement, PathTree):
                self.path(statement, scope)
            elif isinstance(statement, DefaultsTree):
                target = {"node": scope.node_defaults, "edge": scope.edge_defaults, "graph": scope.attributes}[str(statement.kind)]
                level = cast(Level, str(statement.kind))
                target.update(self.attributes(statement.attributes, level))
            else:
                scope.attributes.update(self.attributes((statement,), "graph"))

    def path(self, path: PathTree, scope: _Scope) -> None:
        ends = path.ends
        if len(ends) == 1:
            end = ends[0]
            if isinstance(end, SubgraphTree):
                if path.attributes:
                    key = path.attributes[0].key
                    raise self.error("a subgraph takes no attribute list", key, hint="write `graph [...]` inside the subgraph's braces")
                self.subgraph(end, scope)
                return
            self.declare(end.token, self.attributes(path.attributes, "node"), scope)
            return
        attributes = {**scope.edge_defaults, **self.attributes(path.attributes, "edge")}
        groups = [self.end(end, scope) for end in ends]
        for (sources, position), (targets, _) in pairwise(groups):
            if len(self.edges) + len(sources) * len(targets) > MAX_EDGES:
                raise problem("syntax", f"more than {MAX_EDGES:,} edges", position, self.text.line(position))
            for source in sources:
                for target in targets:
                    self.edges.append(EdgeSyntax(source, target, position, attributes, len(self.edges)))

    def end(self, end: NodeTree | SubgraphTree, scope: _Scope) -> tuple[tuple[str, ...], Position]:
        """The node ids at one end of an edge, and where it stands."""
        if isinstance(end, SubgraphTree):
            return self.subgraph(end, scope), self.position(end.brace)
        node_id = self.node_id(end.token)
        position = self.position(end.token)
        if node_id not in self.nodes:
            self.nodes[node_id] = _Node(node_id, position, False, dict(scope.node_defaults), scope.classes)
            self.homes[node_id] = scope.around
        scope.named[node_id] = None
        return (node_id,), position

    def declare(self, token: Token, attributes: dict[str, Attribute], scope: _Scope) -> None:
        node_id = self.node_id(token)
        node = self.nodes.get(node_id)
        if node is None or not node.declared:
            node = _Node(node_id, self.position(token), True, dict(scope.node_defaults), scope.classes)
            self.nodes[node_id] = node
            self.homes[node_id] = scope.around
        node.own.update(attributes)
        scope.named[node_id] = None

    def subgraph(self, tree: SubgraphTree, scope: _Scope) -> tuple[str, ...]:
        """Apply a subgraph; the ids of all nodes named in it."""
        if tree.depth > MAX_NESTING:
            raise self.error(f"subgraphs are nested more than {MAX_NESTING} deep", tree.brace)
        label = self.label(tree)
        name = _name(tree.name)
        record = self.named_subgraphs.get(name)
        if record is None:
            record = _Subgraph(name, label, {})
            self.subgraphs.append(record)
            if name:  # a second `subgraph NAME` goes on with the first one, as in DOT
                self.named_subgraphs[name] = record
        record.label = label or record.label
        derived = derived_class(record.label)
        inner = _Scope(
            dict(scope.node_defaults),
            dict(scope.edge_defaults),
            record.attributes,
            (*scope.classes, derived) if derived else scope.classes,
            (*scope.around, record),
            {},
        )
        self.statements(tree.statements, inner)
        scope.named.update(inner.named)
        return tuple(inner.named)

    def label(self, tree: SubgraphTree) -> str:
        """The subgraph's own label, which may follow the nodes that take their class from it."""
        label = ""
        for statement in tree.statements:
            pairs: Iterable[AttributeTree] = ()
            if isinstance(statement, AttributeTree):
                pairs = (statement,)
            elif isinstance(statement, DefaultsTree) and statement.kind == "graph":
                pairs = statement.attributes
            for pair in pairs:
                if _name(pair.key) == "label":
                    label = pair.value.token if pair.value.string is None else pair.value.string
        return str(label)

    def attributes(self, pairs: Iterable[AttributeTree], level: Level) -> dict[str, Attribute]:
        """The attributes of one list; of one that is given twice, the last."""
        found: dict[str, Attribute] = {}
        meant: dict[str, Attribute] = {}
        for attribute in map(self.attribute, pairs):
            spec = find_attribute(level, attribute.name)
            name = spec.name if spec is not None else attribute.name
            if name in meant and meant[name].value != attribute.value:
                self.repeated.append((meant[name], attribute))
            meant[name] = found[attribute.name] = attribute
        return found

    def attribute(self, pair: AttributeTree) -> Attribute:
        key, value = pair.key, pair.value
        name = _name(key)
        if not _KEY.fullmatch(name):
            raise self.error(
                f"`{name}` is not an attribute name",
                key,
                expected=("letters, digits and `_`, not starting with a digit; parts may be joined by `.`",),
            )
        return Attribute(name, self.value(value), self.position(key), self.position(value.token), value.string is not None)

    def value(self, tree: ValueTree) -> Value:
        if tree.string is not None:
            return tree.string
        word = str(tree.token)
        if word.endswith(":"):
            raise self.error(f"`{word}` ends with `:`", tree.token, hint="put a value such as a URL in double quotes")
        try:
            return classify_word(word)
        except LiteralError as error:
            raise self.error(str(error), tree.token) from None

    def node_id(self, token: Token) -> str:
        name = _name(token)
        if _NODE_ID.fullmatch(name):
            return name
        hint = ""
        if token.type == "WORD" and (name.endswith("-") or "--" in name):
            hint = "edges are written `->`"
        elif token.type == "WORD" and ":" in name:
            hint = "ports (`node:port`) are not supported"
        raise self.error(f"`{name}` is not a node id", token, expected=("letters, digits and `_`, not starting with a digit",), hint=hint)

    def position(self, token: Token) -> Position:
        return Position(self.text.file, token.line or 1, token.column or 1)

    def error(self, message: str, token: Token, *, expected: tuple[str, ...] = (), hint: str = "") -> WorkflowError:
        position = self.position(token)
        return problem("syntax", message, position, self.text.line(position), expected=expected, hint=hint)


def derived_class(label: str) -> str:
    """The class that the nodes of a subgraph get from its label: lower case, spaces to `-`, other characters dropped."""
    return _DROPPED_IN_CLASS.sub("", re.sub(r"\s+", "-", label.strip().lower()))


def _name(token: Token | None) -> str:
    if token is None:
        return ""
    return decode_string(token[1:-1]) if token.type == "STRING" else str(token)
