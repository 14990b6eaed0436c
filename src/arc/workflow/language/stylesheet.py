"""The model stylesheet: which model, provider, effort and backend nodes get, by type, class and id.

    stylesheet := rule*
    rule       := selector ( "," selector )* "{" [ property ( ";" property )* [ ";" ] ] "}"
    selector   := "*" | type or shape | "." class | "#" node-id
    property   := name ":" value          value: a bare word, or text in quotes

`#id` wins over `.class`, `.class` over a type or shape, that over `*`; of equal ones the later wins. Comments are `/* ... */`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from arc.workflow.language.attributes import SHAPES, TYPE_WORDS, did_you_mean
from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.text import Locator, PlainLocator
from arc.workflow.language.tokens import Token, TokenParser
from arc.workflow.values import Position

PROPERTIES: Mapping[str, str] = {
    "llm_model": "model",
    "model": "model",
    "llm_provider": "provider",
    "provider": "provider",
    "reasoning_effort": "reasoning_effort",
    "backend": "backend",
    "max_tokens": "max_tokens",
}
"""Property as written → field of `ModelChoice`."""

_EFFORTS = ("low", "medium", "high")
_SPECIFICITY = {"*": 0, "type": 1, "class": 2, "id": 3}
_TOKEN = re.compile(
    r"""(?:\s|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*(?:(?P<sign>[{}:;,*])|(?P<quoted>"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')"""
    r"""|(?P<word>[.#]?[^\s{};:,*"'/#]+(?:[:/][^\s{};:,*"'/#]+)*)|(?P<end>\Z))""",
    re.DOTALL,
)
_SELECTOR = re.compile(r"[.#]?[A-Za-z_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Selector:
    """What a rule applies to; `name` is a node type for kind `type`, empty for `*`. `position` is where it stands."""

    kind: Literal["*", "type", "class", "id"]
    name: str
    position: Position

    def matches(self, node_id: str, node_type: str, classes: Iterable[str]) -> bool:
        match self.kind:
            case "*":
                return True
            case "type":
                return self.name == node_type
            case "class":
                return self.name in classes
            case "id":
                return self.name == node_id


@dataclass(frozen=True)
class Rule:
    """Properties (as fields of `ModelChoice`) for the nodes that one of the selectors matches."""

    selectors: tuple[Selector, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True)
class Stylesheet:
    """Rules in the order of the text."""

    rules: tuple[Rule, ...] = field(default=())

    def properties(self, node_id: str, node_type: str, classes: Iterable[str]) -> dict[str, str]:
        """What the rules give a node, by field of `ModelChoice` (`max_tokens` as digits)."""
        classes = tuple(classes)
        found: list[tuple[int, Mapping[str, str]]] = []
        for rule in self.rules:
            levels = [_SPECIFICITY[each.kind] for each in rule.selectors if each.matches(node_id, node_type, classes)]
            if levels:
                found.append((max(levels), rule.properties))
        result: dict[str, str] = {}
        for _, properties in sorted(found, key=lambda item: item[0]):
            result.update(properties)
        return result


def parse_stylesheet(
    text: str, position: Position, locator: Locator | None = None, expand: Callable[[str, int], str] | None = None
) -> Stylesheet:
    """Parse a stylesheet. `position`, `locator` as in `parse_condition`; `expand(value, offset)` replaces variables in values.

    Raises:
        WorkflowError: rule `stylesheet_syntax`.
    """
    return _Parser(text, locator or PlainLocator(text, position), expand or (lambda value, _: value)).parse()


class _Parser(TokenParser):
    error_rule = "stylesheet_syntax"
    language = "stylesheet"

    def tokenize(self) -> Iterator[Token]:
        offset = 0
        while True:
            match = _TOKEN.match(self.text, offset)
            if match is None or match.lastgroup is None:
                raise self.bad_character(offset)
            kind = match.lastgroup
            yield Token(kind, match[kind], match.start(kind))
            if kind == "end":
                return
            offset = match.end()

    def bad_character(self, offset: int) -> WorkflowError:
        skipped = re.compile(r"(?:\s|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*").match(self.text, offset)
        offset = skipped.end() if skipped else offset
        rest = self.text[offset : offset + 2]
        if rest == "/*":
            return self.error("this comment is never closed", offset, hint="end it with `*/`")
        if rest[:1] in "\"'":
            return self.error("this quote is never closed", offset)
        return self.error(f"unexpected character `{rest[:1]}`", offset)

    def parse(self) -> Stylesheet:
        rules = []
        while self.token.kind != "end":
            rules.append(self.rule())
        return Stylesheet(tuple(rules))

    def rule(self) -> Rule:
        selectors = [self.selector()]
        while self.accept(","):
            selectors.append(self.selector())
        if not self.accept("{"):
            raise self.unexpected("`{`", "`,`")
        properties: dict[str, str] = {}
        while not self.accept("}"):
            if self.accept(";"):
                continue
            name, value = self.property()
            properties[name] = value
            if not self.accept(";") and self.token.text != "}":
                raise self.unexpected("`;`", "`}`")
        return Rule(tuple(selectors), properties)

    def selector(self) -> Selector:
        token = self.token
        position = self.locator.at(token.offset)
        if self.accept("*"):
            return Selector("*", "", position)
        if token.kind != "word" or not _SELECTOR.fullmatch(token.text):
            raise self.unexpected("a selector: `*`, a node type or shape, `.class` or `#node`")
        self.index += 1
        name = token.text
        if name[0] == ".":
            return Selector("class", name[1:], position)
        if name[0] == "#":
            return Selector("id", name[1:], position)
        return Selector("type", SHAPES.get(name) or TYPE_WORDS.get(name, name), position)

    def property(self) -> tuple[str, str]:
        token = self.token
        if token.kind != "word":
            raise self.unexpected("a property", "`}`")
        # `name:value` without a space is one word, for the sake of values such as `vendor:model`
        name, colon, _ = token.text.partition(":")
        field_name = PROPERTIES.get(name)
        if field_name is None:
            hint = did_you_mean(name, PROPERTIES)
            raise self.error(f"unknown property `{name}`", token.offset, expected=tuple(f"`{each}`" for each in PROPERTIES), hint=hint)
        if colon:
            self.tokens[self.index] = Token("word", token.text[len(name) + 1 :], token.offset + len(name) + 1)
        else:
            self.index += 1
            if not self.accept(":"):
                raise self.unexpected("`:`")
        value = self.token
        if value.kind not in ("word", "quoted"):
            raise self.unexpected("a value")
        self.index += 1
        return field_name, self.value(field_name, value)

    def value(self, field_name: str, token: Token) -> str:
        raw = re.sub(r"""\\(["'\\])""", r"\1", token.text[1:-1]) if token.kind == "quoted" else token.text
        value = self.expand(raw, token.offset + (token.kind == "quoted"))
        if field_name == "reasoning_effort" and value not in _EFFORTS:
            raise self.error(f"`{value}` is not a reasoning effort", token.offset, expected=tuple(f"`{each}`" for each in _EFFORTS))
        if field_name == "max_tokens" and not (value.isascii() and value.isdigit() and 0 < len(value) < 10 and int(value)):
            raise self.error(f"`{value}` is not a number of tokens", token.offset, expected=("an integer, at least 1",))
        return value
