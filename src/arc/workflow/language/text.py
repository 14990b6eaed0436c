"""Source texts: decoding, lines, and the way from an offset (also inside a quoted string) to a position."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import Protocol

from arc.workflow.language.errors import problem
from arc.workflow.language.literals import literal_offsets
from arc.workflow.values import Attribute, Position


class Locator(Protocol):
    """Knows where the characters of some text stand in a file."""

    def at(self, offset: int) -> Position:
        """The position of the character at `offset` (the text's length gives its end)."""
        ...

    def line(self, position: Position) -> str:
        """The source line of that position."""
        ...


class SourceText:
    """A file's text with lines. A byte order mark is dropped; CRLF and lone CR count as line ends and become LF in `text`."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line) + 1)
        return starts[:-1]

    def at(self, offset: int) -> Position:
        index = bisect_right(self._starts, max(offset, 0)) - 1
        return Position(self.file, index + 1, offset - self._starts[index] + 1)

    def offset(self, position: Position) -> int:
        """The reverse of `at`; positions outside the text are moved to its nearest end."""
        if position.line > len(self._starts):
            return len(self.text)
        return min(self._starts[max(position.line, 1) - 1] + position.column - 1, len(self.text))

    def line(self, position: Position) -> str:
        return self.lines[position.line - 1] if 1 <= position.line <= len(self.lines) else ""


class PlainLocator:
    """Places in a text that stands verbatim (no escapes) in a file from `position` on."""

    def __init__(self, text: str, position: Position) -> None:
        self._text = SourceText(text, position.file)
        self._start = position

    def at(self, offset: int) -> Position:
        inner = self._text.at(offset)
        column = inner.column + (self._start.column - 1 if inner.line == 1 else 0)
        return Position(inner.file, self._start.line + inner.line - 1, column)

    def line(self, position: Position) -> str:
        index = position.line - self._start.line
        if not 0 <= index < len(self._text.lines):
            return ""
        return " " * (self._start.column - 1) * (index == 0) + self._text.lines[index]


class ValueLocator:
    """Places in an attribute's decoded string value, found by reading its literal in the source again (only needed for findings)."""

    def __init__(self, source: SourceText, attribute: Attribute) -> None:
        self._source = source
        self._attribute = attribute

    @cached_property
    def _offsets(self) -> list[int]:
        """For each decoded character the source offset it comes from, then the end of the literal."""
        start = self._source.offset(self._attribute.value_position)
        if not self._attribute.quoted:
            return list(range(start, start + len(str(self._attribute.value)) + 1))
        return literal_offsets(self._source.text, start)

    def at(self, offset: int) -> Position:
        offsets = self._offsets
        return self._source.at(offsets[min(max(offset, 0), len(offsets) - 1)])

    def line(self, position: Position) -> str:
        return self._source.line(position)


def decode_source(data: bytes, file: str) -> str:
    """Decode a workflow or prompt file as UTF-8 (with or without byte order mark).

    Raises:
        WorkflowError: not UTF-8 (rule `syntax`); names the line and column of the first bad byte.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Everything before the bad byte is valid, so it can be decoded to count characters.
        good = SourceText(data[: error.start].decode("utf-8-sig", errors="replace"), file)
        position = good.at(len(good.text))
        hint = "save the file as UTF-8"
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            hint = "the file looks like UTF-16; save it as UTF-8"
        message = f"byte 0x{data[error.start]:02x} is not valid UTF-8"
        raise problem("syntax", message, position, good.line(position), hint=hint) from error
