"""Reads typed values out of attributes: variables expanded, wrong types and values reported with their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from arc.workflow.language.attributes import (
    DRAWING,
    ENVIRONMENT_PREFIX,
    AttributeSpec,
    Level,
    did_you_mean,
    find_attribute,
    levels_of,
    names_at,
)
from arc.workflow.language.conditions import Condition, parse_condition
from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.literals import LiteralError, classify_word
from arc.workflow.language.text import Locator, SourceText, ValueLocator
from arc.workflow.language.variables import Variables
from arc.workflow.model import Fidelity, JoinKind, JoinPolicy
from arc.workflow.values import Attribute, Diagnostic, Duration, Position, Severity, Value

R = TypeVar("R")
T = TypeVar("T")

_UNEXPANDED = ("script", "dot", "stylesheet", "condition")
_JOIN = re.compile(r"(wait_all|first_success)|k_of_n\(\s*([0-9]{1,6})\s*\)|quorum\(\s*([0-9.]{1,12})\s*\)")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Findings:
    """Collects diagnostics; the same finding (a default that many nodes inherit) is kept once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Position, str], Diagnostic] = {}

    def add(self, finding: Diagnostic) -> None:
        self._found.setdefault((finding.rule, finding.position, finding.message), finding)

    def extend(self, error: WorkflowError) -> None:
        for finding in error.diagnostics:
            self.add(finding)

    @property
    def all(self) -> tuple[Diagnostic, ...]:
        return tuple(self._found.values())

    @property
    def failed(self) -> bool:
        return any(finding.severity == "error" for finding in self._found.values())


class ShiftedLocator:
    """Places in a part of a text that starts at `offset` of another one."""

    def __init__(self, inner: Locator, offset: int) -> None:
        self._inner = inner
        self._offset = offset

    def at(self, offset: int) -> Position:
        return self._inner.at(self._offset + offset)

    def line(self, position: Position) -> str:
        return self._inner.line(position)


class Reader:
    """Reads the attributes of one source text. Inherited attributes are read once, however many nodes have them."""

    def __init__(self, source: SourceText, findings: Findings, variables: Variables) -> None:
        self.source = source
        self.findings = findings
        self.variables = variables
        self._expanded: dict[tuple[Position, str], Value] = {}
        self._unknown: set[tuple[str, str]] = set()
        self._conditions: dict[Position, Condition | None] = {}

    def report(
        self, rule: str, severity: Severity, message: str, position: Position, *, expected: tuple[str, ...] = (), hint: str = ""
    ) -> None:
        """Add a finding about this source."""
        self.findings.add(Diagnostic(rule, severity, message, position, self.source.line(position), expected, hint))

    def locator(self, attribute: Attribute) -> ValueLocator:
        """Places inside the attribute's value."""
        return ValueLocator(self.source, attribute)

    def expanded(self, level: Level, attribute: Attribute) -> Value:
        """The value with variables replaced, where its kind has them."""
        if not isinstance(attribute.value, str) or not ("$" in attribute.value or "{{" in attribute.value):
            return attribute.value
        key = (attribute.value_position, attribute.name)
        if key not in self._expanded:
            spec = find_attribute(level, attribute.name)
            raw = spec is not None and spec.kind in _UNEXPANDED
            self._expanded[key] = attribute.value if raw else self.variables.expand(attribute.value, self.locator(attribute))
        return self._expanded[key]

    def values(self, level: Level, attributes: Mapping[str, Attribute]) -> Values:
        """Typed access to the attributes of one thing; reports the unknown ones."""
        for name, attribute in attributes.items():
            if find_attribute(level, name) is None and (level, name) not in self._unknown:
                self._report_unknown(level, name, attribute)
        return Values(self, level, attributes)

    def _report_unknown(self, level: Level, name: str, attribute: Attribute) -> None:
        self._unknown.add((level, name))
        if name in DRAWING or (level == "graph" and name in ("shape",)) or (level == "node" and name.startswith(ENVIRONMENT_PREFIX)):
            return
        hint = did_you_mean(name, names_at(level))
        if not hint and (others := levels_of(name)):
            hint = f"`{name}` is an attribute of the {others[0]}" if others[0] == "graph" else f"`{name}` is an attribute of {others[0]}s"
        self.report("unknown_attribute", "notice", f"unknown {level} attribute `{name}` is kept", attribute.name_position, hint=hint)

    def condition(self, attribute: Attribute) -> Condition | None:
        """The parsed condition; None if it is wrong (reported)."""
        key = attribute.value_position
        if key not in self._conditions:
            locator = self.locator(attribute)
            try:
                self._conditions[key] = parse_condition(_as_text(attribute.value), key, locator, self.expander(locator))
            except WorkflowError as error:
                self.findings.extend(error)
                self._conditions[key] = None
        return self._conditions[key]

    def expander(self, locator: Locator) -> Callable[[str, int], str]:
        """Expands variables in parts of a text, given with their offset."""
        return lambda text, offset: self.variables.expand(text, ShiftedLocator(locator, offset))


class _ValueProblem(Exception):  # carries what to report, never leaves this module
    def __init__(self, expected: str, *, message: str = "", hint: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.message = message
        self.hint = hint


class Values:
    """Typed access to the attributes of one graph, node or edge. A wrong value is reported and the default returned."""

    def __init__(self, reader: Reader, level: Level, attributes: Mapping[str, Attribute]) -> None:
        self._reader = reader
        self._level: Level = level
        self._attributes = attributes

    def attribute(self, name: str) -> Attribute | None:
        """The attribute under its canonical name or an alias; if several are written, the last one of the file."""
        found = None
        for each in (name, *self._spec(name).aliases):
            attribute = self._attributes.get(each)
            if attribute and (found is None or attribute.name_position > found.name_position):
                found = attribute
        return found

    def text(self, name: str, default: str = "") -> str:
        return self._read(name, lambda value, _: _as_text(value), default)

    def optional_text(self, name: str) -> str | None:
        """The text; None if not given or empty."""
        return self.text(name) or None

    def integer(self, name: str, default: T) -> int | T:
        return self._read(name, _integer, default)

    def boolean(self, name: str, default: bool) -> bool:
        return self._read(name, _boolean, default)

    def milliseconds(self, name: str, default: T) -> int | T:
        return self._read(name, _milliseconds, default)

    def choice(self, name: str, default: T) -> str | T:
        return self._read(name, _choice, default)

    def fidelity(self, name: str) -> Fidelity | None:
        return cast("Fidelity | None", self._read(name, _choice, None, rule="fidelity_valid"))

    def join_policy(self, name: str) -> JoinPolicy:
        return self._read(name, _join_policy, JoinPolicy())

    def condition(self, name: str) -> Condition | None:
        attribute = self.attribute(name)
        return self._reader.condition(attribute) if attribute else None

    def environment(self, name: str) -> dict[str, str]:
        """`environment` and all `env.KEY`; the latter win."""
        result: dict[str, str] = self._read(name, _environment, {})
        for each, attribute in self._attributes.items():
            if each.startswith(ENVIRONMENT_PREFIX):
                result[each.removeprefix(ENVIRONMENT_PREFIX)] = _as_text(self._reader.expanded(self._level, attribute))
        return result

    def as_written(self) -> dict[str, Value]:
        """All attributes, variables expanded."""
        return {name: self._reader.expanded(self._level, attribute) for name, attribute in self._attributes.items()}

    def _spec(self, name: str) -> AttributeSpec:
        spec = find_attribute(self._level, name)
        assert spec is not None, name
        return spec

    def _read(self, name: str, convert: Callable[[Value, AttributeSpec], R], default: T, *, rule: str = "attribute_value") -> R | T:
        attribute = self.attribute(name)
        if attribute is None:
            return default
        spec = self._spec(name)
        value = self._reader.expanded(self._level, attribute)
        try:
            return convert(value, spec)
        except _ValueProblem as wrong:
            message = wrong.message or f"`{_short(_as_text(value))}` cannot be the value of `{attribute.name}`"
            self._reader.report(rule, "error", message, attribute.value_position, expected=(wrong.expected,), hint=wrong.hint)
            return default


def _as_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _short(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 60 and line == text else line[:59] + "…"


def _plain(value: Value) -> Value:
    """A quoted `"3"`, `"true"` or `"15m"` means the same as the bare one."""
    if isinstance(value, str) and value.strip():
        try:
            return classify_word(value.strip())
        except LiteralError:
            return value
    return value


def _integer(value: Value, spec: AttributeSpec) -> int:
    plain = _plain(value)
    if isinstance(plain, bool) or not isinstance(plain, int) or (spec.minimum is not None and plain < spec.minimum):
        raise _ValueProblem(spec.accepts)
    return plain


def _boolean(value: Value, spec: AttributeSpec) -> bool:
    plain = _plain(value)
    if not isinstance(plain, bool):
        raise _ValueProblem(spec.accepts)
    return plain


def _milliseconds(value: Value, spec: AttributeSpec) -> int:
    plain = _plain(value)
    if isinstance(plain, Duration):
        return plain.milliseconds
    if isinstance(plain, bool) or not isinstance(plain, int | float) or not 0 <= plain < 2**53:
        raise _ValueProblem(spec.accepts)
    return round(plain * 1000)


def _choice(value: Value, spec: AttributeSpec) -> str:
    text = _as_text(value)
    if text not in spec.choices:
        raise _ValueProblem(spec.accepts, hint=did_you_mean(text, spec.choices))
    return text


def _join_policy(value: Value, spec: AttributeSpec) -> JoinPolicy:
    match = _JOIN.fullmatch(_as_text(value).strip())
    if match is None:
        raise _ValueProblem(spec.accepts)
    if match[1]:
        return JoinPolicy(cast("JoinKind", match[1]))
    if match[2]:
        count = int(match[2])
        if count < 1:
            raise _ValueProblem(spec.accepts, message="`k_of_n` needs at least one branch")
        return JoinPolicy("k_of_n", count=count)
    try:
        fraction = float(match[3])
    except ValueError:
        fraction = 0.0
    if not 0 < fraction <= 1:
        raise _ValueProblem(spec.accepts, message=f"`{match[3]}` is not a fraction above 0 and at most 1")
    return JoinPolicy("quorum", fraction=fraction)


def _environment(value: Value, spec: AttributeSpec) -> dict[str, str]:
    text = _as_text(value)
    result = {}
    for part in text.split("\n" if "\n" in text else ","):
        if not part.strip():
            continue
        key, equals, content = part.strip().partition("=")
        if not equals or not _VARIABLE_NAME.fullmatch(key.strip()):
            raise _ValueProblem(spec.accepts, message=f"`{_short(part.strip())}` is not `KEY=VALUE`")
        result[key.strip()] = content
    return result
