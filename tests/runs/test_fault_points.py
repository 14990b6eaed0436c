"""Every named failure point in the code is one at which a test kills the process; here are those outside of a run's ordinary course."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import time
from pathlib import Path

import pytest

import arc
from arc.base.clock import SystemClock
from arc.base.faults import FAULT_POINTS
from arc.runs.answers import answer_question, open_questions
from arc.runs.records import RunRecord
from arc.runs.store import RunFolder, shown_status
from tests.conftest import Arc, MakeRepo
from tests.runs import test_resume_kill as ordinary
from tests.runs.helpers import chain
from tests.runs.killing import Checkout, Project

KILLED_HERE = {
    *("adopt.folder", "adopt.refs", "artifacts.written", "finish.disk", "finish.refs", "folder.registered", "git.worktree.moved"),
    *("question.asked", "question.answered", "restore.filled"),
}
KILLED_BY_COMMANDS = {"fork.folder", "fork.objects", "fork.refs", "rewind.forked", "gc.worktree", "gc.refs", "gc.files"}
"""In tests/cli/test_run_history.py."""

GATED = chain(one="echo one >> one.txt", two="echo two >> two.txt; test -e $GO").replace(
    "-> two -> exit", '-> two\n  two -> exit [condition="outcome=success"]'
)


def test_every_point_is_killed_somewhere() -> None:
    for module in pkgutil.walk_packages(arc.__path__, "arc."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    ordinary_points = {point.partition(":")[0] for point in (*ordinary.POINTS, *ordinary.BEFORE_RUN, *ordinary.RESUME, *ordinary.ASIDE)}
    source = (Path(__file__).parents[1] / "cli/test_run_history.py").read_text("utf-8")
    assert {name for name in KILLED_BY_COMMANDS if f'"{name}"' not in source} == set()
    assert set(FAULT_POINTS) - ordinary_points - KILLED_HERE - KILLED_BY_COMMANDS == set()


def project_of(repo: MakeRepo, room: Path, graph: str) -> Project:
    return Project(repo({"w.dot": graph}), room)


def record(project: Project) -> RunRecord:
    return project.folder().read_record()


@pytest.mark.kill
@pytest.mark.parametrize("point", ["finish.disk", "finish.refs"])
def test_killed_while_the_end_is_written_down(repo: MakeRepo, tmp_path: Path, point: str) -> None:
    """The watchdog ends the run in the middle of `two`: nothing but the run's status changes after the last checkpoint."""
    stalling = chain(one="echo one >> one.txt", two="echo two >> two.txt; test -e $GO || sleep 600")
    project = project_of(repo, tmp_path, stalling.replace("{", "{ stall_timeout=1500ms", 1))
    go = {"GO": str(tmp_path / "go")}
    assert project.drive("start", "w.dot", {**go, "ARC_FAULT": point}).killed
    assert shown_status(project.folder()) == "interrupted"
    (tmp_path / "go").touch()
    ended = project.drive("resume", project.folder().run_id, go)
    assert (ended.stdout, ended.status) == ("success", 0), ended.stderr
    branch = f"arc/run/{project.folder().run_id}"
    assert project.repo.git("show", f"{branch}:one.txt") == "one"
    assert project.repo.git("show", f"{branch}:two.txt") == "two", "what the stalled node had done is set aside"


@pytest.mark.kill
def test_killed_between_an_artifact_and_the_checkpoint_that_refers_to_it(repo: MakeRepo, tmp_path: Path) -> None:
    project = project_of(repo, tmp_path, chain(one="seq 40000; echo one >> one.txt", two="true"))
    assert project.drive("start", "w.dot", {"ARC_FAULT": "artifacts.written"}).killed
    assert len(list(project.folder().artifacts.glob("*.json"))) == 1
    ended = project.drive("resume", project.folder().run_id)
    assert ended.stdout == "success", ended.stderr
    assert project.repo.git("show", f"arc/run/{project.folder().run_id}:one.txt") == "one"
    assert len(list(project.folder().artifacts.glob("*.json"))) == 1, "once per content"


QUESTION = """digraph q { start [shape=Mdiamond]; exit [shape=Msquare]; gate [shape=hexagon, label="good?"]
  yes [shape=parallelogram, script="echo yes > answer.txt"]; no [shape=parallelogram, script="echo no > answer.txt"]
  start -> gate; gate -> yes [label="[Y] yes"]; gate -> no [label="[N] no"]; yes -> exit; no -> exit }"""


def answer_when_asked(project: Project, answer: str) -> None:
    deadline = time.monotonic() + 60
    while not (project.run_ids() and open_questions(project.folder())):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    answer_question(project.folder(), None, answer, clock=SystemClock())


@pytest.mark.kill
@pytest.mark.parametrize("point", ["question.asked", "question.answered"])
def test_killed_around_a_question(repo: MakeRepo, tmp_path: Path, point: str) -> None:
    """The gate had not completed: it asks again, and the answer to the first question is not taken for one to the second."""
    project = project_of(repo, tmp_path, QUESTION)
    with project.popen("start", "w.dot", {"ARC_FAULT": point}) as process:
        if point == "question.answered":
            answer_when_asked(project, "y")
        process.communicate(timeout=60)
    assert process.returncode == -9
    with project.popen("resume", project.folder().run_id) as process:
        deadline = time.monotonic() + 60
        while len(list(project.folder().questions.glob("[0-9]*.json"))) < 3:  # the first question, its answer or its end, the second
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        answer_when_asked(project, "n")
        out, err = process.communicate(timeout=60)
    assert out.strip() == "success", err
    assert project.repo.git("show", f"arc/run/{project.folder().run_id}:answer.txt") == "no"
    assert open_questions(project.folder()) == ()


@pytest.mark.kill
def test_killed_after_a_folder_elsewhere_was_registered(repo: MakeRepo, arc: Arc, tmp_path: Path) -> None:
    project = project_of(repo, tmp_path, GATED)
    logs, environ = tmp_path / "logs", {**project.environ(), "ARC_FAULT": "folder.registered"}
    ended = arc("run", "start", "w.dot", "--logs-dir", str(logs), cwd=project.repo.path, env=environ)
    assert ended.status == -9
    assert project.repo.git("for-each-ref", "refs/arc", "refs/heads/arc") == ""
    (run_id,) = project.run_ids()
    listed = arc("run", "list", "--json", cwd=project.repo.path, env=project.environ()).ok()
    assert "running" not in listed.stdout
    folder = RunFolder(logs, run_id)
    assert folder.holder() is None


@pytest.mark.kill
def test_killed_while_a_lost_registration_is_made_again(repo: MakeRepo, tmp_path: Path) -> None:
    project = project_of(repo, tmp_path, chain(one="echo one >> one.txt", two="echo two >> two.txt"))
    before = Checkout.of(project.repo)
    assert project.drive("start", "w.dot", {"ARC_FAULT": "checkpoint.told:2"}).killed
    shutil.rmtree(project.repo.path / ".git/worktrees")
    run_id = project.folder().run_id
    assert project.drive("resume", run_id, {"ARC_FAULT": "git.worktree.moved"}).killed
    ended = project.drive("resume", run_id)
    assert ended.stdout == "success", ended.stderr
    assert project.repo.git("show", f"arc/run/{run_id}:two.txt") == "two"
    assert project.repo.git("worktree", "list", "--porcelain").count("worktree ") == 1
    assert Checkout.of(project.repo) == before


@pytest.mark.kill
def test_killed_while_a_clone_makes_the_folder(repo: MakeRepo, tmp_path: Path) -> None:
    project = project_of(repo, tmp_path, chain(one="echo one >> one.txt", two="echo two >> two.txt"))
    assert project.drive("start", "w.dot", {"ARC_FAULT": "checkpoint.told:2"}).killed
    run_id = project.folder().run_id
    elsewhere = project.clone(tmp_path / "elsewhere", f"refs/arc/{run_id}", f"refs/heads/arc/run/{run_id}")
    assert elsewhere.drive("resume", run_id, {"ARC_FAULT": "restore.filled"}).killed
    assert not elsewhere.folder().run_file.exists()
    ended = elsewhere.drive("resume", run_id)
    assert ended.stdout == "success", ended.stderr
    assert elsewhere.repo.git("show", f"arc/run/{run_id}:two.txt") == "two"


@pytest.mark.kill
@pytest.mark.parametrize("point", ["adopt.folder", "adopt.refs"])
def test_killed_while_a_run_is_made_of_a_file(repo: MakeRepo, arc: Arc, tmp_path: Path, point: str) -> None:
    project = project_of(repo, tmp_path, GATED)
    environ = project.environ({"GO": str(tmp_path / "go")})
    assert arc("run", "start", "w.dot", cwd=project.repo.path, env=environ).status == 1
    run_id = project.folder().run_id
    saved = shutil.move(project.folder().checkpoint_file, tmp_path / "saved.json")
    shutil.rmtree(project.home)
    project.repo.git("worktree", "prune")
    project.repo.git("tag", "keep", f"arc/run/{run_id}")
    for ref in (f"refs/heads/arc/run/{run_id}", f"refs/arc/{run_id}"):
        project.repo.git("update-ref", "-d", ref)
    (tmp_path / "go").touch()
    words = ("run", "start", "w.dot", "--resume", str(saved))
    assert arc(*words, cwd=project.repo.path, env={**environ, "ARC_FAULT": point}).status == -9
    assert not project.folder().run_file.exists()
    arc(*words, cwd=project.repo.path, env=environ).ok()
    assert record(project).status == "success"
    assert project.repo.git("show", f"arc/run/{run_id}:two.txt") == "two\ntwo"
