"""Tables: what is kept whole, what is cut, what goes first; widths in cells; nothing that a terminal would obey."""

from __future__ import annotations

import pytest

from arc.cli import ui
from arc.cli.run_view import CHECKPOINT_COLUMNS
from arc.cli.table import Column, table_lines
from arc.cli.width import cells, cut, pad, wrap
from tests.cli.conftest import Screen

ROW = ["@12", "fan:left/build_the_whole_thing", "partial success", "", "1m02s", "3ac32664", "12", "20:26:25"]
OTHER = ["@3", "plan", "success", "", "0.4s", "66b4fc4a", "", "20:26:20"]


@pytest.fixture(autouse=True)
def _plain(screen: Screen) -> None:
    """No colours."""


def names(width: int | None) -> list[str]:
    return table_lines(CHECKPOINT_COLUMNS, [ROW, OTHER], width=width)[0].split()


def test_without_a_terminal_all_columns_are_there_whole() -> None:
    assert names(None) == ["at", "node", "status", "tries", "took", "commit", "files", "taken"]


def test_columns_without_a_value_go_first_then_the_least_valuable() -> None:
    assert names(200) == ["at", "node", "status", "tries", "took", "commit", "files", "taken"]
    assert names(92) == ["at", "node", "status", "took", "commit", "files", "taken"]
    assert names(80) == ["at", "node", "status", "took", "commit", "files"]
    assert names(70) == ["at", "node", "status", "commit", "files"]
    assert names(62) == ["at", "node", "status", "commit"]


@pytest.mark.parametrize("width", range(45, 100, 5))
def test_target_status_and_commit_are_whole_at_every_width(width: int) -> None:
    lines = table_lines(CHECKPOINT_COLUMNS, [ROW, OTHER], width=width)
    assert all(len(line) <= width for line in lines)
    assert lines[1].startswith("@12  fan:left")
    assert "partial success  " in lines[1]
    assert "3ac32664" in lines[1]


def test_a_narrow_node_column_is_the_last_to_be_cut() -> None:
    assert "fan:left/build_the_whole_thing" in table_lines(CHECKPOINT_COLUMNS, [ROW], width=62)[1]
    assert table_lines(CHECKPOINT_COLUMNS, [ROW], width=52)[1] == "@12  fan:left/build_the_…  partial success  3ac32664"


def test_paths_keep_their_end() -> None:
    columns = (Column("run", fixed=True), Column("where", least=8, end="right"))
    assert table_lines(columns, [["01", "/home/me/src/project"]], width=15) == ["run  where", "01   …c/project"]


def test_wide_characters_keep_columns_in_line() -> None:
    assert [cells(text) for text in ("plan", "計画", "e\u0301", "🙂")] == [4, 4, 1, 2]
    lines = table_lines((Column("node"), Column("status")), [["計画", "a"], ["plan", "b"]])
    assert lines[1:] == ["計画  a", "plan  b"]
    assert cut("計画計画", 5) == "計画…"
    assert cut("計画計画", 4) == "計…"
    assert pad("計", 4) == "計  "


def test_a_very_long_name_is_cut_before_columns_are_left_out() -> None:
    long = [ROW[0], "x" * 200, *ROW[2:]]
    line = table_lines(CHECKPOINT_COLUMNS, [long, OTHER], width=110)[1]
    assert line.split() == ["@12", "x" * 53 + "…", "partial", "success", "1m02s", "3ac32664", "12", "20:26:25"]


def test_words_are_wrapped_by_cells() -> None:
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("one two three", 9, before=4) == ["one", "two three"]
    assert wrap("計画 計画 a", 9) == ["計画 計画", "a"]
    assert wrap("x" * 20 + " y", 9) == ["x" * 20, "y"]
    assert wrap("", 9) == [""]


def test_a_cell_is_one_line_without_control_characters() -> None:
    (line,) = table_lines((Column("node"),), [["a\x1b[2Jb\nc\x9b3m\u202ed"]])[1:]
    assert line == "a\ufffd[2Jb c\ufffd3m\ufffdd"


def test_right_columns_and_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ui.state, "color", "always")
    lines = table_lines((Column("n", right=True), Column("x")), [["1", "a"], ["22", ""]], [["bold", "red"], ["", "red"]])
    assert lines == ["\033[1m n\033[0m  \033[1mx\033[0m".replace("\033[1m n", " \033[1mn"), " \033[1m1\033[0m  \033[31ma\033[0m", "22"]
