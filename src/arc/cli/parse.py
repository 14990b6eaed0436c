"""`arc parse`: the syntax tree of a workflow as JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arc.base.errors import NotFoundError
from arc.base.json import JsonObject
from arc.cli import ui

if TYPE_CHECKING:
    from arc.workflow.language.syntax import GraphSyntax
    from arc.workflow.values import Attribute, Position

File = Annotated[str, typer.Argument(metavar="FILE", help="A workflow (`.dot`); `-` is stdin")]


def command(file: File) -> None:
    """Print a workflow as arc reads it

    The answer is always JSON: graph, nodes, edges and subgraphs with all attributes, defaults applied, and where each of them stands.
    Nothing is looked up or checked beyond the grammar; `arc validate` does that.

    \b
    Examples:
      arc parse review.dot
      arc parse review.dot | jq '.nodes | keys'
    """
    from arc.workflow.language.parser import parse_dot
    from arc.workflow.language.text import decode_source

    name = "<stdin>" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise NotFoundError(f"`{file}` cannot be read: {error.strerror}") from error
    ui.json(document(parse_dot(decode_source(data, name), name)))


def document(syntax: GraphSyntax) -> JsonObject:
    """The tree as plain values."""
    return {
        "file": syntax.file,
        "name": syntax.name,
        "position": _place(syntax.position),
        "attributes": _attributes(syntax.attributes),
        "nodes": {
            node.id: {
                "declared": node.declared,
                "position": _place(node.position),
                "classes": list(node.classes),
                "attributes": _attributes(node.attributes),
            }
            for node in syntax.nodes.values()
        },
        "edges": [
            {
                "index": edge.index,
                "source": edge.source,
                "target": edge.target,
                "position": _place(edge.position),
                "attributes": _attributes(edge.attributes),
            }
            for edge in syntax.edges
        ],
        "subgraphs": [{"name": part.name, "label": part.label, "nodes": list(part.nodes)} for part in syntax.subgraphs],
    }


def _attributes(attributes: Mapping[str, Attribute]) -> JsonObject:
    return {name: _attribute(attribute) for name, attribute in attributes.items()}


def _attribute(attribute: Attribute) -> JsonObject:
    value = attribute.value
    if isinstance(value, str | int | float):
        kind = (
            "boolean"
            if isinstance(value, bool)
            else "string"
            if isinstance(value, str)
            else "integer"
            if isinstance(value, int)
            else "float"
        )
        plain: JsonObject = {"value": value, "kind": kind}
    else:
        plain = {"value": value.text, "kind": "duration", "milliseconds": value.milliseconds}
    return {**plain, "position": _place(attribute.value_position)}


def _place(position: Position) -> JsonObject:
    return {"line": position.line, "column": position.column}
