"""docs/events.md lists exactly the events there are, and the engine emits only what it lists."""

from __future__ import annotations

import re
from pathlib import Path

from arc.workflow.engine.event_names import ENGINE_EVENTS
from arc.workflow.handlers.event_names import HANDLER_EVENTS

from .support import Bench, edit, fail, ok, workflow

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "events.md").read_text()


def listed(section: str) -> dict[str, str]:
    """The table rows under a heading."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `([a-z_.]+)` \| (.*) \|$", text, re.MULTILINE))


def test_the_page_has_the_engines_events_with_their_meanings() -> None:
    assert listed("The engine") == ENGINE_EVENTS


def test_the_page_has_the_handlers_events_with_their_meanings() -> None:
    assert listed("Nodes of a type") == HANDLER_EVENTS


def test_the_page_has_every_event_that_the_runs_room_emits() -> None:
    names: set[str] = set()
    for file in (ROOT / "src" / "arc" / "runs").glob("*.py"):
        names |= set(re.findall(r'\bEvent\(\s*"([a-z_.]+)"', file.read_text()))
    assert names - {*ENGINE_EVENTS, *HANDLER_EVENTS} == set(listed("The run's life"))


def test_the_engine_emits_only_listed_events() -> None:
    text = (
        "p [shape=component]; f [shape=tripleoctagon]; a [max_retries=1]; b; c; start -> p; p -> a -> f; p -> b -> f;"
        'f -> c [condition="outcome=fail"]; f -> exit [condition="outcome!=fail"]; c -> exit'
    )
    bench = Bench(workflow(text), {"a": edit("x", "1"), "b": edit("x", "2"), "c": fail()})
    bench.run()
    bench.script = {"c": ok()}
    bench.run(bench.checkpoints.state())
    assert set(bench.names()) <= set(ENGINE_EVENTS)
    assert {"parallel.started", "branch.completed", "fan_in.conflict", "run.failed", "run.resumed", "run.completed"} <= set(bench.names())
