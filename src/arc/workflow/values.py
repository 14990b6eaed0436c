"""Positions and typed attribute values, shared by the parser, the lint rules and the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, order=True)
class Position:
    """A place in a source file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Duration:
    """A duration literal such as `250ms`, `15m`, `2h`; `text` is the literal as written."""

    milliseconds: int
    text: str

    @property
    def seconds(self) -> float:
        return self.milliseconds / 1000

    def __str__(self) -> str:
        return self.text


Value: TypeAlias = str | int | float | bool | Duration


@dataclass(frozen=True)
class Attribute:
    """One attribute as written: its value, where the name and the value start, and whether the value was quoted."""

    name: str
    value: Value
    name_position: Position
    value_position: Position
    quoted: bool


Severity = Literal["error", "warning", "notice"]


@dataclass(frozen=True)
class Diagnostic:
    """One finding about a source text: rule id, severity, position, the offending line, what was expected or what to do."""

    rule: str
    severity: Severity
    message: str
    position: Position
    source_line: str = ""
    expected: tuple[str, ...] = ()
    hint: str = ""
