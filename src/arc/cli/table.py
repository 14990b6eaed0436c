"""Tables for terminals of any width: what names a thing stays whole, and the least valuable columns go first.

    at  node   status   commit
    @1  build  success  3ac32664

Into a pipe or file a table is never cut. On a terminal that is too narrow, in this order: columns without any value go; columns that may
be cut are cut, down to their least width; columns with an `order` are left out, the highest first; only then are others cut.
Widths are counted in cells of the terminal, so that wide characters stay in line (`arc.cli.width`).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from arc.cli import ui
from arc.cli.width import cells, cut

GAP = 2
_NARROWEST = 8


@dataclass(frozen=True)
class Column:
    """`least`: it may be cut to that many cells (None: only as a last resort); `order`: when it is left out (0 never, highest first);
    `end`: which end of a long value is worth keeping; `fixed`: never cut, whatever happens."""

    name: str
    right: bool = False
    least: int | None = None
    order: int = 0
    end: Literal["left", "right"] = "left"
    fixed: bool = False


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], styles: Sequence[Sequence[str]] = ()) -> None:
    """Print rows under headed columns on stdout. `styles[row][column]` are the names of styles (`ui.style`), empty for none."""
    width = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else None
    for line in table_lines(columns, rows, styles, width=width):
        ui.out(line)


def table_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], styles: Sequence[Sequence[str]] = (), *, width: int | None = None
) -> list[str]:
    """The lines of a table that fits into `width` cells (None: whatever it needs)."""
    cleaned = [[ui.visible(cell, newlines=False) for cell in row] for row in rows]
    widths = [max(cells(row[index]) for row in [[column.name for column in columns], *cleaned]) for index, column in enumerate(columns)]
    empty = {index for index in range(len(columns)) if not any(row[index] for row in cleaned)}
    fitted = dict(enumerate(widths)) if width is None else fit(columns, widths, width, empty)
    lines = [_line(columns, fitted, [column.name for column in columns], ["bold"] * len(columns))]
    for number, row in enumerate(cleaned):
        lines.append(_line(columns, fitted, row, styles[number] if number < len(styles) else ()))
    return lines


def fit(columns: Sequence[Column], widths: Sequence[int], room: int, empty: set[int]) -> dict[int, int]:
    """Column -> width of those that are shown, so that they fit into `room` cells. `empty` have no value in any row."""
    chosen = list(range(len(columns)))
    if _sum(widths[index] for index in chosen) > room:
        chosen = [index for index in chosen if index not in empty]
    while True:
        found = {index: widths[index] for index in chosen}
        _narrow(found, {index: least for index in chosen if (least := columns[index].least) is not None}, room)
        going = [index for index in chosen if columns[index].order]
        if _sum(found.values()) <= room:
            return found
        if not going:
            _narrow(found, {index: _NARROWEST for index in chosen if not columns[index].fixed}, room)
            return found
        chosen.remove(max(going, key=lambda index: columns[index].order))


def _sum(widths: Iterable[int]) -> int:
    found = list(widths)
    return sum(found) + GAP * (len(found) - 1)


def _narrow(widths: dict[int, int], least: dict[int, int], room: int) -> None:
    """Take cells from the widest column that has more than its least, one by one, until all fit."""
    while _sum(widths.values()) > room:
        able = [index for index, limit in least.items() if widths[index] > limit]
        if not able:
            return
        widths[max(able, key=lambda index: widths[index])] -= 1


def _line(columns: Sequence[Column], widths: dict[int, int], row: Sequence[str], styles: Sequence[str]) -> str:
    parts = []
    last = max(widths)
    for index, width in widths.items():
        text = cut(row[index], width, columns[index].end)
        style = styles[index] if index < len(styles) else ""
        space = " " * (width - cells(text))
        styled = ui.style(text, style) if style and text else text
        if columns[index].right:
            parts.append(space + styled)
        else:
            parts.append(styled if index == last else styled + space)
    return (" " * GAP).join(parts).rstrip()
