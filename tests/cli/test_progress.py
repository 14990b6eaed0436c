"""Progress lines from events: what is said, where it is indented, and that a node's line names its commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc.base.json import JsonValue
from arc.cli import ui
from arc.cli.progress import Progress, depth, first_line, seconds, short_path
from tests.cli.conftest import Screen


def tell(progress: Progress, event: str, node: str | None = None, ordinal: int | None = None, **properties: JsonValue) -> None:
    progress.observe({"event": event, "node": node, "ordinal": ordinal, "properties": dict(properties)})


def finish(progress: Progress, node: str, ordinal: int, status: str = "success", commit: str | None = None) -> None:
    tell(progress, "node.started", node, ordinal)
    tell(progress, "node.completed", node, ordinal, status=status, duration_ms=1200)
    if commit:
        tell(progress, "checkpoint.saved", node, ordinal, git_commit_sha=commit)


def test_a_finished_node_is_one_line_with_time_and_commit(screen: Screen) -> None:
    progress = Progress(live=False)
    finish(progress, "plan", 1, commit="0123456789abcdef")
    assert screen.text == "✓ plan                     1.2s  0123456\n"


def test_a_node_without_a_commit_is_told_when_the_walk_goes_on(screen: Screen) -> None:
    progress = Progress(live=False)
    finish(progress, "plan", 1)
    assert screen.text == ""
    tell(progress, "node.started", "test", 2)
    assert screen.text == "✓ plan                     1.2s\n"


def test_a_parallel_branch_does_not_take_the_commit_of_its_sibling(screen: Screen) -> None:
    progress = Progress(live=False)
    finish(progress, "fan:left/fix", 3)
    finish(progress, "fan:right/fix", 4, commit="bbbbbbbbbb")
    tell(progress, "checkpoint.saved", "fan:left/fix", 3, git_commit_sha="aaaaaaaaaa")
    assert [line.split() for line in screen.lines] == [
        ["✓", "right/fix", "1.2s", "bbbbbbb"],
        ["✓", "left/fix", "1.2s", "aaaaaaa"],
    ]
    assert all(line.startswith("  ✓") for line in screen.lines)


def test_a_conflict_is_told_once_with_paths_and_ref_whole(screen: Screen) -> None:
    progress = Progress(live=False)
    ref = "refs/heads/arc/branch/01M8Q314QK4SB6ZPE21PNM4NZN/3-" + "fan-of-a-long-name" * 6 + "/right"
    tell(progress, "node.started", "join", 7)
    tell(progress, "fan_in.conflict", "join", 7, branch="right", paths=["a.txt", "src/b.txt"], ref=ref)
    tell(progress, "node.failed", "join", 7, duration_ms=100, message=f"merge conflict: branch `right` (kept at `{ref}`) in `a.txt`")
    tell(progress, "checkpoint.saved", "join", 7, git_commit_sha="0123456789")
    assert screen.lines == [
        "✗ join                     0.1s  failed: merge conflict  0123456",
        f"  conflict with right in a.txt, src/b.txt; its work is in {ref}",
    ]


def test_failures_and_retries_say_why(screen: Screen) -> None:
    progress = Progress(live=False)
    tell(progress, "node.started", "test", 1)
    tell(progress, "node.retrying", "test", 1, attempt=1, of=3, delay_ms=2000, message="exit status 1")
    tell(progress, "node.failed", "test", 1, duration_ms=400, message="exit status 1\nmore")
    progress.close()
    assert [" ".join(line.split()[2:]) for line in screen.lines] == [
        "attempt 1 of 3 failed: exit status 1; again in 2.0s",
        "0.4s failed: exit status 1",
    ]


def test_other_statuses_are_said_in_words(screen: Screen) -> None:
    progress = Progress(live=False)
    finish(progress, "review", 1, status="partial_success")
    progress.close()
    assert "partial success" in screen.text


def test_json_hides_everything_and_quiet_all_but_warnings(screen: Screen) -> None:
    progress = Progress(live=False)
    for option in ("json", "quiet"):
        setattr(ui.state, option, True)
        finish(progress, "plan", 1, commit="0123456789")
        tell(progress, "run.notice", level="info", message="by the way")
        tell(progress, "run.notice", level="warning", message="something", details=["more"])
        setattr(ui.state, option, False)
    progress.close()
    assert screen.text == "warning: something\n  more\n"


def test_paths_below_the_working_directory_are_shown_as_typed_here(screen: Screen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tell(Progress(live=False), "run.notice", level="info", message=f"{tmp_path}/a.dot:4:2: unknown attribute, see `{tmp_path}/b`")
    assert screen.text == "note: a.dot:4:2: unknown attribute, see `b`\n"


def test_wide_names_stay_in_line_and_no_control_character_passes(screen: Screen) -> None:
    progress = Progress(live=False)
    finish(progress, "計画", 1, commit="0123456")
    finish(progress, "a\x1b[2Jb", 2, commit="0123456")
    assert screen.lines == ["✓ 計画                     1.2s  0123456", "✓ a\ufffd[2Jb                   1.2s  0123456"]


def test_unknown_events_and_odd_properties_are_ignored(screen: Screen) -> None:
    progress = Progress(live=False)
    progress.observe({"event": "brand.new", "properties": {"x": 1}})
    progress.observe({"event": "node.completed", "node": None, "ordinal": None, "properties": None})
    tell(progress, "fan_in.merged", "join", 5, merged="not a list")
    progress.close()
    assert "Traceback" not in screen.text


def test_the_question_of_a_gate_names_the_command_that_answers_it(screen: Screen) -> None:
    progress = Progress(live=False)
    tell(progress, "human.waiting", "review", None, text="Ship it?", answer_with="arc run answer 01JK A")
    assert screen.lines[1] == "  hint: arc run answer 01JK A"


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0.0s"), (0.44, "0.4s"), (59.94, "59.9s"), (60, "1m00s"), (185.6, "3m05s"), (3600, "1h00m"), (7620, "2h07m")]
)
def test_durations(value: float, text: str) -> None:
    assert seconds(value) == text


def test_paths() -> None:
    assert (short_path("plan"), depth("plan")) == ("plan", 0)
    assert (short_path("fan:left/fix"), depth("fan:left/fix")) == ("left/fix", 1)
    assert (short_path("outer/fan:left/fix"), depth("outer/fan:left/fix")) == ("left/fix", 2)
    assert short_path("review/fix") == "review/fix"


def test_messages_are_cut_to_one_clean_line() -> None:
    assert first_line("\n  \033[31mred\nmore") == "  [31mred"
    assert first_line("x" * 200) == "x" * 99 + "…"
