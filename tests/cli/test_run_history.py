"""The commands that come back to a run, as a person meets them: output, JSON, exit statuses; and real kills in the middle of them."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from arc.base.locks import Lease
from arc.runs.history.lookup import open_known
from arc.runs.store import iterate_runs
from tests.conftest import Arc, MakeRepo, Ran, Repo
from tests.runs.made import MadeRun, make_world

WORKFLOW = """
digraph demo {
  goal="Show it"
  start [shape=Mdiamond]
  plan  [shape=parallelogram, script="echo $ARC_INPUT_STYLE > plan.txt; echo planned"]
  fan   [shape=component]
  left  [shape=parallelogram, script="echo l > left.txt"]
  more  [shape=parallelogram, script="echo more >> left.txt"]
  right [shape=parallelogram, script="echo r > right.txt"]
  join  [shape=tripleoctagon]
  build [shape=parallelogram, script="cat plan.txt left.txt right.txt > out.txt; test ! -e /tmp/never"]
  exit  [shape=Msquare]
  start -> plan -> fan
  fan -> left -> more -> join
  fan -> right -> join
  join -> build -> exit
}
"""


@pytest.fixture
def made(repo: MakeRepo) -> MadeRun:
    return MadeRun(make_world(Path(os.environ["ARC_HOME"])), repo()).sample()


@pytest.fixture
def inside(made: MadeRun) -> Arc:
    return Arc(made.repo.path)


def refused(ran: Ran, status: int) -> str:
    assert (ran.status, ran.stdout) == (status, ""), ran
    return ran.stderr


def test_list_is_a_table_and_json(made: MadeRun, inside: Arc) -> None:
    header, row = inside.inside("run", "list").ok().stdout.splitlines()
    assert header.split() == ["run", "status", "workflow", "goal", "done", "started", "took", "where"]
    assert row.split()[:4] == [made.run_id[:8], "interrupted", "made", "Make"]
    (document,) = inside.inside("run", "list", "--json").ok().json()["runs"]
    assert (document["run_id"], document["status"], document["nodes_done"]) == (made.run_id, "interrupted", 5)


def test_list_names_what_is_corrupt_and_goes_on(made: MadeRun, inside: Arc) -> None:
    (made.world.runs / "01ZZZ").mkdir()
    ran = inside.inside("run", "list").ok()
    assert len(ran.stdout.splitlines()) == 3
    assert "01ZZZ" in ran.stdout
    assert "killed while it was being created" in ran.stderr


def test_a_run_of_a_newer_arc_is_not_called_damaged(made: MadeRun, inside: Arc) -> None:
    newer = made.world.runs / "01ZZZ"
    newer.mkdir()
    (newer / "run.json").write_text('{"schema": 99}')
    listed = inside.inside("run", "list").ok().stderr
    shown = refused(inside.inside("run", "show", "01ZZZ"), 1)
    planned = inside.inside("run", "gc", "01ZZZ", "--plan").ok().stderr
    for text in (listed, shown, planned):
        assert "written by a newer arc" in text
        assert "discard" not in text
    assert "hint: use the newer arc for what it wrote; nothing there is damaged" in listed
    assert "hint: use the newer arc for what it wrote; nothing there is damaged" in planned
    (row, _) = inside.inside("run", "list", "--json").ok().json()["runs"]
    assert (row["run_id"], row["newer"]) == ("01ZZZ", True)


def test_a_manifest_of_a_newer_arc_is_said_to_be_that(made: MadeRun, tmp_path: Path) -> None:
    repo = made.repo
    blob = repo.git("hash-object", "-w", "--stdin", input=b'{"schema": 99}')
    tree = repo.git("mktree", input=f"100644 blob {blob}\tmanifest.json\n".encode())
    repo.git("update-ref", f"refs/arc/{made.run_id}", repo.git("commit-tree", "-m", "x", tree))
    elsewhere = Arc(repo.path)
    for command in (("show",), ("resume",), ("fork",)):
        words = ["run", *command, made.run_id, *(["@last"] if command == ("fork",) else [])]
        ran = elsewhere(*words, env={"ARC_HOME": str(tmp_path / "other-home")})
        assert "written by a newer arc: it has schema 99" in refused(ran, 1)


def test_without_a_run_the_one_that_was_meant_is_named(made: MadeRun, inside: Arc) -> None:
    text = refused(inside.inside("run", "resume"), 2).splitlines()
    assert text[0] == "error: which run is to go on? RUN is missing"
    assert re.fullmatch(rf"hint: arc run resume {made.run_id[:8]}  \(made, interrupted \d+[smhd] ago\)", text[2]), text
    assert text[3] == "hint: `arc run resume --help` shows how to use it"
    assert "which run is to be answered? RUN is missing" in refused(inside.inside("run", "answer"), 2)
    made.folder.questions.mkdir(exist_ok=True)
    (made.folder.questions / "1.json").write_text("{}")
    with Lease.acquire(made.folder.lease_file, what="run", clock=made.world.clock):
        assert f"hint: arc run answer {made.run_id[:8]}  (made, waiting" in refused(inside.inside("run", "answer"), 2)
        assert "hint: arc run resume 01" not in refused(inside.inside("run", "resume"), 2)


def test_an_unknown_status_is_a_usage_error(inside: Arc) -> None:
    assert "`done` is no status" in refused(inside.inside("run", "list", "--status", "done"), 2)


def test_show_ends_with_how_to_go_on(made: MadeRun, inside: Arc) -> None:
    lines = inside.inside("run", "show", made.run_id[:-1]).ok().stdout.splitlines()
    assert lines[0].split() == ["run", made.run_id]
    assert lines[-1] == f"next: arc run resume {made.run_id}"
    table = [line.split() for line in lines if line.startswith("@")]
    assert [cells[:3] for cells in table[1:]] == [
        ["@1", "start", "success"],
        ["@2", "plan", "success"],
        ["@3", "build", "fail"],
        ["@4", "build@2", "success"],
        ["@5", "exit", "success"],
    ]


def test_show_a_checkpoint_and_one_value_of_its_context(made: MadeRun, inside: Arc) -> None:
    text = inside.inside("run", "show", made.run_id, "build@1").ok().stdout
    assert "checkpoint @3  build" in text
    assert "  A src/b.txt" in text
    document = inside.inside("run", "show", made.run_id, "@3", "--json").ok().json()
    assert [file["path"] for file in document["files"]] == ["a.txt", "src/b.txt"]
    assert document["checkpoint"]["git_commit_sha"] == document["commit"]
    assert inside.inside("run", "show", made.run_id, "@3", "--context", "last").ok().stdout == "build\n"
    stderr = refused(inside.inside("run", "show", made.run_id, "@3", "--context", "lost"), 4)
    assert "did you mean `last`?" in stderr


def test_an_unknown_target_is_not_found_and_lists_what_exists(made: MadeRun, inside: Arc) -> None:
    stderr = refused(inside.inside("run", "show", made.run_id, "biuld"), 4)
    assert "did you mean `build`?" in stderr
    assert "@4 build@2" in stderr


def test_log_is_newest_first(made: MadeRun, inside: Arc) -> None:
    lines = inside.inside("run", "log", made.run_id, "--oneline").ok().stdout.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        "@5 exit (success)",
        "@4 build@2 (success)",
        "@3 build (fail)",
        "@2 plan (success)",
        "@1 start (success)",
    ]
    assert "+better" in inside.inside("run", "log", made.run_id, "--patch").ok().stdout


def test_diff_of_the_whole_run_of_one_checkpoint_and_of_two(made: MadeRun, inside: Arc) -> None:
    def names(*words: str) -> list[str]:
        return inside.inside("run", "diff", made.run_id, *words, "--name-only").ok().stdout.split()

    assert names() == ["a.txt", "src/b.txt"]
    assert names("plan") == ["a.txt"]
    assert names("@3", "@4") == ["src/b.txt"]
    assert names("@4", "@5") == []
    assert inside.inside("run", "diff", made.run_id, "@0", "@last", "--name-only", "--", "src").ok().stdout == "src/b.txt\n"
    document = inside.inside("run", "diff", made.run_id, "@3", "@4", "--json").ok().json()
    assert document["files"] == [{"path": "src/b.txt", "kind": "modified"}]


def test_logs_are_lines_raw_lines_or_json(made: MadeRun, inside: Arc) -> None:
    raw = inside.inside("run", "logs", made.run_id, "--raw").ok().stdout
    assert raw.encode() == made.folder.events_file.read_bytes()
    assert "node.failed" in inside.inside("run", "logs", made.run_id).ok().stdout
    events = [json.loads(line) for line in inside.inside("run", "logs", made.run_id, "--json").ok().stdout.splitlines()]
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))


def test_logs_of_a_node_are_what_it_printed(made: MadeRun, inside: Arc) -> None:
    folder = made.folder.node_folder(3, "build")
    folder.mkdir(parents=True)
    (folder / "stdout.log").write_text("compiling\n")
    (folder / "stderr.log").write_text("oh\n")
    assert inside.inside("run", "logs", made.run_id, "@3").ok().stdout == "compiling\noh\n"
    assert inside.inside("run", "logs", made.run_id, "build@1", "--stderr").ok().stdout == "oh\n"
    refused(inside.inside("run", "logs", made.run_id, "plan"), 4)


def test_logs_of_a_node_that_has_no_checkpoint_yet(made: MadeRun, inside: Arc) -> None:
    """Running, or interrupted: it has begun, so its output is shown."""
    with made.folder.events_file.open("ab") as log:
        for ordinal, node, visit in ((6, "deploy", 1), (7, "fan:a/lint", 1), (8, "fan:b/lint", 1)):
            event = {"ts": "2026-01-01T00:00:00Z", "run_id": made.run_id, "sequence": 99, "event": "node.started"}
            log.write(json.dumps({**event, "node": node, "ordinal": ordinal, "properties": {"visit": visit}}).encode() + b"\n")
            folder = made.folder.node_folder(ordinal, node)
            folder.mkdir(parents=True)
            (folder / "stdout.log").write_text(f"{node} works\n")
    for target, node in (("deploy", "deploy"), ("deploy@1", "deploy"), ("@6", "deploy"), ("fan:b/lint", "fan:b/lint")):
        assert inside.inside("run", "logs", made.run_id, target).ok().stdout == f"{node} works\n"
    assert "no checkpoint of a node `lint`" in refused(inside.inside("run", "logs", made.run_id, "lint"), 4)
    assert "has no visit 2 of" not in refused(inside.inside("run", "logs", made.run_id, "deploy@2"), 4)


def test_following_a_run_whose_process_is_gone_says_so_and_ends(made: MadeRun, inside: Arc) -> None:
    ran = inside.inside("run", "logs", made.run_id, "-f").ok()
    assert ran.stdout.count("checkpoint.saved") == 5
    assert "the process of run" in ran.stderr
    assert f"arc run resume {made.run_id}" in ran.stderr


def test_cancel_marks_and_says_so(made: MadeRun, inside: Arc) -> None:
    assert inside.inside("run", "cancel", made.run_id).ok().stdout.startswith(f"marked run {made.run_id} as canceled")
    assert inside.inside("run", "cancel", made.run_id, "--json").ok().json()["result"] == "finished"


def test_rewind_without_a_terminal_is_refused_with_the_digest_to_confirm(made: MadeRun, inside: Arc) -> None:
    digest = inside.inside("run", "rewind", made.run_id, "plan", "--plan", "--json").ok().json()["digest"]
    stderr = refused(inside.inside("run", "rewind", made.run_id, "plan"), 3)
    assert f"--confirm {digest}" in stderr
    refused(inside.inside("run", "rewind", made.run_id, "plan", "--confirm", "0" * 32), 3)
    document = inside.inside("run", "rewind", made.run_id, "plan", "--confirm", digest, "--json").ok().json()
    assert document["supersedes"] == made.run_id
    shown = [row["run_id"] for row in inside.inside("run", "list", "--json").ok().json()["runs"]]
    assert shown == [document["run_id"]]


def test_gc_shows_first_and_deletes_what_was_confirmed(made: MadeRun, inside: Arc) -> None:
    made.finish()
    assert "reachable from nowhere else" in inside.inside("run", "gc", "--plan").ok().stderr
    made.repo.git("merge", "-q", "--ff-only", made.branch)
    plan = inside.inside("run", "gc", "--plan", "--json").ok().json()
    assert [(run["run_id"], run["action"]) for run in plan["runs"]] == [(made.run_id, "delete")]
    refused_here = inside.inside("run", "gc")
    assert refused_here.status == 3
    assert made.folder.run_file.exists()
    assert inside.inside("run", "gc", "--confirm", plan["digest"]).ok().stdout.startswith("deleted 1 run, ")
    assert inside.inside("run", "list").ok().stdout == ""


@pytest.mark.parametrize("name", ["list", "show", "log", "diff", "logs", "cancel", "fork", "rewind", "gc"])
def test_each_command_has_help_with_examples(inside: Arc, name: str) -> None:
    text = inside.inside("run", name, "--help").ok().stdout
    assert f"arc run {name}" in text.split("Examples:")[1]


@pytest.mark.kill
@pytest.mark.parametrize("point", ["fork.folder", "fork.objects", "fork.refs"])
def test_a_fork_killed_anywhere_leaves_the_source_and_no_half_refs(made: MadeRun, inside: Arc, point: str) -> None:
    before = made.repo.git("for-each-ref")
    ran = inside("run", "fork", made.run_id, "plan", env={"ARC_FAULT": point})
    assert ran.status == -signal.SIGKILL
    new = [line for line in made.repo.git("for-each-ref", "--format=%(refname)").splitlines() if line not in before]
    assert len(new) == (2 if point == "fork.refs" else 0)
    rows = inside.inside("run", "list", "--json").ok().json()["runs"]
    assert {row["run_id"] == made.run_id: row["status"] for row in rows} == {False: "created", True: "interrupted"}
    assert inside("run", "fork", made.run_id, "plan").ok()
    assert made.repo.git("fsck", "--no-dangling") == ""


@pytest.mark.kill
def test_a_rewind_killed_before_the_source_knows_leaves_a_fork_and_a_live_source(made: MadeRun, inside: Arc) -> None:
    ran = inside("run", "rewind", made.run_id, "plan", "--yes", env={"ARC_FAULT": "rewind.forked"})
    assert ran.status == -signal.SIGKILL
    assert made.known.record.superseded_by is None
    assert len(list(iterate_runs(made.world))) == 2
    assert inside("run", "rewind", made.run_id, "plan", "--yes").ok()


@pytest.mark.kill
@pytest.mark.parametrize("point", ["gc.worktree", "gc.refs", "gc.files"])
def test_a_gc_killed_anywhere_is_finished_by_the_next_one(made: MadeRun, inside: Arc, point: str) -> None:
    made.finish()
    made.repo.git("merge", "-q", "--ff-only", made.branch)
    made.repo.git("worktree", "add", "-q", str(made.folder.worktree), f"arc/run/{made.run_id}")
    assert inside("run", "gc", "--yes", env={"ARC_FAULT": point}).status == -signal.SIGKILL
    assert [row["run_id"] for row in inside.inside("run", "list", "--json").ok().json()["runs"]] == [made.run_id]
    inside("run", "gc", "--yes").ok()
    assert list(made.world.runs.iterdir()) == []
    assert "arc" not in made.repo.git("for-each-ref")
    assert made.repo.git("fsck", "--no-dangling") == ""


@pytest.fixture
def real(repo: MakeRepo, arc: Arc) -> tuple[Repo, Arc, str]:
    """A real run of WORKFLOW, finished."""
    project = repo({"flow.dot": WORKFLOW, "README.md": "# p\n"})
    here = Arc(project.path)
    here("run", "start", "flow.dot", "-i", "style=plain").ok()
    (row,) = here.inside("run", "list", "--json").ok().json()["runs"]
    return project, here, row["run_id"]


@pytest.mark.slow
def test_a_fork_from_inside_a_parallel_block_goes_on_right_there(real: tuple[Repo, Arc, str]) -> None:
    project, arc, run_id = real
    forked = arc.inside("run", "fork", run_id, "left", "--json").ok().json()
    keys = {ref.rsplit("/", 1)[1] for ref in forked["branches"]}
    assert keys in ({"left"}, {"left", "right"})  # `right` may not have had its worktree yet
    arc("run", "resume", forked["run_id"]).ok()
    document = arc.inside("run", "show", forked["run_id"], "--json").ok().json()
    assert document["status"] == "success"
    before = [entry["node"] for entry in document["checkpoints"] if entry["taken_by"] == run_id]
    own = [entry["node"] for entry in document["checkpoints"] if entry["taken_by"] == forked["run_id"]]
    # `right` runs beside `left`: it may have been done before `left` was.
    assert [node for node in before if "right" not in node] == ["start", "plan"]
    assert [node for node in own if "right" not in node] == ["fan:left/left", "fan:left/more", "fan", "join", "build", "exit"]
    assert [node for node in before + own if "right" in node] == ["fan:right/right"]
    assert project.git("show", f"{forked['run_branch']}:out.txt") == "plain\nl\nmore\nr"


@pytest.mark.slow
def test_a_fork_with_another_input_survives_its_source(real: tuple[Repo, Arc, str]) -> None:
    project, arc, run_id = real
    forked = arc.inside("run", "fork", run_id, "start", "-i", "style=fancy", "--json").ok().json()
    arc("run", "gc", run_id, "--discard-unmerged", "--yes").ok()
    project.git("reflog", "expire", "--expire=all", "--all")
    project.git("gc", "-q", "--prune=now")
    arc("run", "resume", forked["run_id"]).ok()
    assert project.git("show", f"{forked['run_branch']}:out.txt") == "fancy\nl\nmore\nr"
    assert project.git("fsck", "--no-dangling") == ""


CHILD = """
digraph child {
  start [shape=Mdiamond]
  one [shape=parallelogram, script="echo one >> c.txt"]
  two [shape=parallelogram, script="echo two >> c.txt"]
  exit [shape=Msquare]
  start -> one -> two -> exit
}
"""
PARENT = """
digraph parent {
  start [shape=Mdiamond]
  review [shape=house, stack.child_dotfile="child.dot", manager.max_cycles=1]
  gate [shape=parallelogram, script="test -e $HOME/open"]
  exit [shape=Msquare]
  start -> review -> gate
  gate -> exit [condition="outcome=success"]
}
"""


@pytest.mark.slow
def test_a_fork_inside_a_child_or_at_a_failed_node_goes_on_there(repo: MakeRepo) -> None:
    project = repo({"parent.dot": PARENT, "child.dot": CHILD})
    arc = Arc(project.path)
    assert arc("run", "start", "parent.dot").status == 1
    (row,) = arc.inside("run", "list", "--json").ok().json()["runs"]
    Path(os.environ["HOME"], "open").touch()

    def fork(target: str) -> tuple[list[str], str]:
        forked = arc.inside("run", "fork", row["run_id"], target, "--json").ok().json()
        arc("run", "resume", forked["run_id"]).ok()
        shown = arc.inside("run", "show", forked["run_id"], "--json").ok().json()["checkpoints"]
        own = [entry["node"] for entry in shown if entry["taken_by"] == forked["run_id"]]
        return own[1:], project.git("show", f"{forked['run_branch']}:c.txt")

    assert fork("review/one") == (["review/two", "review/exit", "review", "gate", "exit"], "one\ntwo")
    assert fork("gate") == (["gate", "exit"], "one\ntwo")


@pytest.mark.slow
def test_the_start_of_a_run_over_a_dirty_tree_is_its_snapshot(repo: MakeRepo) -> None:
    project = repo({"child.dot": CHILD})
    project.write("c.txt", "mine\n")
    arc = Arc(project.path)
    arc("run", "start", "child.dot", "--snapshot-dirty").ok()
    (row,) = arc.inside("run", "list", "--json").ok().json()["runs"]
    forked = arc.inside("run", "fork", row["run_id"], "@0", "--json").ok().json()
    assert project.git("show", f"{forked['commit']}:c.txt") == "mine"
    arc("run", "resume", forked["run_id"]).ok()
    assert project.git("show", f"{forked['run_branch']}:c.txt") == "mine\none\ntwo"
    assert arc.inside("run", "diff", row["run_id"], "--name-only").ok().stdout == "c.txt\n"


@pytest.mark.slow
def test_a_clone_that_fetched_the_two_refs_shows_and_forks(real: tuple[Repo, Arc, str], tmp_path: Path) -> None:
    project, _, run_id = real
    clone = Repo(tmp_path / "clone")
    project.git("clone", "-q", str(project.path), str(clone.path))
    clone.git("fetch", "-q", "origin", *(f"{ref}:{ref}" for ref in (f"refs/arc/{run_id}", f"refs/heads/arc/run/{run_id}")))
    arc = Arc(clone.path)
    home = {"ARC_HOME": str(tmp_path / "other-home")}
    (row,) = json.loads(arc("run", "list", "--json", env=home).ok().stdout)["runs"]
    assert (row["run_id"], row["status"], row["logs_dir"]) == (run_id, "success", None)
    assert "fan:left/more" in arc("run", "show", run_id, env=home).ok().stdout
    refused(arc("run", "logs", run_id, env=home), 3)
    forked = json.loads(arc("run", "fork", run_id, "more", "--json", env=home).ok().stdout)
    arc("run", "resume", forked["run_id"], env=home).ok()
    assert clone.git("show", f"{forked['run_branch']}:out.txt") == "plain\nl\nmore\nr"


@pytest.mark.slow
def test_a_rewind_started_at_once_ends_with_the_same_files(real: tuple[Repo, Arc, str]) -> None:
    project, arc, run_id = real
    arc("run", "rewind", run_id, "join", "--yes", "--start").ok()
    rows = arc.inside("run", "list", "--all", "--json").ok().json()["runs"]
    assert [row["status"] for row in rows] == ["success", "superseded"]
    assert project.git("diff", f"arc/run/{rows[0]['run_id']}", f"arc/run/{run_id}", "--stat") == ""


@pytest.mark.slow
def test_a_live_run_is_followed_and_canceled(repo: MakeRepo, arc: Arc) -> None:
    project = repo({"flow.dot": WORKFLOW.replace("echo l > left.txt", "sleep 300"), "README.md": "# p\n"})
    here = Arc(project.path)
    run = here.start("run", "start", "flow.dot", "-i", "style=plain")
    try:
        run_id = _wait_for_checkpoint(here)
        follower = here.start("run", "logs", run_id, "-f")
        here("run", "cancel", run_id).ok()
        out, err = follower.communicate(timeout=60)
        assert "run.canceled" in out
        assert f"run {run_id} has ended: canceled" in err
    finally:
        run.communicate(timeout=60)
    (folder,) = iterate_runs(make_world(Path(os.environ["ARC_HOME"])))
    assert open_known(folder).status == "canceled"
    here("run", "fork", run_id, "plan").ok()


def _wait_for_checkpoint(arc: Arc) -> str:
    import time

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        rows = arc.inside("run", "list", "--json").ok().json()["runs"]
        if rows and rows[0]["nodes_done"] >= 2:
            return str(rows[0]["run_id"])
        time.sleep(0.05)
    raise AssertionError("no checkpoint came")
