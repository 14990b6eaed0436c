"""Where each key of a TOML text stands: `tomllib` gives values without positions, an error message needs both.

Works on texts that `tomllib` has accepted, so it only has to find its way, not to judge: tables, arrays of tables, dotted and
quoted keys, all four kinds of strings, arrays, inline tables, comments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KeyPath = tuple[str | int, ...]
"""Keys from the top; the elements of arrays (of tables or of values) are counted from 0."""

_BARE_END = frozenset(" \t\r\n=.[]{},#\"'")


@dataclass(frozen=True)
class Place:
    """Line and column, from 1 (columns count characters), of a key and of its value; both the header's place for a table."""

    line: int
    column: int
    value_line: int
    value_column: int


def locate(text: str) -> Mapping[KeyPath, Place]:
    """The place of every table, key and array element of a valid TOML text."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.document()
    return scanner.places


class _Scanner:
    """One pass over the text; `at` is the offset of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.places: dict[KeyPath, Place] = {}
        self._arrays: dict[KeyPath, int] = {}

    def document(self) -> None:
        table: KeyPath = ()
        while True:
            self._blank(newlines=True)
            if self.at >= len(self.text):
                return
            start = self.at
            if self.text.startswith("[[", start):
                self.at += 2
                table = self._header("]]", element=True)
                self._mark(table, start, start)
            elif self.text[start] == "[":
                self.at += 1
                table = self._header("]", element=False)
                self._mark(table, start, start)
            else:
                self._pair(table)

    def _header(self, end: str, *, element: bool) -> KeyPath:
        path = self._inside(self._key())
        self.at = self.text.index(end, self.at) + len(end)
        if not element:
            return path
        count = self._arrays.get(path, 0)
        self._arrays[path] = count + 1
        return (*path, count)

    def _inside(self, keys: tuple[str, ...]) -> KeyPath:
        """The keys of a header as a path: what is an array of tables means its last element (not the named one itself)."""
        path: KeyPath = ()
        for number, key in enumerate(keys):
            path = (*path, key)
            if number < len(keys) - 1 and path in self._arrays:
                path = (*path, self._arrays[path] - 1)
        return path

    def _pair(self, table: KeyPath) -> None:
        start = self.at
        path: KeyPath = (*table, *self._key())
        self._blank(newlines=False)
        self.at += 1  # the equals sign
        self._blank(newlines=False)
        self._mark(path, start, self.at)
        self._value(path)

    def _mark(self, path: KeyPath, key: int, value: int) -> None:
        for length in range(1, len(path)):
            self.places.setdefault(path[:length], self._place(key, key))
        self.places[path] = self._place(key, value)

    def _place(self, key: int, value: int) -> Place:
        return Place(*self._line_column(key), *self._line_column(value))

    def _line_column(self, offset: int) -> tuple[int, int]:
        before = self.text.rfind("\n", 0, offset)
        return self.text.count("\n", 0, offset) + 1, offset - before

    def _blank(self, *, newlines: bool) -> None:
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in " \t" or (newlines and character in "\r\n"):
                self.at += 1
            elif character == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def _key(self) -> tuple[str, ...]:
        parts = []
        while True:
            self._blank(newlines=False)
            if self.text[self.at] in "\"'":
                start = self.at
                self._string()
                raw = self.text[start + 1 : self.at - 1]
                parts.append(_unescape(raw) if self.text[start] == '"' else raw)
            else:
                start = self.at
                while self.at < len(self.text) and self.text[self.at] not in _BARE_END:
                    self.at += 1
                parts.append(self.text[start : self.at])
            self._blank(newlines=False)
            if self.at < len(self.text) and self.text[self.at] == ".":
                self.at += 1
                continue
            return tuple(parts)

    def _value(self, path: KeyPath) -> None:
        first = self.text[self.at]
        if first in "\"'":
            self._string()
        elif first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        else:
            while self.at < len(self.text) and self.text[self.at] not in ",]}\n#":
                self.at += 1

    def _string(self) -> None:
        quote = self.text[self.at]
        triple = quote * 3
        if self.text.startswith(triple, self.at):
            self.at += 3
            while not self.text.startswith(triple, self.at):
                self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
            self.at += 3
            while self.at < len(self.text) and self.text[self.at] == quote:  # up to two quotes may stand before the end
                self.at += 1
            return
        self.at += 1
        while self.text[self.at] != quote:
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += 1

    def _array(self, path: KeyPath) -> None:
        self.at += 1
        number = 0
        while True:
            self._blank(newlines=True)
            if self.text[self.at] == "]":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._mark((*path, number), self.at, self.at)
            self._value((*path, number))
            number += 1

    def _inline_table(self, path: KeyPath) -> None:
        self.at += 1
        while True:
            self._blank(newlines=True)
            if self.text[self.at] == "}":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._pair(path)


def _unescape(raw: str) -> str:
    """A basic string's content as a key. Keys with escapes are rare: let the library read them."""
    if "\\" not in raw:
        return raw
    import tomllib

    return next(iter(tomllib.loads(f'"{raw}" = 0')))
