"""The examples of docs/handlers.md and docs/agents.md work as printed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from arc.agent.scripted_backend import ScriptedBackend
from arc.workflow.engine import event_names as engine_events
from arc.workflow.handlers.event_names import HANDLER_EVENTS
from arc.workflow.handlers.registry import default_registry, load_user_handlers
from tests.workflow.handlers.support import Bench

DOCS = Path(__file__).parents[3] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)


def test_the_example_of_an_own_node_type(bench: Bench, tmp_path: Path) -> None:
    (example,) = blocks("handlers.md", "python")
    (tmp_path / "documented_deploy.py").write_text(example)
    handlers = default_registry()
    load_user_handlers(handlers, {"deploy": "documented_deploy:handler"}, tmp_path)
    try:
        outcome = bench.run("start -> ship -> exit\n ship [type=deploy, target=staging]", "ship", handler=handlers.get("deploy"))
    finally:
        sys.modules.pop("documented_deploy", None)
    assert (outcome.status, outcome.context_updates) == ("success", {"deploy.target": "staging"})
    assert (bench.directory / "staging.txt").read_text() == "deployed\n"
    assert bench.named("deploy.started") == [{"target": "staging"}]


def test_the_example_of_a_script_of_replies(bench: Bench) -> None:
    (example,) = [block for block in blocks("agents.md", "toml") if block.startswith("# replies.toml")]
    bench.backends, bench.default_backend = {"scripted": ScriptedBackend.load(example, "replies.toml")}, "scripted"
    (bench.directory / "notes.md").write_text("a line\n")
    outcome = bench.run('start -> fix -> exit\n fix [prompt="x"]', "fix", visit=2)
    assert (outcome.status, outcome.preferred_label, outcome.context_updates["risk"]) == ("success", "Ship", "low")
    assert (bench.directory / "src" / "app.py").read_text() == "print('hi')\n"
    assert (bench.directory / "notes.md").read_text() == "a line\none more line\n"
    assert (bench.directory / "fixed-at.txt").exists()


def test_the_example_of_a_routing_object(bench: Bench) -> None:
    (example,) = blocks("handlers.md", "sh")
    script = example.strip().replace("\\", "\\\\").replace('"', '\\"')
    outcome = bench.run(f'start -> n -> exit\n n [shape=parallelogram, script="{script}"]')
    assert (outcome.status, outcome.preferred_label, outcome.context_updates["risk"]) == ("success", "Deploy", "low")


def test_handlers_and_engine_share_no_event_name() -> None:
    assert not set(HANDLER_EVENTS) & set(engine_events.ENGINE_EVENTS)
