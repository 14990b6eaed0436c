"""Widths in cells of a terminal: wide characters take two, combining ones none; filling up, cutting and breaking lines by them."""

from __future__ import annotations

import unicodedata
from typing import Literal


def cells(text: str) -> int:
    """How many cells of a terminal a text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def pad(text: str, width: int, *, right: bool = False) -> str:
    """`text` filled up to `width` cells."""
    space = " " * max(0, width - cells(text))
    return space + text if right else text + space


def cut(text: str, width: int, end: Literal["left", "right"] = "left") -> str:
    """`text` in at most `width` cells, its `end` kept, with `…` where something is missing."""
    if cells(text) <= width:
        return text
    if width < 1:
        return ""
    kept, room = "", width - 1
    for char in text if end == "left" else reversed(text):
        room -= _cells(char)
        if room < 0:
            break
        kept += char
    return kept + "…" if end == "left" else "…" + kept[::-1]


def wrap(text: str, width: int, *, before: int = 0) -> list[str]:
    """The words of `text` in lines of at most `width` cells, the first with room for `before` cells in front; long words stay whole."""
    lines: list[str] = []
    line, room = "", width - before
    for word in text.split(" "):
        if line and cells(word) > room - 1:
            lines.append(line)
            line, room = "", width
        line = f"{line} {word}" if line else word
        room -= cells(word) + (1 if line != word else 0)
    return [*lines, line]
