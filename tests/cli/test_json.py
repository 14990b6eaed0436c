"""Every `--json` document against docs/json.md: each field it has is listed there, each field listed there exists."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Arc, MakeRepo, Ran
from tests.runs.made import MadeRun, make_world

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
FLOW = """digraph flow {
  start [shape=Mdiamond]
  exit [shape=Msquare]
  gate [shape=hexagon, label="Ship it?"]
  start -> gate
  gate -> exit [label="[A] Approve"]
}
"""


def listed(section: str, table: int = 0) -> tuple[set[str], set[str]]:
    """(fields that are always there, fields that may be) of the section's table with this number."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [part.splitlines() for part in text.split("| field | meaning |\n|---|---|\n")[1:]][table]
    always: set[str] = set()
    sometimes: set[str] = set()
    for row in rows:
        if not row.startswith("| "):
            break
        for name, mark in re.findall(r"`([a-z0-9_.\[\]{}]+)`(\?)?", row.split(" | ")[0]):
            (sometimes if mark else always).add(name)
    return always, sometimes


def paths(value: object, known: set[str], at: str = "") -> Iterator[str]:
    """The paths of all leaves; below a field that is listed itself (a map, a list of values) nothing is looked at."""
    if at in known:
        yield at
    elif isinstance(value, dict):
        into_map = any(name.startswith(f"{at}{{}}.") for name in known)
        for key, item in value.items():
            yield from paths(item, known, f"{at}{{}}" if into_map else f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for item in value:
            yield from paths(item, known, f"{at}[]")
    else:
        yield at


def check(ran: Ran | object, section: str, table: int = 0, *, more: tuple[object, ...] = ()) -> None:
    """The document has exactly the fields of the table (`more`: further documents of that kind, for lists that are empty in the first)."""
    always, sometimes = listed(section, table)
    assert always, section
    found: set[str] = set()
    for document in (ran.ok().json() if isinstance(ran, Ran) else ran, *more):
        found |= set(paths(document, always | sometimes))
    assert found - always - sometimes == set()
    assert always - found == set()


@pytest.fixture
def made(repo: MakeRepo) -> MadeRun:
    return MadeRun(make_world(Path(os.environ["ARC_HOME"])), repo({"flow.dot": FLOW})).sample()


@pytest.fixture
def inside(made: MadeRun) -> Arc:
    return Arc(made.repo.path)


def test_list(inside: Arc) -> None:
    check(inside.inside("run", "list", "--json"), "`arc run list`")


def test_show_and_log_and_diff(made: MadeRun, inside: Arc) -> None:
    check(inside.inside("run", "show", made.run_id, "--json"), "`arc run show`")
    check(inside.inside("run", "show", made.run_id, "@3", "--json"), "`arc run show`", 1)
    check(inside.inside("run", "log", made.run_id, "--json"), "`arc run log`")
    check(inside.inside("run", "diff", made.run_id, "--json"), "`arc run diff`")
    entries = inside.inside("run", "show", made.run_id, "--json").json()
    logged = inside.inside("run", "log", made.run_id, "--json").json()["checkpoints"]
    assert [set(one) | {"files"} for one in entries["checkpoints"]] == [set(one) for one in logged]
    assert set(entries["start"]) == set(entries["checkpoints"][0]) - {"files_changed"}


def test_logs_of_events_and_of_a_node(made: MadeRun, inside: Arc) -> None:
    for line in inside.inside("run", "logs", made.run_id, "--json").ok().stdout.splitlines():
        assert set(json.loads(line)) == {"ts", "run_id", "sequence", "event", "node", "ordinal", "properties"}
    folder = made.folder.node_folder(3, "build")
    folder.mkdir(parents=True)
    (folder / "stdout.log").write_text("compiling\n")
    check(inside.inside("run", "logs", made.run_id, "@3", "--json"), "`arc run logs`")


def test_fork_and_rewind(made: MadeRun, inside: Arc) -> None:
    check(inside.inside("run", "fork", made.run_id, "@3", "--json"), "`arc run fork`, `arc run rewind`")
    check(inside.inside("run", "rewind", made.run_id, "@2", "--plan", "--json"), "`arc run fork`, `arc run rewind`", 1)
    rewound = inside.inside("run", "rewind", made.run_id, "@3", "--yes", "--json")
    assert {"supersedes", "digest"} < set(rewound.json())
    check(rewound, "`arc run fork`, `arc run rewind`")


def test_cancel_and_gc(made: MadeRun, inside: Arc) -> None:
    check(inside.inside("run", "cancel", made.run_id, "--json"), "`arc run cancel`")
    check(inside.inside("run", "gc", "--plan", "--json"), "`arc run gc`")
    skipped = {"skipped": [{"run_id": "", "reason": ""}]}  # what cannot be made to happen here; its fields are in the code once
    check(inside.inside("run", "gc", made.run_id, "--discard-unmerged", "--yes", "--json"), "`arc run gc`", 1, more=(skipped,))


def test_start_and_answer(arc: Arc, repo: MakeRepo) -> None:
    project = repo({"flow.dot": FLOW})
    done = arc("run", "start", "flow.dot", "--auto-approve", "--json", cwd=project.path)
    check(done, "`arc run start`, `arc run resume`")
    again = arc("run", "resume", done.json()["run_id"], "--json", cwd=project.path)
    check(again, "`arc run start`, `arc run resume`")
    assert (done.json()["executed"], again.json()["executed"]) == (True, False)
    folder = Path(done.json()["logs_dir"])
    (folder / "questions").mkdir(exist_ok=True)
    question = {
        "id": "7",
        "node": "gate",
        "text": "?",
        "choices": [{"key": "A", "label": "Approve", "target": "exit"}],
        "freeform": False,
        "default": None,
        "timeout": 60.0,
        "asked_at": "2026-01-01T00:00:00Z",
    }
    (folder / "questions" / "7.json").write_text(json.dumps(question))
    check(arc.inside("run", "answer", folder.name, "--json"), "`arc run answer`")
    assert set(arc.inside("run", "answer", folder.name, "A", "--json").ok().json()) == {"run_id", "question", "answer"}


def test_validate_graph_and_parse(made: MadeRun, inside: Arc, tmp_path: Path) -> None:
    made.repo.write("odd.dot", FLOW.replace("label=", "colour=blue, label="))
    check(inside.inside("validate", "odd.dot", "--json"), "`arc validate`")
    check(inside.inside("graph", "flow.dot", "--json"), "`arc graph`")
    check(inside.inside("parse", "flow.dot"), "`arc parse`", more=({"subgraphs": [{"name": "", "label": "", "nodes": []}]},))
    assert set(inside.inside("graph", "flow.dot", "-o", str(tmp_path / "x.dot"), "--json").ok().json()) == {"path", "format", "bytes"}


def test_the_error_of_a_workflow_has_its_findings(made: MadeRun, inside: Arc) -> None:
    made.repo.write("bad.dot", FLOW.replace("Msquare", ""))
    ran = inside.inside("run", "start", "bad.dot", "--json")
    error = json.loads(ran.stderr)["error"]
    assert ran.stdout == ""
    assert set(error) == {"code", "message", "details", "hints", "status", "diagnostics"}
    always, _ = listed("`arc validate`")
    assert {f"files[].diagnostics[].{key}" for key in error["diagnostics"][0]} < always


def test_a_name_that_is_not_utf8_is_whole_in_base64(made: MadeRun, inside: Arc) -> None:
    made.node("latin", {os.fsdecode(b"caf\xe9"): "x"})
    name = {"path": "caf\ufffd", "path_b64": "Y2Fm6Q=="}
    document = inside.inside("run", "diff", made.run_id, "@5", "@last", "--json").ok().json()
    assert document["files"] == [{**name, "kind": "added"}]
    (step,) = inside.inside("run", "rewind", made.run_id, "@5", "--plan", "--json").ok().json()["steps"]
    assert {key: step[key] for key in ("path", "path_b64", "action")} == {**name, "action": "delete"}
