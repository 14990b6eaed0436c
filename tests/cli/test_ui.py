"""What `arc.cli.ui` writes: tables that fit, plans, questions that nobody can be asked."""

from __future__ import annotations

import pytest

from arc.base.errors import ExitStatus, RefusedError
from arc.cli import ui
from arc.workspace.plan import Conflict, Gap, Plan, Step
from tests.cli.conftest import Screen


def test_narrow_columns_stay_whole_when_a_table_does_not_fit() -> None:
    assert ui.fitted([8, 11, 40, 30], 70) == [8, 11, 25, 26]
    assert ui.fitted([8, 11], 70) == [8, 11]
    assert ui.fitted([20, 20], 10) == [8, 8]


def test_a_table_that_is_not_on_a_terminal_is_never_cut(screen: Screen, capsys: pytest.CaptureFixture[str]) -> None:
    ui.table(["name", "n"], [["x" * 200, "1"], ["y", "22"]], right=["n"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "x" * 200 + "   1"
    assert lines[2].split() == ["y", "22"]


def test_nobody_to_ask_is_a_refusal_that_names_the_option() -> None:
    with pytest.raises(RefusedError) as caught:
        ui.confirm("Delete?", remedy="--confirm 12ab")
    assert caught.value.status == ExitStatus.REFUSED
    assert caught.value.hints == ("run it again with `--confirm 12ab`",)


def test_a_plan_shows_steps_conflicts_gaps_and_its_digest(screen: Screen) -> None:
    plan = Plan(
        "t",
        (Step(b"a", "restore", None, "x"), Step(b"b", "delete", "y", None)),
        (Conflict(b"c", "changed by you"),),
        (Gap(b"d", "over the cap"),),
    )
    ui.show_plan(plan)
    assert screen.lines[0] == "  write   a"
    assert screen.lines[1].startswith("  delete  b")
    assert screen.lines[2] == f"plan {plan.digest}"
    assert screen.lines[3:] == ["warning: `c` is skipped: changed by you", "warning: `d` cannot be brought back: over the cap"]


def test_quiet_hides_notes_but_not_warnings(screen: Screen) -> None:
    ui.state.quiet = True
    ui.note("note")
    ui.hint("hint")
    ui.warn("warning", "detail")
    assert screen.lines == ["warning: warning", "  detail"]


@pytest.mark.parametrize(
    ("color", "environment", "expected"),
    [("always", {"NO_COLOR": "1"}, "\033[31mx\033[0m"), ("never", {}, "x"), ("auto", {}, "x")],
)
def test_colours(monkeypatch: pytest.MonkeyPatch, screen: Screen, color: ui.Color, environment: dict[str, str], expected: str) -> None:
    ui.state.color = color
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ui.style("x", "red") == expected
