"""Coming back: by id, by run branch in a fresh clone, by checkpoint file; what is refused and what is said then."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from arc.base.errors import CorruptError, UsageError
from arc.base.locks import Lease, LeaseHeldError
from arc.runs.errors import MissingVariableError, RunNotFoundError, StateMismatchError, SupersededError
from arc.runs.store import find_run
from arc.runs.world import World
from tests.conftest import MakeRepo, Repo
from tests.runs.helpers import Told, chain, folder_of, resume, start, world_in
from tests.runs.killing import Checkout, Project, check_agreement, check_files, make_project

GATE = chain(one="echo one >> one.txt", two="echo two >> two.txt; test -e $GO", three="echo three >> three.txt")
"""Fails in `two` until the file that `$GO` names exists."""


def gated(graph: str = GATE) -> str:
    """The second node must succeed for the walk to go on."""
    return graph.replace("-> two -> three", '-> two\n  two -> three [condition="outcome=success"]\n  three').replace(
        "three -> exit", "three -> exit"
    )


@pytest.fixture
def failed(repo: MakeRepo, tmp_path: Path) -> tuple[Repo, World, str]:
    """A project with a failed run: `one` has completed, `two` has failed."""
    project = repo({"w.dot": gated()})
    world = world_in(tmp_path, {"GO": str(tmp_path / "go")})
    result = start(project.path / "w.dot", world)
    assert result.status == "fail"
    return project, world, result.run_id


def test_a_failed_run_runs_its_failed_node_again(failed: tuple[Repo, World, str], tmp_path: Path) -> None:
    project, world, run_id = failed
    (tmp_path / "go").touch()
    told = Told()
    result = resume(replace(world, observer=told), run_id[:14])
    assert (result.status, result.run_id) == ("success", run_id)
    assert told.ran() == ["two", "three", "exit"]
    assert project.git("show", f"{result.run_branch}:one.txt") == "one"
    folder = folder_of(result)
    assert folder.read_record().resumed == 1
    sequences = [json.loads(line)["sequence"] for line in folder.events_file.read_text().splitlines()]
    assert sequences == list(range(1, len(sequences) + 1)), "events are appended to those of the first process"
    assert [path.name for path in sorted(folder.nodes.iterdir())][2:4] == ["0003-two", "0004-two"]


def test_a_finished_run_says_so(repo: MakeRepo, tmp_path: Path) -> None:
    project, world = repo({"w.dot": chain(one="true")}), world_in(tmp_path)
    first = start(project.path / "w.dot", world)
    told = Told()
    again = resume(replace(world, observer=told), first.run_id)
    assert again.status == "success"
    assert again.notices == (f"run {first.run_id} has finished (success); nothing to resume",)
    assert told.lines == []


def test_a_live_owner_is_refused_by_name(failed: tuple[Repo, World, str]) -> None:
    _, world, run_id = failed
    with Lease.acquire(find_run(world, run_id).lease_file) as lease, pytest.raises(LeaseHeldError, match=f"process {lease.owner.pid} on "):
        resume(world, run_id)


def test_a_superseded_run_names_its_successor(failed: tuple[Repo, World, str]) -> None:
    _, world, run_id = failed
    folder = find_run(world, run_id)
    folder.write_record(replace(folder.read_record(), superseded_by="01NEXT"))
    with pytest.raises(SupersededError, match="01NEXT"):
        resume(world, run_id)


def test_a_truncated_checkpoint_is_an_error_and_nothing_is_deleted(failed: tuple[Repo, World, str]) -> None:
    project, world, run_id = failed
    folder = find_run(world, run_id)
    data = folder.checkpoint_file.read_bytes()
    folder.checkpoint_file.write_bytes(data[: len(data) // 2])
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file() and path.name != "lease"}
    refs = project.git("for-each-ref")
    with pytest.raises(CorruptError, match=r"checkpoint\.json.*nothing was changed") as caught:
        resume(world, run_id)
    (hint,) = caught.value.hints
    assert hint == f"Git has a copy; to go on from that one: `mv {folder.checkpoint_file} {folder.checkpoint_file}.damaged`"
    assert {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file() and path.name != "lease"} == before
    assert project.git("for-each-ref") == refs


def test_without_the_disk_copy_git_has_it(failed: tuple[Repo, World, str], tmp_path: Path) -> None:
    _, world, run_id = failed
    find_run(world, run_id).checkpoint_file.unlink()
    (tmp_path / "go").touch()
    told = Told()
    assert resume(replace(world, observer=told), run_id).status == "success"
    assert told.ran() == ["two", "three", "exit"]


def clone_of(project: Repo, run_id: str, tmp_path: Path, *, everything: bool = False) -> Repo:
    """A fresh clone that fetched the run's two refs (or all of its refs)."""
    path = tmp_path / "clone"
    project.git("clone", "-q", str(project.path), str(path))
    clone = Repo(path)
    clone.git("fetch", "-q", "origin", f"refs/arc/{run_id}:refs/arc/{run_id}")
    if everything:
        clone.git("fetch", "-q", "origin", "refs/heads/arc/*:refs/heads/arc/*")
    return clone


def test_a_fresh_clone_with_the_two_refs_goes_on(failed: tuple[Repo, World, str], tmp_path: Path) -> None:
    project, world, run_id = failed
    clone = clone_of(project, run_id, tmp_path)
    shutil.rmtree(project.path)
    (tmp_path / "go").touch()
    before, told = Checkout.of(clone), Told()
    elsewhere = replace(world, home=tmp_path / "other-home", observer=told)
    result = resume(elsewhere, branch=f"arc/run/{run_id}", directory=clone.path)
    assert (result.status, result.run_id) == ("success", run_id)
    assert told.ran() == ["two", "three", "exit"]
    assert clone.git("show", f"arc/run/{run_id}:one.txt") == "one"
    assert clone.git("show", f"arc/run/{run_id}:three.txt") == "three"
    assert Checkout.of(clone) == before
    assert find_run(elsewhere, run_id).read_record().resumed == 1


def test_large_values_come_back_from_git_in_a_clone(repo: MakeRepo, tmp_path: Path) -> None:
    graph = gated(chain(one="yes 0123456789 | head -c 150000", two="test -e $GO", three="true"))
    project = repo({"w.dot": graph})
    world = world_in(tmp_path, {"GO": str(tmp_path / "go")})
    run_id = start(project.path / "w.dot", world).run_id
    clone = clone_of(project, run_id, tmp_path)
    (tmp_path / "go").touch()
    result = resume(replace(world, home=tmp_path / "other-home"), branch=f"arc/run/{run_id}", directory=clone.path)
    assert result.status == "success"
    assert len(list(folder_of(result).artifacts.iterdir())) == 1
    folder = find_run(world, run_id)
    shutil.rmtree(folder.artifacts)
    assert resume(world, run_id).status == "success", "the run folder lost them, Git has them"


def test_a_clone_without_the_run_branch_says_what_to_fetch(failed: tuple[Repo, World, str], tmp_path: Path) -> None:
    project, world, run_id = failed
    clone = clone_of(project, run_id, tmp_path)
    clone.git("update-ref", "-d", f"refs/remotes/origin/arc/run/{run_id}")
    with pytest.raises(CorruptError) as caught:
        resume(replace(world, home=tmp_path / "other-home"), branch=f"arc/run/{run_id}", directory=clone.path)
    assert "git fetch" in caught.value.hints[0]
    assert f"refs/heads/arc/run/{run_id}" in caught.value.hints[0]


def test_from_the_checkpoint_file_of_the_run(failed: tuple[Repo, World, str], tmp_path: Path) -> None:
    _, world, run_id = failed
    (tmp_path / "go").touch()
    told = Told()
    result = resume(replace(world, observer=told), checkpoint=find_run(world, run_id).checkpoint_file)
    assert (result.status, result.run_id) == ("success", run_id)
    assert told.ran() == ["two", "three", "exit"]


def test_from_an_older_checkpoint_file_the_run_is_forked_not_rewritten(failed: tuple[Repo, World, str], tmp_path: Path) -> None:
    project, world, run_id = failed
    older = tmp_path / "older.json"
    metadata = project.git("log", "--format=%H", "--grep=checkpoint 2: one", f"refs/arc/{run_id}")
    older.write_text(project.git("show", f"{metadata}:checkpoint.json"))
    tip = project.git("rev-parse", f"arc/run/{run_id}")
    (tmp_path / "go").touch()
    result = resume(world, checkpoint=older, directory=project.path)
    assert result.status == "success"
    assert result.run_id != run_id
    assert project.git("rev-parse", f"arc/run/{run_id}") == tip
    assert project.git("show", f"{result.run_branch}:two.txt") == "two", "the files of then: `two` ran once in them"


def test_targets_that_name_nothing(repo: MakeRepo, tmp_path: Path) -> None:
    project, world = repo(), world_in(tmp_path)
    with pytest.raises(RunNotFoundError):
        resume(world, "01NONE", directory=project.path)
    with pytest.raises(RunNotFoundError, match="no checkpoint file"):
        resume(world, checkpoint=tmp_path / "none.json", directory=project.path)
    with pytest.raises(UsageError):
        resume(world, directory=project.path)


def test_a_secret_of_the_configuration_comes_from_the_environment(repo: MakeRepo, tmp_path: Path) -> None:
    graph = gated(chain(one="true", two="test -e $GO && test $(printenv DEPLOY_TOKEN) = s3cret", three="true"))
    config = 'graph = "w.dot"\n[environment]\nDEPLOY_TOKEN = "s3cret"\nPLAIN = "kept"\n'
    project = repo({"w.dot": graph, ".gitignore": "run.toml\n"})
    project.write("run.toml", config)
    world = world_in(tmp_path, {"GO": str(tmp_path / "go")})
    run_id = start(project.path / "run.toml", world).run_id
    (tmp_path / "go").touch()
    assert "s3cret" not in find_run(world, run_id).run_file.read_text()
    with pytest.raises(MissingVariableError, match="`DEPLOY_TOKEN`"):
        resume(world, run_id)
    assert resume(replace(world, environ={**world.environ, "DEPLOY_TOKEN": "s3cret"}), run_id).status == "success"


def test_refs_that_do_not_hold_the_state_are_refused(failed: tuple[Repo, World, str]) -> None:
    project, world, run_id = failed
    folder = find_run(world, run_id)
    document = json.loads(folder.checkpoint_file.read_text())
    folder.checkpoint_file.write_text(json.dumps({**document, "git_commit_sha": None}))
    project.git("update-ref", f"refs/heads/arc/run/{run_id}", "main")
    with pytest.raises(StateMismatchError, match="does not hold the commit of the run's last checkpoint"):
        resume(world, run_id)
    assert project.git("rev-parse", f"arc/run/{run_id}") == project.head, "nothing was changed"


def test_a_commit_that_names_the_state_and_holds_other_files_is_refused(failed: tuple[Repo, World, str]) -> None:
    project, world, run_id = failed
    branch = f"arc/run/{run_id}"
    message = project.git("log", "-1", "--format=%B", branch)
    forged = project.git("commit-tree", f"{branch}~2^{{tree}}", "-p", f"{branch}~1", "-m", message)
    project.git("update-ref", f"refs/heads/{branch}", forged)
    with pytest.raises(StateMismatchError, match="names the checkpoint of ordinal 3, whose files are others"):
        resume(world, run_id)
    assert project.git("rev-parse", branch) == forged, "nothing was changed"


def test_a_run_branch_that_somebody_moved_is_found_again_by_the_disk(failed: tuple[Repo, World, str], tmp_path: Path) -> None:
    project, world, run_id = failed
    project.git("update-ref", f"refs/heads/arc/run/{run_id}", "main")
    (tmp_path / "go").touch()
    result = resume(world, run_id)
    assert result.status == "success"
    assert project.git("show", f"{result.run_branch}:one.txt") == "one"


def test_worktrees_that_vanished_and_stale_registrations(repo: MakeRepo, tmp_path: Path) -> None:
    """The crash case: the folder of the worktree is gone, its registration still holds the branch."""
    project = make_project(repo, tmp_path)
    assert project.drive("start", extra={"ARC_FAULT": "checkpoint.told:4"}).killed
    shutil.rmtree(project.folder().worktree)
    ended = project.drive("resume", project.folder().run_id)
    assert ended.stdout == "success", ended.stderr
    check_agreement(project)
    check_files(project)


def test_git_failed_for_several_nodes_and_then_a_crash(repo: MakeRepo, tmp_path: Path) -> None:
    """Nothing can tell the finished nodes' files from half-done edits: all are kept, and that is said."""
    project = make_project(repo, tmp_path)
    script = "mv $OBJECTS $OBJECTS.gone; echo one >> one.txt"
    project.repo.write("w.dot", chain(one=script, two="echo two >> two.txt; kill -9 $PPID", three="echo three >> three.txt"))
    project.repo.commit()
    objects = project.repo.path / ".git" / "objects"
    ended = project.drive("start", "w.dot", {"OBJECTS": str(objects)})
    assert ended.killed
    if objects.exists():
        objects.rename(tmp_path / "made-meanwhile")
    Path(f"{objects}.gone").rename(objects)
    project.repo.write("w.dot", "unused")
    text = project.folder().graph_file.read_text().replace("; kill -9 $PPID", "")
    project.folder().graph_file.write_text(text.replace(script, "true"))
    ended = project.drive("resume", project.folder().run_id)
    assert ended.stdout == "success", ended.stderr
    branch = f"arc/run/{project.folder().run_id}"
    assert project.repo.git("show", f"{branch}:one.txt") == "one", "the finished node's work is there"
    assert "files could not be told from the half-done edits" in project.folder().events_file.read_text()


def test_orphans_of_a_killed_arc_are_ended(repo: MakeRepo, tmp_path: Path) -> None:
    """A command that outlived its arc would go on writing into the files of the resumed run."""
    project: Project = make_project(repo, tmp_path)
    writer = "(while true; do echo stray >> stray.txt; sleep 0.05; done) & kill -9 $PPID; wait"
    project.repo.write("w.dot", chain(one=f"test -e $GO || {{ {writer}; }}", two="sleep 0.3"))
    project.repo.commit()
    go = tmp_path / "go"
    assert project.drive("start", "w.dot", {"GO": str(go)}).killed
    go.touch()
    ended = project.drive("resume", project.folder().run_id, {"GO": str(go)})
    assert ended.stdout == "success", ended.stderr
    branch = f"arc/run/{project.folder().run_id}"
    assert "stray.txt" not in project.repo.git("ls-tree", "--name-only", branch).splitlines()
