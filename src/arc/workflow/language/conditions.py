"""The condition language of edges: parse once, before the run starts; evaluate against outcome and context.

    condition := and ( "||" and )*
    and       := unary ( "&&" unary )*
    unary     := "!" unary | "(" condition ")" | clause
    clause    := KEY [ operator value ]
    operator  := "=" | "==" | "!=" | "<" | ">" | "<=" | ">=" | "contains" | "matches"
    value     := bare word | 'quoted' | "quoted"

`!` negates a whole clause: `!outcome=success` is `!(outcome=success)`. docs/workflow-language.md explains keys and comparisons.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from arc.base.bounded import bounded_search
from arc.base.json import JsonValue
from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.text import Locator, PlainLocator
from arc.workflow.language.tokens import Token, TokenParser
from arc.workflow.outcome import STATUS_WORDS
from arc.workflow.values import Position

MAX_DEPTH = 64
"""Parentheses and `!` may be nested this deep."""

Operator = Literal["=", "!=", "<", ">", "<=", ">=", "contains", "matches"]


@dataclass(frozen=True)
class Facts:
    """What a condition may ask about."""

    outcome: str
    preferred_label: str
    context: Mapping[str, JsonValue]


@dataclass(frozen=True)
class Truth:
    """A bare key: true unless missing, empty, `false`, `0` or null."""

    key: str


@dataclass(frozen=True)
class Comparison:
    """`key operator value`; `pattern` is the compiled value of `matches`."""

    key: str
    operator: Operator
    value: str
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True)
class Not:
    """`!part`."""

    part: Expression


@dataclass(frozen=True)
class AllOf:
    """`a && b && c`."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class AnyOf:
    """`a || b || c`."""

    parts: tuple[Expression, ...]


Expression: TypeAlias = Truth | Comparison | Not | AllOf | AnyOf


@dataclass(frozen=True)
class Condition:
    """A parsed condition; `text` as written."""

    text: str
    expression: Expression

    def evaluate(self, facts: Facts) -> bool:
        """Whether it holds. Missing keys are empty, comparisons of unlike things are false.

        Raises:
            SearchTooLongError: a `matches` took too long (`arc.base.bounded`); nothing else is ever raised.
        """
        return _holds(self.expression, facts)

    def names(self) -> frozenset[str]:
        """The keys asked for, as written."""
        return frozenset(clause.key for clause in _clauses(self.expression))

    def outcomes(self) -> frozenset[str]:
        """The words that the outcome is compared with, as written."""
        clauses = _clauses(self.expression)
        return frozenset(each.value for each in clauses if isinstance(each, Comparison) and each.key in _OUTCOME_KEYS)


def parse_condition(
    text: str, position: Position, locator: Locator | None = None, expand: Callable[[str, int], str] | None = None
) -> Condition:
    """Parse a condition. `position` is where the text starts; `locator` gives exact places where the text is not verbatim in the file.

    `expand(value, offset)` replaces variables in the values compared with (after the structure is known: no value can change it).

    Raises:
        WorkflowError: rule `condition_syntax`; also for a `matches` pattern that is no regular expression.
    """
    return _Parser(text, locator or PlainLocator(text, position), expand or (lambda value, _: value)).parse()


# --- parsing ---------------------------------------------------------------------------------------------------------

_OUTCOME_KEYS = ("outcome", "context.outcome")
_WORD_OPERATORS = ("contains", "matches")
_SIGNS = ("=", "==", "!=", "<", ">", "<=", ">=")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[.:-][A-Za-z0-9_]+)*")
_TOKEN = re.compile(
    r"""\s*(?:(?P<sign>&&|\|\||==|!=|<=|>=|[=<>!()])|(?P<quoted>"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')|(?P<word>[^\s()&|!=<>"'][^\s()&|!=<>]*))""",
    re.DOTALL,
)
_QUOTED_ESCAPE = re.compile(r"""\\(["'\\])""")


class _Parser(TokenParser):
    """Recursive descent; depth is bounded, chains of `&&` and `||` are loops."""

    error_rule = "condition_syntax"
    language = "condition"
    depth = 0

    def tokenize(self) -> Iterator[Token]:
        offset = 0
        end = len(self.text.rstrip())
        while offset < end:
            match = _TOKEN.match(self.text, offset)
            if match is None:
                raise self.bad_character(offset)
            kind = match.lastgroup
            assert kind in ("sign", "quoted", "word")
            yield Token(kind, match[kind], match.start(kind))
            offset = match.end()
        yield Token("end", "", end)

    def bad_character(self, offset: int) -> WorkflowError:
        offset += len(self.text[offset:]) - len(self.text[offset:].lstrip())
        char = self.text[offset]
        if char in "&|":
            return self.error(f"single `{char}`", offset, hint=f"write `{char * 2}`")
        return self.error("this quote is never closed", offset)

    def unexpected(self, *expected: str, hint: str = "") -> WorkflowError:
        if not self.text.strip():
            return self.error("it is empty", self.token.offset, expected=expected, hint=hint)
        return super().unexpected(*expected, hint=hint)

    def parse(self) -> Condition:
        expression = self.any_of()
        if self.token.kind != "end":
            hint = ""
            if self.token.kind in ("word", "quoted"):
                hint = "a value with spaces must be quoted: context.key = 'two words'"
            raise self.unexpected("`&&`", "`||`", "the end of the condition", hint=hint)
        return Condition(self.text, expression)

    def any_of(self) -> Expression:
        parts = [self.all_of()]
        while self.accept("||"):
            parts.append(self.all_of())
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def all_of(self) -> Expression:
        parts = [self.unary()]
        while self.accept("&&"):
            parts.append(self.unary())
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def unary(self) -> Expression:
        offset = self.token.offset
        negated = self.accept("!")
        if not negated and not self.accept("("):
            return self.clause()
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"nested more than {MAX_DEPTH} deep", offset)
        if negated:
            expression: Expression = Not(self.unary())
        else:
            expression = self.any_of()
            if not self.accept(")"):
                raise self.unexpected("`)`", "`&&`", "`||`")
        self.depth -= 1
        return expression

    def clause(self) -> Expression:
        token = self.token
        if token.kind != "word":
            hint = "the key stands on the left, unquoted: outcome = success" if token.kind == "quoted" else ""
            raise self.unexpected("a key such as `outcome` or `context.name`", "`!`", "`(`", hint=hint)
        if not _KEY.fullmatch(token.text):
            raise self.error(f"`{token.text}` is not a key", token.offset, expected=("`outcome`", "`preferred_label`", "a context key"))
        self.index += 1
        operator = self.operator()
        if operator is None:
            return Truth(token.text)
        value = self.token
        if value.kind not in ("word", "quoted"):
            raise self.unexpected("a value (a word, or text in quotes)")
        self.index += 1
        text = _QUOTED_ESCAPE.sub(r"\1", value.text[1:-1]) if value.kind == "quoted" else value.text
        text = self.expand(text, value.offset + (value.kind == "quoted"))
        return Comparison(token.text, operator, text, self.pattern(text, value) if operator == "matches" else None)

    def operator(self) -> Operator | None:
        token = self.token
        found = token.text in (_SIGNS if token.kind == "sign" else _WORD_OPERATORS if token.kind == "word" else ())
        if not found:
            return None
        self.index += 1
        return "=" if token.text == "==" else token.text  # type: ignore[return-value]  # checked against the two tuples above

    def pattern(self, text: str, token: Token) -> re.Pattern[str]:
        start = token.offset + (token.kind == "quoted")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "possible nested set" and the like: the pattern still means something today
                return re.compile(text)
        except re.error as error:
            message = f"`{text}` is not a regular expression: {error.msg}"
            raise self.error(message, start + min(error.pos or 0, len(text))) from None
        except (RecursionError, OverflowError):
            raise self.error("the regular expression is too deeply nested or too large", start) from None


# --- evaluation ------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*", re.ASCII)
_MISSING = object()


def _clauses(expression: Expression) -> Iterator[Truth | Comparison]:
    match expression:
        case Not(part):
            yield from _clauses(part)
        case AllOf(parts) | AnyOf(parts):
            for each in parts:
                yield from _clauses(each)
        case _:
            yield expression


def _holds(expression: Expression, facts: Facts) -> bool:
    match expression:
        case AnyOf(parts):
            return any(_holds(part, facts) for part in parts)
        case AllOf(parts):
            return all(_holds(part, facts) for part in parts)
        case Not(part):
            return not _holds(part, facts)
        case Truth(key):
            found = _lookup(key, facts)
            return bool(found) if found is None or isinstance(found, list | dict) else _text(found) not in ("", "false", "0")
        case Comparison():
            return _compare(expression, _lookup(expression.key, facts))


def _compare(clause: Comparison, found: JsonValue) -> bool:
    text, value = _text(found), clause.value
    if clause.operator in ("=", "!="):
        if clause.key in _OUTCOME_KEYS:
            text, value = STATUS_WORDS.get(text, text), STATUS_WORDS.get(value, value)
        return (text == value) == (clause.operator == "=")
    if clause.operator == "contains":
        return any(_text(item) == value for item in found) if isinstance(found, list) else value in text
    if clause.operator == "matches":
        return clause.pattern is not None and bounded_search(clause.pattern, text)
    if not (_NUMBER.fullmatch(text) and _NUMBER.fullmatch(value)):
        return False
    left, right = float(text), float(value)
    return {"<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right}[clause.operator]


def _lookup(key: str, facts: Facts) -> JsonValue:
    """The value of a key; `""` if there is none."""
    if key == "outcome":
        return facts.outcome
    if key == "preferred_label":
        return facts.preferred_label
    found = _find(facts.context, key)
    if found is _MISSING and key.startswith("context."):
        found = _find(facts.context, key.removeprefix("context."))
    return "" if found is _MISSING else found  # type: ignore[return-value]  # not the sentinel


def _find(place: object, path: str) -> object:
    """The value at a dotted path: the longest literal key first, then down into objects, and into lists by index."""
    if isinstance(place, list):
        index, _, rest = path.partition(".")
        if not (index.isascii() and index.isdigit() and len(index) < 10 and int(index) < len(place)):
            return _MISSING
        return _find(place[int(index)], rest) if rest else place[int(index)]
    if not isinstance(place, Mapping):
        return _MISSING
    if path in place:
        return place[path]
    head = path
    while "." in head:
        head = head.rpartition(".")[0]
        if head in place:
            found = _find(place[head], path[len(head) + 1 :])
            if found is not _MISSING:
                return found
    return _MISSING


def _text(value: JsonValue) -> str:
    """Strings as they are, everything else as compact JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return ""
