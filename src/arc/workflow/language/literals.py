r"""Literals of the DOT subset: quoted strings with escapes, and the types of bare words.

In a quoted string `\"`, `\\`, `\n` and `\t` are escapes and a backslash at the end of a line joins it with the next one.
Any other backslash stays as it is, so that `\d` in a pattern need not be doubled.
"""

from __future__ import annotations

import math
import re

from arc.workflow.values import Duration, Value

UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
INT_LIMIT = 2**63 - 1
"""Largest integer and longest duration (in milliseconds) that a workflow may contain."""

_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "\n": ""}
_ESCAPE = re.compile(r'\\(["\\nt\n])')
_INT = re.compile(r"-?[0-9]+")
_FLOAT = re.compile(r"-?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE]-?[0-9]+)?")
_DURATION = re.compile(r"([0-9]+)(ms|s|m|h|d)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_BETWEEN = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/|(?<=\n)#[^\n]*)*\+(?:\s|//[^\n]*|/\*.*?\*/|(?<=\n)#[^\n]*)*(?=\")", re.DOTALL)


class LiteralError(ValueError):
    """A number or duration that is too large; the message says so."""


def decode_string(inner: str) -> str:
    """The value of what stands between the quotes."""
    if "\\" not in inner:
        return inner
    return _ESCAPE.sub(lambda match: _ESCAPES[match[1]], inner)


def literal_offsets(text: str, start: int) -> list[int]:
    """Source offsets of the decoded characters of the string literal (or `+` chain of literals) at `start`, then of its end."""
    offsets: list[int] = []
    end = start
    while match := _STRING.match(text, start):
        position, end = match.start(1), match.end(1)
        while position < end:
            escape = _ESCAPE.match(text, position, end)
            width = 2 if escape else 1
            if escape is None or _ESCAPES[escape[1]]:
                offsets.append(position)
            position += width
        following = _BETWEEN.match(text, match.end())
        if following is None:
            break
        start = following.end()
    offsets.append(end)
    return offsets


def classify_word(word: str) -> Value:
    """The typed value of a bare word: int, float, bool, duration, otherwise the word itself.

    Raises:
        LiteralError: a number outside 64 bits, or an infinite one.
    """
    first = word[0]
    if first.isdigit() or first in "-.":
        return _classify_number(word)
    if word == "true":
        return True
    if word == "false":
        return False
    return word


def _classify_number(word: str) -> Value:
    if _INT.fullmatch(word):
        return _bounded(word, "integer")
    if _FLOAT.fullmatch(word):
        value = float(word)
        if math.isinf(value):
            raise LiteralError(f"number `{_short(word)}` is too large")
        return value
    return parse_duration(word) or word


def parse_duration(text: str) -> Duration | None:
    """`250ms`, `90s`, `15m`, `2h`, `1d`; None if the text is no duration.

    Raises:
        LiteralError: longer than 2**63 ms.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    milliseconds = _bounded(match[1], "duration") * UNIT_MS[match[2]]
    if milliseconds > INT_LIMIT:
        raise LiteralError(f"duration `{_short(text)}` is too long")
    return Duration(milliseconds, text)


def _bounded(digits: str, what: str) -> int:
    # int() itself refuses more than 4,300 digits with a ValueError
    if len(digits) > 20 or abs(int(digits)) > INT_LIMIT:
        raise LiteralError(f"{what} `{_short(digits)}` is too large")
    return int(digits)


def _short(text: str) -> str:
    return text if len(text) <= 24 else text[:20] + "…"
