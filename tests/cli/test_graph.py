"""`arc graph`: pictures to files and pipes, outlines at terminals, and runs with how they fared."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arc.base.json import JsonObject
from arc.runs.events import EventRecord
from arc.runs.history.marks import taken_edges, timeline_marks
from arc.runs.history.timeline import Timeline, TimelineEntry, start_entry
from arc.workflow.picture.draw import NodeMark
from tests.conftest import Arc, MakeRepo, Repo

pytestmark = pytest.mark.graphviz

FLOW = """digraph flow {
  label="Real run"; goal="See it"
  start -> prep -> split
  split -> left -> merge
  split -> right -> merge
  merge -> kid -> test
  prep [type=command, script="echo a > a.txt"]
  split [type=parallel]; merge [type=parallel.fan_in]
  left [type=command, script="echo l > l.txt"]
  right [type=command, script="echo r > r.txt"]
  kid [shape=house, stack.child_workflow="kid.dot"]
  test [type=command, script="test -f done || { touch done; exit 1; }"]
  fix [type=command, script="true"]
  spare [type=command, script="true"]
  test -> exit [condition="outcome=success"]
  test -> fix [condition="outcome=fail && context.never_set!=x"]
  test -> spare [condition="context.never_set=x"]
  fix -> test
  spare -> exit
}
"""
KID = "digraph kid { start -> one -> exit\n one [type=command, script=true] }\n"


def write(arc: Arc, name: str, text: str) -> None:
    (arc.cwd / name).write_text(text, "utf-8")


@pytest.fixture
def ran(arc: Arc, repo: MakeRepo) -> tuple[Repo, str]:
    """A repository and the id of a finished run in it."""
    made = repo({"flow.dot": FLOW, "kid.dot": KID})
    arc("run", "start", "flow.dot", cwd=made.path).ok()
    run_id = newest(arc)
    assert run_id is not None
    return made, run_id


def at_terminal(arc: Arc, *args: str, cwd: Path) -> str:
    """What the command prints when its stdout is a terminal (100 columns)."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "arc", *args],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(follower)
        data = b""
        while True:
            try:
                chunk = os.read(leader, 65536)
            except OSError:  # Linux says EIO when the other side has closed
                break
            if not chunk:
                break
            data += chunk
        assert process.wait(60) == 0
    os.close(leader)
    return data.decode().replace("\r\n", "\n")


def test_pictures_by_the_name_of_the_file(arc: Arc) -> None:
    write(arc, "flow.dot", FLOW)
    write(arc, "kid.dot", KID)
    for name, begin in (("x.svg", b"<?xml"), ("x.png", b"\x89PNG"), ("x.dot", b"digraph"), ("x.gv", b"digraph")):
        done = arc.inside("graph", "flow.dot", "-o", name).ok()
        data = (arc.cwd / name).read_bytes()
        assert data.startswith(begin)
        assert (done.stdout, done.stderr) == ("", f"wrote `{name}` ({len(data):,} bytes)\n")
    assert arc.inside("graph", "flow.dot", "-o", "x.svg", "--json").ok().json()["format"] == "svg"


def test_svg_goes_into_a_pipe(arc: Arc) -> None:
    done = arc("graph", "-", input="digraph g { start -> exit }").ok()
    assert done.stdout.startswith("<?xml")
    assert done.stderr == ""


def test_outline_at_a_terminal(arc: Arc) -> None:
    write(arc, "g.dot", 'digraph g { label="Title"; goal="Goal"; start -> a -> exit\n a [type=command, script=true, label="Do it"] }')
    assert at_terminal(arc, "graph", "g.dot", cwd=arc.cwd) == (
        "Title\nGoal\n\n● start  start\n    → a\n● a      command  Do it\n    → exit\n● exit   exit\n"
    )


def test_unknown_formats_files_and_runs_are_told_apart(arc: Arc) -> None:
    write(arc, "g.dot", "digraph g { start -> exit }")
    wrong = arc.inside("graph", "g.dot", "-o", "x.pdf")
    assert (wrong.status, "`x.pdf` names no format" in wrong.stderr) == (2, True)
    missing = arc.inside("graph", "missing.dot")
    assert (missing.status, missing.stderr) == (4, "error: there is no file `missing.dot`\n")
    assert arc.inside("graph", "01NOSUCHRUN").status == 4
    folder = arc.inside("graph", "g.dot", "-o", "nowhere/x.svg")
    assert (folder.status, "cannot be written" in folder.stderr) == (2, True)


def test_without_graphviz_the_error_names_the_remedy_and_dot_still_works(arc: Arc, monkeypatch: pytest.MonkeyPatch) -> None:
    write(arc, "g.dot", "digraph g { start -> exit }")
    monkeypatch.setenv("PATH", str(arc.cwd))
    failed = arc.inside("graph", "g.dot", "-o", "x.svg")
    assert failed.status == 1
    assert "apt install graphviz" in failed.stderr
    assert not (arc.cwd / "x.svg").exists()
    arc.inside("graph", "g.dot", "-o", "x.dot").ok()


def test_a_configuration_and_a_workflow_that_takes_inputs_can_be_drawn(arc: Arc) -> None:
    write(arc, "g.dot", 'digraph g { goal="Release $version"; start -> exit }')
    write(arc, "g.toml", 'graph = "g.dot"\n[inputs]\nversion = "7"\n')
    assert arc.inside("graph", "g.dot", "--json").ok().json()["goal"] == "Release $version"
    assert arc.inside("graph", "g.toml", "--json").ok().json()["goal"] == "Release 7"


def test_a_run_with_branches_and_child_shows_how_every_node_fared(arc: Arc, ran: tuple[Repo, str]) -> None:
    made, run_id = ran
    document = arc("graph", run_id[:12], "--json", cwd=made.path).ok().json()
    assert document["run_id"] == run_id
    progress = document["progress"]
    assert {path: (mark["status"], mark["visits"]) for path, mark in progress.items()} == {
        "start": ("success", 1),
        "prep": ("success", 1),
        "split:left/left": ("success", 1),
        "split:right/right": ("success", 1),
        "split": ("success", 1),
        "merge": ("success", 1),
        "kid/start": ("success", 1),
        "kid/one": ("success", 1),
        "kid/exit": ("success", 1),
        "kid": ("success", 1),
        "test": ("success", 2),
        "fix": ("success", 1),
        "exit": ("success", 1),
    }
    assert progress["test"]["attempts"] == 2
    assert progress["prep"]["duration_ms"] >= 0


def test_the_picture_of_a_run_has_statuses_legend_and_the_way_it_took(arc: Arc, ran: tuple[Repo, str]) -> None:
    made, run_id = ran
    arc("graph", run_id, "-o", "run.dot", cwd=made.path).ok()
    dot = (made.path / "run.dot").read_text("utf-8")
    assert f"run {run_id} · success · 14 checkpoints" in dot
    strong = {line.split(" [")[0].strip() for line in dot.splitlines() if "penwidth=1.9" in line}
    assert {'"split" -> "left"', '"left" -> "merge"', '"test" -> "fix"', '"fix" -> "test"', '"kid/one" -> "kid/exit"'} <= strong
    assert '"test" -> "spare"' not in strong
    arc("graph", run_id, "-o", "run.png", cwd=made.path).ok()
    assert (made.path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_the_outline_of_a_run(arc: Arc, ran: tuple[Repo, str]) -> None:
    made, run_id = ran
    shown = at_terminal(arc, "graph", run_id, cwd=made.path)
    assert shown.startswith(f"Real run\nSee it\nrun {run_id} · success · 14 checkpoints · ")
    assert "\n      ✓ one    command  success" in shown
    assert "\n✓ test   command         success, 2 visits" in shown
    assert "\n○ spare  command         not run\n" in shown


def test_a_clone_that_fetched_the_refs_can_draw_the_run(arc: Arc, ran: tuple[Repo, str], tmp_path: Path, clean_room: Path) -> None:
    made, run_id = ran
    made.git("clone", "-q", str(made.path), str(tmp_path / "clone"))
    clone = Repo(tmp_path / "clone")
    clone.git("fetch", "-q", "origin", f"refs/arc/{run_id}:refs/arc/{run_id}", f"arc/run/{run_id}:arc/run/{run_id}")
    other = {"ARC_HOME": str(clean_room / "other-home")}
    document = arc("graph", run_id, "--json", cwd=clone.path, env=other).ok().json()
    assert document["progress"]["test"]["visits"] == 2
    assert [node["child"]["name"] for node in document["nodes"] if node["child"]] == ["kid"]
    arc("graph", run_id, "-o", "run.svg", cwd=clone.path, env=other).ok()


@pytest.mark.kill
def test_a_node_in_the_middle_is_running_and_after_a_kill_interrupted(arc: Arc, repo: MakeRepo, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    made = repo(
        {"slow.dot": f'digraph s {{ start -> slow -> exit\n slow [type=command, script="until [ -e {stop} ]; do sleep 0.05; done"] }}'}
    )
    process = arc.start("run", "start", "slow.dot", cwd=made.path)
    try:
        shown = progress_when(arc, lambda progress: "slow" in progress)
        assert (shown["start"]["status"], shown["slow"]["status"], shown["slow"]["visits"]) == ("success", "running", 1)
        process.kill()
        process.communicate()
        shown = progress_when(arc, lambda progress: progress.get("slow", {}).get("status") != "running")
        assert (shown["start"]["status"], shown["slow"]["status"]) == ("success", "interrupted")
        run_id = newest(arc)
        assert run_id is not None
        assert "! slow   command  interrupted" in at_terminal(arc, "graph", run_id, cwd=made.path)
    finally:
        stop.touch()
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_gate_that_waits_for_a_person_is_waiting(arc: Arc, repo: MakeRepo) -> None:
    made = repo({"ask.dot": 'digraph a { start -> ask\n ask [type=human]\n ask -> exit [label="[G] Go"] }'})
    process = arc.start("run", "start", "ask.dot", cwd=made.path)
    try:
        shown = progress_when(arc, lambda progress: progress.get("ask", {}).get("status") == "waiting")
        assert shown["ask"]["visits"] == 1
    finally:
        process.terminate()
        process.communicate()


def newest(arc: Arc) -> str | None:
    rows = arc.inside("run", "list", "--json").ok().json()["runs"]
    return str(rows[0]["run_id"]) if rows else None


def progress_when(arc: Arc, ready: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The run's progress as `arc graph --json` tells it, as soon as it is `ready` (at most a minute)."""
    deadline = time.monotonic() + 60
    shown: dict[str, Any] = {}
    while time.monotonic() < deadline:
        run_id = newest(arc)
        if run_id is not None:
            done = arc.inside("graph", run_id, "--json")
            shown = done.json()["progress"] if done.status == 0 else {}
            if ready(shown):
                return shown
        time.sleep(0.05)
    raise AssertionError(f"not within a minute: {shown}")


def entry(ordinal: int, path: str, status: str, *, visit: int = 1, attempts: int = 1, ms: int | None = 10) -> TimelineEntry:
    frame, _, node = path.rpartition("/")
    return TimelineEntry(ordinal, path, node, frame, visit, status, attempts, "2026-01-01T00:00:00.000000Z", ms, "running", "RUN")


def test_marks_add_up_visits_attempts_and_time_and_keep_the_last_status() -> None:
    timeline = Timeline(
        "RUN",
        start_entry("RUN", "2026-01-01T00:00:00.000000Z"),
        (entry(1, "a", "fail", attempts=3, ms=100), entry(2, "f:x/b", "success"), entry(3, "a", "success", visit=2, ms=None)),
    )
    assert timeline_marks(timeline) == {"a": NodeMark("success", 2, 4, 100), "f:x/b": NodeMark("success", 1, 1, 10)}


def test_taken_edges_are_named_by_the_graph_they_belong_to() -> None:
    def selected(node: str, **properties: int | str) -> EventRecord:
        found: JsonObject = dict(properties)
        return EventRecord("", "RUN", 1, "edge.selected", node, 1, found)

    events = [selected("a", edge=0), selected("f:x/b", edge=4), selected("kid/one", edge=1), selected("f:y/kid/two", edge=2), selected("c")]
    assert taken_edges(events) == {("", 0), ("", 4), ("kid/", 1), ("kid/", 2)}
