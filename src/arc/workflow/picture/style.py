"""How a workflow looks as a picture: a shape and tint per node type, a tint and a mark per status, and safe text for Graphviz."""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """Shape and colours of a node type. `word` is its caption; `wide` the characters per line of its title.

    `shape` is one of Graphviz, or `fork` (a box on a bar, as in activity diagrams) or `join` (a box below a bar).
    """

    word: str
    shape: str
    fill: str
    line: str
    style: str = "filled"
    ink: str = "#1c2430"
    soft: str = "#5b6572"
    wide: int = 26
    margin: str = "0.16,0.10"


LOOKS: dict[str, Look] = {
    "start": Look("start", "box", "#27323f", "#27323f", "filled,rounded", ink="#ffffff", soft="#c9d2dc"),
    "exit": Look("exit", "box", "#27323f", "#27323f", "filled,rounded", ink="#ffffff", soft="#c9d2dc"),
    "agent": Look("agent", "box", "#e6edfb", "#3b5ba9", "filled,rounded"),
    "prompt": Look("prompt", "note", "#f0f4fd", "#5f7cc0"),
    "command": Look("command", "box", "#f3f2ee", "#5d5b52"),
    "human": Look("human gate", "hexagon", "#fff0d2", "#a06400", wide=22, margin="0.02,0.08"),
    "conditional": Look("conditional", "diamond", "#f5eafa", "#7d4698", wide=16, margin="0.0,0.0"),
    "parallel": Look("parallel", "fork", "#dff3ef", "#1f7a6c"),
    "parallel.fan_in": Look("fan-in", "join", "#dff3ef", "#1f7a6c"),
    "wait": Look("wait", "ellipse", "#f2f4f6", "#7a838d", wide=22, margin="0.0,0.0"),
    "stack.manager_loop": Look("child workflow", "folder", "#fbe8ee", "#a63a5b"),
}
OTHER = Look("", "component", "#ffffff", "#4a5560")
"""A user's own node type; its caption is the type as written."""


@dataclass(frozen=True)
class Shade:
    """How a status looks. The mark and the word say the same as the colour, for those who do not see it."""

    mark: str
    word: str
    fill: str
    line: str
    dashed: bool = False


SHADES: dict[str, Shade] = {
    "success": Shade("✓", "success", "#d8f2df", "#1a7f37"),
    "partial_success": Shade("≈", "partial success", "#e9f5cd", "#5f7d0b"),
    "fail": Shade("✗", "failed", "#ffdfdb", "#c0281c"),
    "running": Shade("▶", "running", "#d6e8ff", "#0b5cad"),
    "waiting": Shade("?", "waiting for an answer", "#fff0c2", "#8f5f00"),
    "interrupted": Shade("!", "interrupted", "#f1e2ff", "#7437b0"),
    "retry": Shade("↻", "retry", "#fff0c2", "#8f5f00"),
    "skipped": Shade("»", "skipped", "#ebedf0", "#6a737d"),
    "canceled": Shade("⊘", "canceled", "#ebedf0", "#6a737d"),
    "pending": Shade("○", "not run", "#ffffff", "#aab2bb", dashed=True),
}

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def look_of(kind: str) -> Look:
    """The look of a node type; users' own types share one, with their name as caption."""
    look = LOOKS.get(kind)
    return look if look is not None else Look(kind, OTHER.shape, OTHER.fill, OTHER.line)


def escape(text: str) -> str:
    """Text for an HTML-like label: markup escaped, backslashes too (`\\N` would be the node's name), what XML does not allow replaced."""
    return html.escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text), quote=True).replace("\\", "\\\\")


def quoted(text: str) -> str:
    """A quoted DOT string that means exactly `text` (ids, tooltips): no escapes or entities are left to interpret."""
    clean = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return '"' + clean.replace("\r\n", "\n").replace("\n", "\\n").replace("\r", "\\n") + '"'


def columns(text: str) -> int:
    """How many terminal columns or average letters the text is wide: East Asian wide characters count 2, combining ones 0."""
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def wrapped(text: str, width: int, most: int) -> list[str]:
    """`text` in at most `most` lines of `width` columns, its own line breaks kept; what does not fit ends in an ellipsis."""
    lines: list[str] = []
    for paragraph in text.strip().splitlines():
        line = ""
        for word in paragraph.split() or [""]:
            while columns(word) > width:
                room = width - columns(line) - 1 if line else width
                if room < 4:
                    lines.append(line)
                    line = ""
                    continue
                head = cut(word, room)
                lines.append(f"{line} {head}".strip())
                line, word = "", word[len(head) :]
            if line and columns(line) + 1 + columns(word) > width:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}".strip()
        lines.append(line)
        if len(lines) > most:
            break
    if len(lines) > most:
        lines = lines[:most]
        lines[-1] = cut(lines[-1], width - 1).rstrip() + "…"
    return lines


def cut(text: str, width: int) -> str:
    """The longest beginning of `text` that is at most `width` columns wide."""
    if columns(text) <= width:
        return text
    used = 0
    for index, char in enumerate(text):
        used += columns(char)
        if used > width:
            return text[:index]
    return text


def duration(milliseconds: int) -> str:
    """A time as people say it: `340 ms`, `1.2 s`, `3 min 5 s`, `20 min`, `2 h 10 min`, `1 d`."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 59.95:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    for unit, length, small, part in (("min", 60, "s", 1), ("h", 3600, "min", 60), ("d", 86400, "h", 3600)):
        whole, rest = divmod(round(seconds / part), length // part)
        if unit == "d" or whole < (60 if unit == "min" else 24):
            return f"{whole} {unit} {rest} {small}" if rest else f"{whole} {unit}"
    raise AssertionError(milliseconds)
