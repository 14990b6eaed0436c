"""The command line as a whole: version, help, usage errors, exit statuses, streams, common options."""

from __future__ import annotations

import json

import pytest

import arc as package
from tests.conftest import Arc


def test_version_is_one_line_on_stdout(arc: Arc) -> None:
    ran = arc("--version")
    assert (ran.stdout, ran.stderr, ran.status) == (f"arc {package.__version__}\n", "", 0)


def test_help_begins_with_what_arc_does_and_ends_with_the_exit_statuses(arc: Arc) -> None:
    ran = arc("-h").ok()
    assert ran == arc("--help")
    lines = [line.strip() for line in ran.stdout.splitlines() if line.strip()]
    assert lines[1] == "Make the work of coding agents reversible, resumable and forkable"
    assert lines[2] == "Examples:"
    assert lines[-8].split(None, 1) == ["0", "done, or nothing to do"]


def test_a_group_without_a_command_shows_its_help_on_stderr(arc: Arc) -> None:
    ran = arc.inside("run")
    assert ran.status == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith("Usage: arc run")


def test_a_wrong_command_suggests_the_one_that_was_meant(arc: Arc) -> None:
    ran = arc.inside("run", "lits")
    assert ran.status == 2
    assert ran.stdout == ""
    assert ran.stderr == "error: no such command `lits`\n\nhint: did you mean `list`?\nhint: `arc run --help` shows how to use it\n"


def test_usage_errors_are_json_in_json_mode_wherever_the_option_stands(arc: Arc) -> None:
    for words in (("--json", "run", "lits"), ("run", "--json", "lits"), ("run", "lits", "--json")):
        ran = arc.inside(*words)
        assert ran.stdout == ""
        error = json.loads(ran.stderr)["error"]
        assert ran.status == error["status"] == 2
        assert error["code"] == "usage"
        assert error["message"] == "no such command `lits`"


def test_a_value_outside_the_choices_names_them(arc: Arc) -> None:
    ran = arc.inside("completion", "bash", "--color", "no")
    assert ran.status == 2
    assert ran.stderr.splitlines()[0] == "error: invalid value for `--color`: `no` is not one of auto, always, never"


def test_color_always_colours_and_no_color_wins_over_auto(arc: Arc) -> None:
    assert "\033[31;1merror:" in arc("--color", "always", "nonsense").stderr
    assert "\033[" not in arc("nonsense", env={"NO_COLOR": "1"}).stderr


def test_a_wrong_option_suggests_close_ones(arc: Arc) -> None:
    ran = arc.inside("run", "start", "--inptu")
    assert ran.stderr.splitlines()[0] == "error: no such option `--inptu`"
    assert "hint: did you mean `--input`" in ran.stderr


@pytest.mark.parametrize(
    ("words", "stderr"),
    [
        ("nonsense", "no such command `nonsense`\n\nhint: `arc --help` shows how to use it"),
        ("rnu list", "no such command `rnu`\n\nhint: did you mean `run`?\nhint: `arc --help` shows how to use it"),
        ("--nonsense", "no such option `--nonsense`\n\nhint: `arc --help` shows how to use it"),
        (
            "run list --al",
            "no such option `--al`\n\nhint: did you mean `--all` or `--help`?\nhint: `arc run list --help` shows how to use it",
        ),
        ("run list extra", "unexpected argument `extra`\n\nhint: `arc run list --help` shows how to use it"),
        ("run show", "missing argument `RUN`\n\nhint: `arc run show --help` shows how to use it"),
        ("run start x.dot --goal", "option `--goal` requires an argument\n\nhint: `arc run start --help` shows how to use it"),
        (
            "run cancel X --grace soon",
            "invalid value for `--grace`: `soon` is not a number\n\nhint: `arc run cancel --help` shows how to use it",
        ),
        ("run list --json=1", None),
        ("run gc --older-than soon", "`soon` is not an age\n\nhint: give a number and a unit: `30d`, `12h`, `2w`"),
        ("run start", None),
        ("completion tcsh", None),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_a_hint(arc: Arc, words: str, stderr: str | None) -> None:
    ran = arc.inside(*words.split())
    assert (ran.status, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ")
    assert "\n\nhint: " in ran.stderr
    if stderr is not None:
        assert ran.stderr == f"error: {stderr}\n"


def test_arc_alone_shows_its_help_on_stderr_with_status_2(arc: Arc) -> None:
    ran = arc.inside()
    assert (ran.status, ran.stdout) == (2, "")
    assert ran.stderr == arc.inside("--help").ok().stdout
