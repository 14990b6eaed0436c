"""`arc run start WORKFLOW --resume CHECKPOINT`: a file alone, a folder that was moved, a state that the run has left behind."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from arc.base.errors import UsageError
from arc.runs.errors import ArtifactMissingError
from arc.runs.store import find_run
from arc.runs.world import RunResult, World
from tests.conftest import MakeRepo
from tests.runs.helpers import Told, folder_of, resume, start, world_in

GATED = """
digraph gated {
  start [shape=Mdiamond]
  exit [shape=Msquare]
  one [shape=parallelogram, script="echo one >> one.txt"]
  two [shape=parallelogram, script="echo two >> two.txt; test -e $GO"]
  three [shape=parallelogram, script="echo three >> three.txt"]
  start -> one -> two
  two -> three [condition="outcome=success"]
  three -> exit
}
"""
"""Fails in `two` until the file that `$GO` names exists."""


def failed_run(source: Path, tmp_path: Path) -> tuple[RunResult, World]:
    world = world_in(tmp_path, {"GO": str(tmp_path / "go")})
    result = start(source, world)
    assert result.status == "fail"
    (tmp_path / "go").touch()
    return result, world


def without_git(tmp_path: Path) -> Path:
    (tmp_path / "plain").mkdir()
    source = tmp_path / "plain/w.dot"
    source.write_text(GATED)
    return source


def test_a_file_of_a_run_without_git_goes_on_in_the_directory(tmp_path: Path) -> None:
    source = without_git(tmp_path)
    first, world = failed_run(source, tmp_path)
    saved = shutil.move(first.logs_dir / "checkpoint.json", tmp_path / "saved.json")
    shutil.rmtree(world.home)
    told = Told()
    result = resume(replace(world, observer=told), checkpoint=Path(saved), workflow=source, directory=source.parent)
    assert (result.status, result.run_id) == ("success", first.run_id)
    assert told.ran() == ["two", "three", "exit"]
    assert (source.parent / "one.txt").read_text() == "one\n", "a finished node does not run again"
    assert (source.parent / "two.txt").read_text() == "two\ntwo\n", "the files are taken as they are"
    assert "in `" in told.notices()["resume.adopted"]
    record = folder_of(result).read_record()
    assert (record.mode, record.status, record.start_directory) == ("in_place", "success", str(source.parent))


def test_a_file_alone_is_not_enough(tmp_path: Path) -> None:
    source = without_git(tmp_path)
    first, world = failed_run(source, tmp_path)
    saved = shutil.move(first.logs_dir / "checkpoint.json", tmp_path / "saved.json")
    shutil.rmtree(world.home)
    with pytest.raises(UsageError, match=f"nothing but `{saved}` is known of run {first.run_id}") as caught:
        resume(world, checkpoint=Path(saved), directory=source.parent)
    assert caught.value.hints == (f"give the workflow too: `arc run start WORKFLOW.dot --resume {saved}`",)
    assert not (world.home / "runs").exists()


def test_the_files_of_the_commit_come_back_where_git_has_it(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo({"w.dot": GATED})
    first, world = failed_run(project.path / "w.dot", tmp_path)
    saved = shutil.move(first.logs_dir / "checkpoint.json", tmp_path / "saved.json")
    tip = project.git("rev-parse", f"arc/run/{first.run_id}")
    shutil.rmtree(world.home)
    project.git("worktree", "prune")
    for ref in (f"refs/heads/arc/run/{first.run_id}", f"refs/arc/{first.run_id}"):
        project.git("update-ref", "-d", ref)
    told = Told()
    result = resume(replace(world, observer=told), checkpoint=Path(saved), workflow=project.path / "w.dot", directory=project.path)
    assert (result.status, result.run_id) == ("success", first.run_id)
    assert told.ran() == ["two", "three", "exit"]
    branch = f"arc/run/{first.run_id}"
    assert project.git("merge-base", tip, branch) == tip, "it goes on from the commit of the checkpoint"
    assert project.git("show", f"{branch}:one.txt") == "one"
    assert project.git("show", f"{branch}:two.txt") == "two\ntwo"
    assert project.git("status", "--porcelain") == ""
    assert not (project.path / "one.txt").exists()
    assert project.git("show", f"refs/arc/{first.run_id}:graph.dot").strip() == GATED.strip()


def test_secrets_of_the_workflow_are_not_stored_by_a_run_made_of_a_file(repo: MakeRepo, tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    (tmp_path / "w.dot").write_text(GATED.replace("echo one", f": {token}; echo one"))
    project = repo({"readme": ""})
    world = world_in(tmp_path, {"GO": str(tmp_path / "go")})
    first = start(tmp_path / "w.dot", world, directory=project.path)
    saved = shutil.move(first.logs_dir / "checkpoint.json", tmp_path / "saved.json")
    shutil.rmtree(world.home)
    project.git("worktree", "prune")
    for ref in (f"refs/heads/arc/run/{first.run_id}", f"refs/arc/{first.run_id}"):
        project.git("update-ref", "-d", ref)
    (tmp_path / "go").touch()
    result = resume(world, checkpoint=Path(saved), workflow=tmp_path / "w.dot", directory=project.path)
    assert result.status == "success"
    assert token not in project.git("show", f"refs/arc/{first.run_id}:graph.dot")
    assert not [path for path in result.logs_dir.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]


def test_without_the_commit_the_directory_is_taken_as_it_is(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo({"w.dot": GATED})
    first, world = failed_run(project.path / "w.dot", tmp_path)
    saved = shutil.move(first.logs_dir / "checkpoint.json", tmp_path / "saved.json")
    other = repo({"w.dot": GATED}, name="other")
    shutil.rmtree(world.home)
    told = Told()
    result = resume(replace(world, observer=told), checkpoint=Path(saved), workflow=other.path / "w.dot", directory=other.path)
    assert result.status == "success"
    assert "is not in this repository" in told.notices()["resume.adopted"]
    assert other.git("for-each-ref", "refs/arc") == ""
    assert (other.path / "three.txt").read_text() == "three\n"


def test_a_run_folder_that_was_moved_is_known_again(tmp_path: Path) -> None:
    source = without_git(tmp_path)
    first, world = failed_run(source, tmp_path)
    moved = Path(shutil.move(first.logs_dir, tmp_path / "moved"))
    result = resume(world, checkpoint=moved / "checkpoint.json", directory=source.parent)
    assert (result.status, result.run_id, result.logs_dir) == ("success", first.run_id, moved)
    assert find_run(world, first.run_id).path == moved


def test_a_moved_folder_of_a_run_with_git_takes_its_worktree_along(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo({"w.dot": GATED})
    first, world = failed_run(project.path / "w.dot", tmp_path)
    moved = Path(shutil.move(first.logs_dir, tmp_path / "moved"))
    result = resume(world, checkpoint=moved / "checkpoint.json", directory=project.path)
    assert (result.status, result.logs_dir) == ("success", moved)
    assert project.git("show", f"arc/run/{first.run_id}:three.txt") == "three"
    assert not (moved / "worktree").exists()
    assert project.git("worktree", "list", "--porcelain").count("worktree ") == 1


def test_an_older_file_of_a_run_without_git_is_a_new_run(tmp_path: Path) -> None:
    source = without_git(tmp_path)
    first, world = failed_run(source, tmp_path)
    saved = tmp_path / "saved.json"
    shutil.copy(first.logs_dir / "checkpoint.json", saved)
    assert resume(world, first.run_id).status == "success"
    told = Told()
    result = resume(replace(world, observer=told), checkpoint=saved, directory=source.parent)
    assert result.status == "success"
    assert result.run_id != first.run_id
    assert told.ran() == ["two", "three", "exit"]
    assert folder_of(result).read_record().forked_from == f"{first.run_id}@3"
    assert find_run(world, first.run_id).read_record().status == "success", "the first run is as it was"


def test_an_older_file_of_a_block_counts_by_when_it_was_taken(repo: MakeRepo, tmp_path: Path) -> None:
    """The ordinal of a block is that of its beginning: a checkpoint inside it has a higher one and is older."""
    graph = """digraph b {
      start [shape=Mdiamond]; exit [shape=Msquare]; fan [shape=component]; join [shape=tripleoctagon]
      x [shape=parallelogram, script="cp $HOME_RUN/*/checkpoint.json $SAVED; echo x > x.txt"]
      y [shape=parallelogram, script="echo y > y.txt"]
      z [shape=parallelogram, script="cp $HOME_RUN/*/checkpoint.json $SAVED; echo z >> z.txt"]
      start -> fan -> x -> join; fan -> y -> z -> join; join -> exit
    }"""
    project = repo({"w.dot": graph})
    saved = tmp_path / "saved.json"
    world = world_in(tmp_path, {"SAVED": str(saved), "HOME_RUN": str(tmp_path / "arc-home/runs")})
    first = start(project.path / "w.dot", world)
    assert first.status == "success"
    result = resume(world, checkpoint=saved, workflow=project.path / "w.dot", directory=project.path)
    assert result.run_id != first.run_id, "the run has gone on since: nothing is taken back"
    assert result.status == "success"


def test_values_in_artifacts_must_be_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    source = tmp_path / "plain/w.dot"
    source.write_text(GATED.replace("echo one >> one.txt", "seq 40000; echo one >> one.txt"))
    first, world = failed_run(source, tmp_path)
    (tmp_path / "saved").mkdir()
    saved = Path(shutil.copy(first.logs_dir / "checkpoint.json", tmp_path / "saved/checkpoint.json"))
    artifacts = Path(shutil.move(first.logs_dir / "artifacts", tmp_path / "kept"))
    shutil.rmtree(world.home)
    with pytest.raises(ArtifactMissingError):
        resume(world, checkpoint=saved, workflow=source, directory=source.parent)
    assert not (world.home / "runs").exists(), "nothing was made"
    shutil.move(artifacts, tmp_path / "saved/artifacts")
    result = resume(world, checkpoint=saved, workflow=source, directory=source.parent)
    assert result.status == "success"
    assert len(list((result.logs_dir / "artifacts").iterdir())) == 1
