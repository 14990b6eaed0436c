"""What the parser makes of each statement, before scopes and defaults are applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lark import Token


@dataclass(frozen=True, slots=True)
class ValueTree:
    """A value: its first token, and for strings the decoded text (None for a bare word)."""

    token: Token
    string: str | None


@dataclass(frozen=True, slots=True)
class AttributeTree:
    """`key = value`, in a list or as a statement."""

    key: Token
    value: ValueTree


@dataclass(frozen=True, slots=True)
class DefaultsTree:
    """`node [...]`, `edge [...]`, `graph [...]`; `kind` is the keyword."""

    kind: Token
    attributes: Sequence[AttributeTree]


@dataclass(frozen=True, slots=True)
class NodeTree:
    """A node id, alone or as the end of an edge."""

    token: Token


@dataclass(frozen=True, slots=True)
class SubgraphTree:
    """`subgraph NAME { ... }` or `{ ... }`; `depth` counts the subgraphs nested in it, itself included."""

    name: Token | None
    brace: Token
    statements: Sequence[StatementTree]
    depth: int


@dataclass(frozen=True, slots=True)
class PathTree:
    """`a`, or a chain `a -> b -> c`, with the attributes that follow."""

    ends: Sequence[NodeTree | SubgraphTree]
    attributes: Sequence[AttributeTree]


@dataclass(frozen=True, slots=True)
class GraphTree:
    """The whole digraph; `keyword` is the token `digraph`."""

    keyword: Token
    name: Token | None
    statements: Sequence[StatementTree]


StatementTree = AttributeTree | DefaultsTree | PathTree
