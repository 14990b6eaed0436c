"""What `arc.cli.ui` writes: clean text, plans, questions that nobody can be asked."""

from __future__ import annotations

import threading

import pytest

from arc.base.errors import ExitStatus, RefusedError
from arc.cli import ui
from arc.workspace.plan import Conflict, Gap, Plan, Step
from tests.cli.conftest import Screen


def test_nothing_that_a_terminal_obeys_leaves_but_our_colours(screen: Screen, capsys: pytest.CaptureFixture[str]) -> None:
    ui.out("a\x1b]0;title\x07b\rc\x9b2Jd\u202ee\tf")
    assert capsys.readouterr().out == "a\ufffd]0;title\ufffdb\ufffdc\ufffd2Jd\ufffde\tf\n"
    ui.state.color = "always"
    ui.out(f"{ui.style('x', 'red')} \x1b[2J \x1b[5mblinks")
    assert capsys.readouterr().out == "\x1b[31mx\x1b[0m \ufffd[2J \x1b[5mblinks\x1b[0m\n"


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


def test_what_takes_long_says_what_it_does_and_clears_the_line(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ui, "_PATIENCE", 0.0)
    monkeypatch.setattr(ui, "shows_live_progress", lambda: True)
    with ui.working("reading the runs"):
        for _ in range(1000):
            if "reading" in screen.text:
                break
            threading.Event().wait(0.01)
    assert screen.text == "reading the runs…\r\033[K"


def test_what_is_quick_or_not_at_a_terminal_says_nothing(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    with ui.working("reading the runs"):
        pass
    monkeypatch.setattr(ui, "shows_live_progress", lambda: True)
    with ui.working("reading the runs"):
        pass
    assert screen.text == ""
