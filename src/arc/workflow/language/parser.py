"""From DOT text to `GraphSyntax`: the lark parser and the statements it makes.

The grammar is compiled at the first use, not at import, and kept; the compiled parser holds no state of a text: any thread may use it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from arc.workflow.language.errors import problem
from arc.workflow.language.literals import decode_string
from arc.workflow.language.scopes import build_graph
from arc.workflow.language.syntax import GraphSyntax
from arc.workflow.language.text import SourceText, decode_source
from arc.workflow.language.trees import AttributeTree, DefaultsTree, GraphTree, NodeTree, PathTree, SubgraphTree, ValueTree

if TYPE_CHECKING:
    from lark import Lark, Token

__all__ = ["decode_source", "parse_dot"]


def parse_dot(source: str, file: str) -> GraphSyntax:
    """Parse one `digraph`; `file` is the name used in positions.

    Raises:
        WorkflowError: not in the language (rule `syntax`), with the position and what was expected.
    """
    from lark.exceptions import UnexpectedInput

    from arc.workflow.language.syntax_errors import explain

    text = SourceText(source, file)
    if (nul := text.text.find("\0")) >= 0:
        position = text.at(nul)
        raise problem("syntax", "a NUL character is not allowed", position, text.line(position), hint="the file may be binary or UTF-16")
    try:
        tree = _parser().parse(text.text)
    except UnexpectedInput as error:
        raise explain(error, text) from None
    assert isinstance(tree, GraphTree)
    return build_graph(tree, text, source)


@cache
def _parser() -> Lark:
    from lark import Lark, Transformer

    class Builder(Transformer):  # type: ignore[type-arg]  # lark's class is not generic at run time
        """Called by the parser while it reduces: no parse tree is ever built. Each method receives the children of its rule."""

        def start(self, children: list[object]) -> GraphTree:
            keyword, *rest = children
            name = None if rest[0].type == "LBRACE" else rest[0]  # type: ignore[attr-defined]
            return GraphTree(keyword, name, rest[(1 if name is None else 2) : -1])  # type: ignore[arg-type]

        def assignment(self, children: list[Token | ValueTree]) -> AttributeTree:
            return AttributeTree(*children)  # type: ignore[arg-type]

        attribute = assignment

        def defaults(self, children: list[object]) -> DefaultsTree:
            return DefaultsTree(*children)  # type: ignore[arg-type]

        def path(self, children: list[object]) -> PathTree:
            if isinstance(children[-1], list):
                return PathTree(children[:-1], children[-1])  # type: ignore[arg-type]
            return PathTree(children, ())  # type: ignore[arg-type]

        def node(self, children: list[Token]) -> NodeTree:
            return NodeTree(children[0])

        def subgraph(self, children: list[object]) -> SubgraphTree:
            brace = next(index for index, child in enumerate(children) if getattr(child, "type", "") == "LBRACE")
            name = children[1] if brace == 2 else None
            statements = children[brace + 1 : -1]
            inner = (end.depth for each in statements if isinstance(each, PathTree) for end in each.ends if isinstance(end, SubgraphTree))
            return SubgraphTree(name, children[brace], statements, 1 + max(inner, default=0))  # type: ignore[arg-type]

        def attributes(self, children: list[AttributeTree]) -> list[AttributeTree]:
            return children

        def value(self, children: list[Token]) -> ValueTree:
            first = children[0]
            if first.type != "STRING":
                return ValueTree(first, None)
            return ValueTree(first, "".join(decode_string(token[1:-1]) for token in children))

    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", transformer=Builder(), maybe_placeholders=False)
