"""`arc run start`, `resume` and `answer` as a person meets them: real processes, real repositories, signals, exit statuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Arc, MakeRepo, Ran, Repo

GOOD = """digraph good {
  start [shape=Mdiamond]
  exit [shape=Msquare]
  write [shape=parallelogram, script="echo made > made.txt"]
  start -> write -> exit
}
"""

SLOW = """digraph slow {
  start [shape=Mdiamond]
  exit [shape=Msquare]
  wait_here [shape=parallelogram, script="test -e go || { echo ready; sleep 60; }"]
  start -> wait_here -> exit
}
"""

ASKING = """digraph asking {
  start [shape=Mdiamond]
  exit [shape=Msquare]
  gate [shape=hexagon, label="Ship it?"]
  ship [shape=parallelogram, script="echo shipped > shipped.txt"]
  start -> gate
  gate -> ship [label="[A] Approve"]
  gate -> exit [label="[R] Reject"]
  ship -> exit
}
"""

FAILING = GOOD.replace("echo made > made.txt", "for i in $(seq 12); do echo error $i >&2; done; exit 3")


@pytest.fixture
def project(repo: MakeRepo) -> Repo:
    return repo({"good.dot": GOOD, "slow.dot": SLOW, "asking.dot": ASKING, "failing.dot": FAILING})


def run_folders() -> list[Path]:
    return sorted((Path(os.environ["ARC_HOME"]) / "runs").glob("*"))


def until(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 60) -> None:
    """Wait until `condition` holds; fail with the process's output if it ends before."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def waits_in_command(times: int = 1) -> bool:
    """Whether the slow command has begun that often, over all processes."""
    logs = [file for folder in run_folders() for file in folder.glob("nodes/*wait_here*/stdout*")]
    return sum(file.read_bytes().startswith(b"ready") for file in logs) >= times


def test_a_good_run_ends_with_0_and_says_where_its_work_is(arc: Arc, project: Repo) -> None:
    ran = arc("run", "start", "good.dot", cwd=project.path).ok()
    (folder,) = run_folders()
    branch = f"arc/run/{folder.name}"
    assert ran.stdout.startswith(f"✓ success  run {folder.name}")
    assert f"git merge {branch}" in ran.stdout
    assert [line.split()[:2] for line in ran.stderr.splitlines() if line.startswith("✓")] == [["✓", "start"], ["✓", "write"], ["✓", "exit"]]
    assert project.git("show", f"{branch}:made.txt") == "made"
    assert project.git("status", "--porcelain") == ""


def test_json_gives_one_document_and_a_silent_stderr(arc: Arc, project: Repo) -> None:
    ran = arc("run", "start", "good.dot", "--json", cwd=project.path).ok()
    document = ran.json()
    assert ran.stderr == ""
    assert document["status"] == "success"
    assert document["run_branch"] == f"arc/run/{document['run_id']}"
    assert document["metadata_ref"] == f"refs/arc/{document['run_id']}"
    assert document["kept_worktree"] is None


def test_quiet_leaves_only_the_answer(arc: Arc, project: Repo) -> None:
    ran = arc("run", "start", "good.dot", "-q", cwd=project.path).ok()
    assert ran.stderr == ""
    assert ran.stdout.startswith("✓ success")


def test_a_failed_run_ends_with_1_and_says_why_where_and_how_to_go_on(arc: Arc, project: Repo) -> None:
    ran = arc("run", "start", "failing.dot", cwd=project.path)
    (folder,) = run_folders()
    run_id = folder.name
    assert ran.status == 1
    assert "failed: exit code 3" in ran.stderr
    first, reason, *rest = ran.stdout.splitlines()
    assert first.startswith(f"✗ fail  run {run_id}  ")
    assert reason.startswith("  node `write` ended with outcome `fail`")
    assert rest == [
        "",
        "  the end of stderr of @2 write",
        *(f"  │ error {number}" for number in range(3, 13)),
        "",
        f"  output  arc run logs {run_id} @2",
        f"  look    git log -p arc/run/{run_id}",
        f"  state   arc run show {run_id}",
        f"  resume  arc run resume {run_id}",
        f"  fork    arc run fork {run_id} @1",
    ]
    assert arc.inside("run", "logs", run_id, "@2").ok().stdout.splitlines()[-1] == "error 12"


def test_a_finished_run_is_not_run_again_and_says_so(arc: Arc, project: Repo) -> None:
    arc("run", "start", "good.dot", cwd=project.path).ok()
    (folder,) = run_folders()
    events = (folder / "events.jsonl").read_bytes()
    for words in (("resume", folder.name), ("start", "--run-branch", f"arc/run/{folder.name}")):
        ran = arc("run", *words, cwd=project.path).ok()
        assert ran.stderr == ""
        assert ran.stdout.splitlines() == [
            f"run {folder.name} has finished (success); nothing to resume",
            f"  look    git log -p arc/run/{folder.name}",
            f"  state   arc run show {folder.name}",
            f"  merge   git merge arc/run/{folder.name}",
        ]
    assert (folder / "events.jsonl").read_bytes() == events


@pytest.mark.parametrize("way", ["--run-branch", "--resume"])
def test_options_that_a_resume_would_ignore_are_refused_by_name(arc: Arc, project: Repo, way: str) -> None:
    given = {
        "--goal": "g",
        "--input": "a=b",
        "--label": "a=b",
        "--script": "s",
        "--logs-dir": "d",
    }
    for name, value in given.items():
        ran = arc.inside("run", "start", way, "arc/run/X", name, value)
        assert ran == Ran(
            "",
            f"error: `{name}` does not go with `{way}`: a run goes on as it was started\n\n"
            "hint: to change its inputs: `arc run fork RUN @last -i KEY=VALUE`\n",
            2,
        )
    ran = arc.inside("run", "start", way, "arc/run/X", "--dry-run", "--logs-dir", "d", "--snapshot-dirty")
    assert ran.stderr.startswith(f"error: `--logs-dir`, `--dry-run` and `--snapshot-dirty` do not go with `{way}`")


@pytest.mark.parametrize("way", ["resume", "--run-branch", "--resume"])
def test_a_run_whose_agent_failed_goes_on_with_another_one_and_remembers_it(arc: Arc, repo: MakeRepo, way: str) -> None:
    project = repo({"w.dot": "digraph g { start [shape=Mdiamond] exit [shape=Msquare] plan [prompt=p] start -> plan -> exit }"})
    assert arc("run", "start", "w.dot", "--agent-command", "false", cwd=project.path).status == 1
    (folder,) = (Path(os.environ["ARC_HOME"]) / "runs").iterdir()
    words = {
        "resume": ("resume", folder.name),
        "--run-branch": ("start", "--run-branch", f"arc/run/{folder.name}"),
        "--resume": ("start", "--resume", str(folder / "checkpoint.json")),
    }[way]
    assert arc("run", *words, cwd=project.path).status == 1  # as it was started
    ran = arc("run", *words, "--agent-command", "echo {model}", "--model", "m1", "--auto-approve", cwd=project.path).ok()
    said = "from here on the run goes on with backend `cli`, command `echo '{model}'`, model `m1`, gates take their first choice"
    assert f"note: {said}" in ran.stderr
    config = json.loads((folder / "run.json").read_text())["config"]
    assert (config["model"]["command"], config["model"]["model"], config["auto_approve"]) == (["echo", "{model}"], "m1", True)
    shown = arc("run", "show", folder.name, "plan", "--context", "last_response", cwd=project.path).ok()
    assert shown.stdout == "m1\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "start"], "a workflow is missing"),
        (["run", "start", "good.dot", "-i", "novalue"], "`--input novalue` is not KEY=VALUE"),
        (["run", "start", "good.dot", "-i", "a=1", "-i", "a=2"], "`--input a=…` is given twice"),
        (["run", "start", "good.dot", "--agent-command", "x", "--script", "y"], "two different backends"),
        (["run", "start", "good.dot", "--agent-command", "'"], "cannot be split"),
        (["run", "start", "--resume", "c.json", "--run-branch", "arc/run/X"], "give one"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_starts_nothing(arc: Arc, project: Repo, arguments: list[str], message: str) -> None:
    ran = arc(*arguments, cwd=project.path)
    assert ran.status == 2, ran.stderr
    assert message in ran.stderr.splitlines()[0]
    assert run_folders() == []


def test_a_broken_workflow_is_shown_with_place_and_caret(arc: Arc, project: Repo) -> None:
    project.write("broken.dot", "digraph broken {\n  start [shape=]\n}\n")
    ran = arc("run", "start", "broken.dot", cwd=project.path)
    lines = ran.stderr.splitlines()
    assert ran.status == 1
    assert lines[0].startswith("error: broken.dot:2:16: ")
    assert lines[1].strip() == "start [shape=]"
    assert lines[2].strip() == "^"
    assert len([line for line in lines if "^" in line]) == 1
    assert run_folders() == []


def test_each_of_several_errors_of_a_workflow_is_told_once_with_its_hint(arc: Arc, project: Repo) -> None:
    project.write(
        "bad.dot", 'digraph bad {\n  start [shape=Mdiamond]\n  a [shape=parallelogram, timeout="3 hours", script="x"]\n  start -> a\n}\n'
    )
    (project.path / "sub").mkdir()
    ran = arc("run", "start", str(project.path / "bad.dot"), cwd=project.path / "sub")
    assert (ran.status, ran.stdout) == (1, "")
    assert ran.stderr.splitlines() == [
        "error: `../bad.dot` has 2 errors",
        "",
        "../bad.dot:1:1: the workflow has no exit node",
        "    digraph bad {",
        "    ^",
        'hint: give one node shape=Msquare or type="exit", or call it `exit`',
        "",
        "../bad.dot:3:35: `3 hours` cannot be the value of `timeout`",
        '      a [shape=parallelogram, timeout="3 hours", script="x"]',
        "                                      ^",
        "expected duration (`250ms`, `90s`, `15m`, `2h`, `1d`) or a number of seconds",
    ]


@pytest.mark.kill
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_stops_the_run_so_that_it_can_be_resumed(arc: Arc, project: Repo, number: signal.Signals, status: int) -> None:
    process = arc.start("run", "start", "slow.dot", cwd=project.path)
    until(waits_in_command, process)
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == status
    assert output.startswith("■ canceled  run ")
    assert "arc run resume " in output
    assert "stopping after the checkpoint… (once more: now)" in errors
    assert "Traceback" not in errors
    (folder,) = run_folders()
    listed = arc("run", "list", "--json", cwd=project.path).ok().json()["runs"]
    assert [run["status"] for run in listed] == ["canceled"]
    ran = arc("run", "log", folder.name, "--oneline", cwd=project.path).ok()
    assert "start" in ran.stdout


@pytest.mark.kill
def test_a_run_killed_in_a_node_is_interrupted_and_its_finished_nodes_do_not_run_again(arc: Arc, project: Repo) -> None:
    process = arc.start("run", "start", "slow.dot", cwd=project.path)
    until(waits_in_command, process)
    process.kill()
    process.communicate()
    (folder,) = run_folders()
    assert [run["status"] for run in arc("run", "list", "--json").ok().json()["runs"]] == ["interrupted"]
    (folder / "worktree" / "go").write_text("")  # a half-done edit: it is set aside, so the command waits again
    resumed = arc.start("run", "resume", folder.name[:12], cwd=project.path)
    until(lambda: waits_in_command(2), resumed)
    resumed.send_signal(signal.SIGINT)
    resumed.communicate(timeout=30)
    started = [
        event["node"]
        for line in (folder / "events.jsonl").read_text().splitlines()
        if (event := json.loads(line))["event"] == "node.started"
    ]
    assert started == ["start", "wait_here", "wait_here"]


def test_a_question_is_answered_from_another_terminal(arc: Arc, project: Repo) -> None:
    process = arc.start("run", "start", "asking.dot", cwd=project.path)
    until(lambda: any(file for folder in run_folders() for file in folder.glob("questions/*.json")), process)
    (folder,) = run_folders()
    shown = arc("run", "answer", folder.name).ok()
    assert "Ship it?" in shown.stdout
    assert "[A] Approve" in shown.stdout
    assert f"arc run answer {folder.name}" in shown.stderr
    answered = arc("run", "answer", folder.name, "A").ok()
    assert answered.stdout.startswith("answered question")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output.startswith("✓ success")
    assert project.git("show", f"arc/run/{folder.name}:shipped.txt") == "shipped"
    assert arc("run", "answer", folder.name, "A").status == 4


def test_resuming_a_run_that_is_not_there_ends_with_4(arc: Arc) -> None:
    ran = arc("run", "resume", "01JX")
    assert ran.status == 4
    assert ran.stderr.startswith("error: ")


def test_a_dry_run_writes_nothing_to_the_repository(arc: Arc, project: Repo) -> None:
    before = project.git("for-each-ref")
    arc("run", "start", "good.dot", "--dry-run", cwd=project.path).ok()
    assert project.git("for-each-ref") == before
    assert not (project.path / "made.txt").exists()


def test_a_closed_pipe_ends_quietly(arc: Arc, project: Repo) -> None:
    arc("run", "start", "good.dot", cwd=project.path).ok()
    process = arc.start("run", "list")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141
    process.stderr.close()


def test_a_ctrl_c_that_meets_an_import_is_no_bug(arc: Arc, tmp_path: Path) -> None:
    """Python wraps it in a RuntimeError where it arrives while a class is being made."""
    (tmp_path / "sitecustomize.py").write_text(
        "import arc.cli.run_start\n"
        "class Field:\n    def __set_name__(self, owner, name):\n        raise KeyboardInterrupt\n"
        "def command(workflow: str):\n    type('Made', (), {'field': Field()})\n"
        "arc.cli.run_start.command = command\n"
    )
    assert arc("run", "start", "x.dot", env={"PYTHONPATH": str(tmp_path)}) == Ran("", "", 130)


@pytest.mark.kill
def test_a_second_ctrl_c_does_not_wait_for_commands(arc: Arc, project: Repo) -> None:
    project.write("stubborn.dot", SLOW.replace("test -e go || { echo ready; sleep 60; }", "trap '' TERM INT; echo ready; sleep 60"))
    project.git("add", "-A")
    project.git("commit", "-qm", "stubborn")
    process = arc.start("run", "start", "stubborn.dot", cwd=project.path)
    until(waits_in_command, process)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    seen = ""
    while "stopping after the checkpoint" not in seen:
        seen += process.stderr.readline()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopping now" in seen + errors
    assert "Traceback" not in seen + errors
    assert output.startswith("■ canceled  run ")


def test_a_bug_leaves_a_report_and_ends_with_70(arc: Arc, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import arc.cli.run_start\ndef command(workflow: str):\n    1 / 0\narc.cli.run_start.command = command\n"
    )
    ran = arc("run", "start", "x.dot", env={"PYTHONPATH": str(tmp_path)})
    assert ran.status == 70
    assert ran.stderr.splitlines()[0] == "error: arc met a bug: ZeroDivisionError: division by zero"
    assert "Traceback" not in ran.stderr
    (report,) = (Path(os.environ["ARC_HOME"]) / "reports").iterdir()
    assert str(report) in ran.stderr
    assert "1 / 0" in report.read_text()
    assert "Traceback" in arc("--debug", "run", "start", "x.dot", env={"PYTHONPATH": str(tmp_path)}).stderr


def test_neither_the_report_of_a_bug_nor_its_message_holds_a_secret(arc: Arc, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import arc.cli.validate as v\n"
        "def command(files: list[str], inputs: v.Inputs = None):\n    raise ValueError(f'{inputs} sesame-open')\n"
        "v.command = command\n"
    )
    words = ["x.dot", "-i", "token=first-secret", "--input=api_key=pin", "-ipassword=third-secret", "-i", "colour=green"]
    ran = arc("validate", *words, env={"PYTHONPATH": str(tmp_path), "DOOR_SECRET": "sesame-open"})
    assert ran.status == 70
    (report,) = (Path(os.environ["ARC_HOME"]) / "reports").iterdir()
    text = report.read_text()
    assert (
        "command: arc validate x.dot -i token=«redacted:token» --input=api_key=«redacted:api_key» -ipassword=«redacted:password» "
        "-i colour=green\n"
    ) in text
    for secret in ("first-secret", "third-secret", "sesame-open"):
        assert secret not in text + ran.stderr
    assert "«redacted:DOOR_SECRET»" in ran.stderr
