"""Where runs work: one run in place per checkout, run folders inside a checkout, disks that are full or read-only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from arc.base.errors import ExitStatus
from arc.base.locks import LeaseHeldError
from arc.runs.errors import LogsDirError, StateMismatchError
from arc.runs.place import claim_place
from arc.runs.store import find_run, shown_status
from tests.conftest import Arc, MakeRepo, Repo
from tests.runs.helpers import Told, chain, folder_of, resume, start, world_in

GATED = chain(one="echo one >> one.txt", two="test -e $GO").replace("-> two -> exit", '-> two\n  two -> exit [condition="outcome=success"]')


def test_a_second_run_in_place_is_refused_by_name(repo: MakeRepo, tmp_path: Path) -> None:
    project, world = repo({"w.dot": GATED, "sub/x": ""}), world_in(tmp_path, {"GO": str(tmp_path / "go")})
    project.write("dirty.txt", "")
    first = start(project.path / "w.dot", world)
    (tmp_path / "go").touch()
    with claim_place(world, project.path / "sub", "01OTHER"):
        message = f"where the run would work in place, is held by run 01OTHER, process {os.getpid()} on"
        with pytest.raises(LeaseHeldError, match=message):
            start(project.path / "w.dot", world)
        with pytest.raises(LeaseHeldError, match=message):
            resume(world, first.run_id)
        assert start(project.path / "w.dot", world, dry_run=True).status in ("success", "fail"), "a dry run touches nothing"
        assert start(project.path / "w.dot", world, snapshot_dirty=True).status == "success", "a worktree is a place of its own"
    assert resume(world, first.run_id).status == "success", "it was released"
    assert len(list(world.runs.iterdir())) == 3, "a refused start leaves no folder"


@pytest.mark.parametrize("inside", ["logs", "home"])
def test_a_run_folder_inside_the_checkout_is_not_taken_for_work(repo: MakeRepo, tmp_path: Path, inside: str) -> None:
    project, world = repo({"w.dot": chain(one="echo one >> one.txt")}), world_in(tmp_path)
    logs = project.path / "logs" if inside == "logs" else None
    if inside == "home":
        world = replace(world, home=project.path / "arc-home")
    project.write("dirty.txt", "mine")
    result = start(project.path / "w.dot", world, logs_dir=logs, snapshot_dirty=True)
    assert result.status == "success"
    assert project.git("status", "--porcelain") == "?? dirty.txt"
    files = project.git("ls-tree", "-r", "--name-only", result.run_branch or "").splitlines()
    assert files == ["dirty.txt", "one.txt", "w.dot"]


def test_a_workflow_that_changed_since_is_said_and_not_used(repo: MakeRepo, tmp_path: Path) -> None:
    project, world = repo({"w.dot": GATED}), world_in(tmp_path, {"GO": str(tmp_path / "go")})
    first = start(project.path / "w.dot", world)
    project.write("w.dot", chain(other="true"))
    (tmp_path / "go").touch()
    told = Told()
    assert resume(replace(world, observer=told), first.run_id).status == "success"
    assert told.ran() == ["two", "exit"]
    assert f"`{project.path / 'w.dot'}` says something else by now" in told.notices()["resume.workflow_differs"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=0755", "arc-test", str(place)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


FILL = "dd if=/dev/zero of=$FILLED/filler bs=64k 2>/dev/null; dd if=/dev/zero of=$FILLED/filler2 bs=1k 2>/dev/null; true"


def test_a_full_disk_under_the_home_stops_the_run_and_space_lets_it_go_on(repo: MakeRepo, arc: Arc, small_disk: Path) -> None:
    project = repo({"w.dot": chain(one="echo one >> one.txt", two=f"echo two >> two.txt; {FILL}", three="echo three >> three.txt")})
    environ = {"ARC_HOME": str(small_disk / "home"), "FILLED": str(small_disk)}
    ended = arc("run", "start", "w.dot", cwd=project.path, env=environ)
    assert ended.status == ExitStatus.FAILED
    assert "No space left on device" in ended.stderr
    (run_id,) = os.listdir(small_disk / "home/runs")
    assert '"interrupted"' in arc("run", "list", "--json", cwd=project.path, env=environ).ok().stdout
    branch = f"arc/run/{run_id}"
    assert "two.txt" not in project.git("ls-tree", "--name-only", branch), "nothing is reported as saved that is not"
    for name in ("filler", "filler2"):
        (small_disk / name).unlink()
    resumed = arc("run", "resume", run_id, cwd=project.path, env={**environ, "FILLED": "/nowhere"})
    assert resumed.status == 0, resumed.stderr
    assert [project.git("show", f"{branch}:{name}.txt") for name in ("one", "two", "three")] == ["one", "two", "three"]


def test_a_full_disk_under_the_repository_is_told_and_the_next_checkpoint_has_it_all(arc: Arc, small_disk: Path, tmp_path: Path) -> None:
    project = Repo(small_disk / "project")
    project.path.mkdir()
    project.git("init", "-q", "-b", "main")
    three = "rm -f $FILLED/filler $FILLED/filler2; echo three >> three.txt"
    project.write("w.dot", chain(one="echo one >> one.txt", two=f"echo two >> two.txt; {FILL}", three=three))
    project.commit()
    environ = {"FILLED": str(small_disk)}
    ended = arc("run", "start", "w.dot", "--json", cwd=project.path, env=environ)
    assert ended.status == 0, ended.stderr
    document = ended.json()
    assert (small_disk / "filler").exists() is False
    assert any("could not be committed to Git" in text for text in document["notices"])
    log = project.git("log", "--format=%s", f"arc/run/{document['run_id']}").splitlines()
    assert [line.partition(": ")[2] for line in log][:2] == ["exit (success)", "three (success)"]
    assert not any(line.endswith(": two (success)") for line in log)
    assert project.git("show", f"arc/run/{document['run_id']}:two.txt") == "two"
    assert project.git("fsck", "--no-dangling") == ""


def test_a_home_that_cannot_be_written_starts_nothing(repo: MakeRepo, tmp_path: Path) -> None:
    """As somebody who is not root: root writes everywhere."""
    project = repo({"w.dot": chain(one="true")})
    home = tmp_path / "read-only"
    home.mkdir(mode=0o555)
    code = (
        "import os, sys; from pathlib import Path; from arc.runs.store import create_run_folder; from arc.runs.world import World\n"
        "from arc.base.errors import ArcError\n"
        "if os.geteuid() == 0:\n    os.setgroups([]); os.setuid(65534)\n"
        "try:\n    create_run_folder(World(Path(sys.argv[1]), {}), '01X')\n"
        "except ArcError as error:\n    print(error.code, error)"
    )
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", code, str(home)], capture_output=True, text=True, cwd=project.path)
    assert done.stdout.strip() == f"run.logs_dir the run folder `{home}/runs/01X` cannot be created: Permission denied", done.stderr
    (tmp_path / "file").write_text("")
    with pytest.raises(LogsDirError, match="cannot be created"):
        start(project.path / "w.dot", replace(world_in(tmp_path), home=tmp_path / "file"))
    assert project.git("for-each-ref", "refs/arc", "refs/heads/arc") == ""


def test_ten_starts_at_once(repo: MakeRepo, arc: Arc, tmp_path: Path) -> None:
    project = repo({"w.dot": chain(one="echo one >> one.txt", two="echo two >> two.txt")})
    processes = [arc.start("run", "start", "w.dot", "--json", cwd=project.path) for _ in range(10)]
    ended = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 10, ended
    branches = project.git("for-each-ref", "--format=%(refname)", "refs/heads/arc/run").splitlines()
    assert len(branches) == 10
    assert {project.git("rev-parse", f"{branch}^{{tree}}") for branch in branches} == {project.git("rev-parse", f"{branches[0]}^{{tree}}")}
    assert project.git("worktree", "list", "--porcelain").count("worktree ") == 1
    assert project.git("fsck", "--no-dangling") == ""


@pytest.mark.kill
def test_of_two_resumes_at_once_one_gets_the_run(repo: MakeRepo, arc: Arc, tmp_path: Path) -> None:
    project, world = repo({"w.dot": GATED}), world_in(tmp_path, {"GO": str(tmp_path / "go")})
    first = start(project.path / "w.dot", world)
    environ = {"ARC_HOME": str(world.home), "GO": str(tmp_path / "go")}
    (tmp_path / "go").touch()
    processes = [arc.start("run", "resume", first.run_id, cwd=project.path, env=environ) for _ in range(4)]
    ended = [process.communicate(timeout=60) for process in processes]
    statuses = sorted(process.returncode for process in processes)
    assert set(statuses) <= {0, int(ExitStatus.BUSY)}, ended
    assert statuses[0] == 0
    events = folder_of(first).events_file.read_text()
    assert events.count('"event":"run.resumed"') == 1, "the others found it held, or finished"
    log = project.git("log", "--format=%s", first.run_branch or "").splitlines()
    assert len([line for line in log if line.endswith(": two (success)")]) == 1


@pytest.mark.kill
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_moment_leaves_a_run_that_can_be_resumed(repo: MakeRepo, arc: Arc, tmp_path: Path, number: signal.Signals) -> None:
    """Moments are spread over the whole life of the process by a deadline that grows with each round."""
    graph = chain(**{f"n{i}": f"echo n{i} >> n{i}.txt" for i in range(5)})
    project = repo({"w.dot": graph})
    for round_number in range(8):
        home = tmp_path / f"home-{round_number}"
        process = arc.start("run", "start", "w.dot", cwd=project.path, env={"ARC_HOME": str(home)})
        wait_for_events(home, process, round_number * 4)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert process.returncode in (0, 128 + number, -number), (out, err)
        runs = list((home / "runs").iterdir()) if (home / "runs").is_dir() else []
        if not runs or not (runs[0] / "run.json").exists():
            continue
        run_id = runs[0].name
        world = replace(world_in(tmp_path), home=home)
        assert shown_status(find_run(world, run_id)) in ("success", "canceled", "interrupted", "created")
        ended = arc("run", "resume", run_id, cwd=project.path, env={"ARC_HOME": str(home)})
        assert ended.status == 0, ended.stderr
        assert [project.git("show", f"arc/run/{run_id}:n{i}.txt") for i in range(5)] == [f"n{i}" for i in range(5)]
    assert project.git("worktree", "list", "--porcelain").count("worktree ") == 1


def wait_for_events(home: Path, process: subprocess.Popen[str], count: int) -> None:
    """Until the run has written that many events, or has ended."""
    deadline = time.monotonic() + 60
    while process.poll() is None and sum(len(path.read_bytes().splitlines()) for path in home.glob("runs/*/events.jsonl")) < count:
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.kill
def test_a_folder_deleted_under_a_live_run_ends_it_with_an_error(repo: MakeRepo, arc: Arc, tmp_path: Path) -> None:
    project = repo({"w.dot": chain(one="touch $BEGUN; until test -e $GO; do sleep 0.05; done", two="true")})
    environ = {"BEGUN": str(tmp_path / "begun"), "GO": str(tmp_path / "go"), "ARC_HOME": str(tmp_path / "home")}
    process = arc.start("run", "start", "w.dot", cwd=project.path, env=environ)
    deadline = time.monotonic() + 60
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (run_id,) = os.listdir(tmp_path / "home/runs")
    shutil.move(tmp_path / "home/runs" / run_id, tmp_path / "gone")
    (tmp_path / "go").touch()
    _, err = process.communicate(timeout=60)
    assert process.returncode == ExitStatus.FAILED
    assert "could not be written" in err
    assert "Traceback" not in err


def test_a_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "w.dot").write_text(GATED)
    world = world_in(tmp_path, {"GO": str(tmp_path / "go")})
    first = start(place / "w.dot", world)
    shutil.rmtree(place)
    with pytest.raises(StateMismatchError, match=f"works in place in `{place}`, which is not there any more"):
        resume(world, first.run_id)
