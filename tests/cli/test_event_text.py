"""Events as sentences: each event of docs/events.md has one, built from its properties; newer events are shown as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from arc.base.json import JsonObject
from arc.cli.event_text import TEXTS, event_text

PAGE = Path(__file__).parents[2] / "docs" / "events.md"


def documented() -> dict[str, str]:
    rows = re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    return dict(rows)


def test_every_documented_event_has_a_sentence_and_no_other_one() -> None:
    assert set(TEXTS) - {"log.torn"} == set(documented())


@pytest.mark.parametrize("event", sorted(TEXTS))
def test_a_sentence_copes_with_no_properties_and_with_odd_ones(event: str) -> None:
    names = [*re.findall(r"`([a-z_]+)`", documented().get(event, "")), "visit", "bytes", "begins"]
    values: list[object] = [None, "text\x1b[2J\nmore", 3, ["a", {"key": "A"}], {"x": 1}]
    for value in values:
        text = event_text(event, dict.fromkeys(names, value))  # type: ignore[arg-type]
        assert text == "" or text.isprintable()
    assert isinstance(event_text(event, {}), str)


@pytest.mark.parametrize(
    ("event", "properties", "text"),
    [
        ("run.started", {"workflow": "review", "goal": "Ship it", "dry_run": True}, "review: Ship it (dry run)"),
        ("run.resumed", {"next_node": "build", "checkpoint": 3, "was": "interrupted"}, "at build after checkpoint @3, it was interrupted"),
        ("run.notice", {"level": "warning", "message": "look"}, "warning: look"),
        ("node.started", {"type": "command", "visit": 2, "fidelity": "compact"}, "command, visit 2"),
        ("node.started", {"type": "agent", "visit": 1, "fidelity": "full"}, "agent, fidelity full"),
        ("node.completed", {"status": "partial_success", "attempts": 2, "duration_ms": 1200}, "partial success after 1.2s in 2 attempts"),
        ("node.completed", {"status": "success", "preferred_label": "Approve", "duration_ms": 0}, "success after 0.0s, → Approve"),
        ("node.failed", {"message": "exit code 3", "failure_class": "command", "duration_ms": 90}, "exit code 3 (command) after 0.1s"),
        ("edge.selected", {"target": "fix", "why": "condition", "condition": "outcome=fail"}, "→ fix (condition: outcome=fail)"),
        (
            "parallel.started",
            {"branches": ["a", "b"], "max_parallel": 4, "join_policy": "wait_all", "join": "join"},
            "branches a, b; at most 4 at a time, wait_all at join",
        ),
        ("parallel.completed", {"status": "fail", "succeeded": ["a"], "failed": ["b"], "canceled": []}, "fail: succeeded a; failed b"),
        ("branch.completed", {"branch": "a", "status": "success", "commit": "0123456789"}, "a: success, commit 01234567"),
        ("fan_in.conflict", {"branch": "b", "paths": ["x", "y"], "ref": "refs/q"}, "b conflicts in x, y; its work is in refs/q"),
        ("command.started", {"language": "python", "working_directory": "src", "timeout_ms": 90000}, "python script in src, at most 1m30s"),
        ("command.completed", {"exit_code": 3, "duration_ms": 10}, "exit code 3 after 0.0s"),
        ("command.completed", {"signal": "SIGKILL", "duration_ms": 10}, "ended by SIGKILL after 0.0s"),
        ("command.completed", {"timed_out": True, "duration_ms": 2000}, "timed out after 2.0s"),
        (
            "human.asked",
            {"question": "4", "choices": [{"key": "A", "label": "Approve"}], "freeform": True, "default": "Approve", "timeout_ms": 60000},
            "4 [A] Approve or any text; Approve in 1m00s",
        ),
        ("human.answered", {"text": "a", "source": "console", "label": "Approve", "target": "ship"}, "`a` by console is Approve → ship"),
        ("checkpoint.saved", {"commit": "0123456789", "metadata": "abcdef0123"}, "commit 01234567, state abcdef01"),
        ("checkpoint.saved", {"commit": None, "metadata": None}, "on the disk"),
        ("log.torn", {"bytes": 7, "begins": '{"ts'}, '7 bytes that are no event: {"ts'),
        ("brand.new", {"x": [1], "none": None, "s": "t"}, "x=[1] s=t"),
    ],
)
def test_sentences(event: str, properties: JsonObject, text: str) -> None:
    assert event_text(event, properties) == text
