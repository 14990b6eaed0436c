"""The scan of a repository's files for runs: says what git says, without git."""

from __future__ import annotations

from pathlib import Path

from arc.runs.refs import common_dir_around, scan_runs
from tests.conftest import MakeRepo, Repo


def around(directory: Path) -> set[str] | None:
    common = common_dir_around(directory)
    return None if common is None else set(scan_runs(common))


def with_runs(repo: MakeRepo) -> Repo:
    project = repo({"a/b.txt": "b\n"})
    for name in ("01A", "01B"):
        project.git("update-ref", f"refs/arc/{name}", "HEAD")
    return project


def test_loose_and_packed_refs_are_found_from_any_folder(repo: MakeRepo) -> None:
    project = with_runs(repo)
    assert around(project.path / "a") == {"01A", "01B"}
    project.git("pack-refs", "--all")
    project.git("update-ref", "refs/arc/01C", "HEAD")
    project.git("update-ref", "-d", "refs/arc/01A")
    assert around(project.path) == {"01B", "01C"}


def test_other_refs_and_deeper_ones_are_no_runs(repo: MakeRepo) -> None:
    project = with_runs(repo)
    project.git("update-ref", "refs/arc-aside/01Z/x", "HEAD")
    project.git("update-ref", "refs/arc/deep/er", "HEAD")
    (project.path / ".git/refs/arc/01Q.lock").touch()
    assert around(project.path) == {"01A", "01B"}
    project.git("pack-refs", "--all")
    assert around(project.path) == {"01A", "01B"}


def test_a_linked_worktree_has_the_runs_of_its_repository(repo: MakeRepo, tmp_path: Path) -> None:
    project = with_runs(repo)
    project.git("worktree", "add", "-q", str(tmp_path / "linked"))
    assert common_dir_around(tmp_path / "linked") == (project.path / ".git").resolve()


def test_no_repository_and_a_bare_one_have_none(repo: MakeRepo, tmp_path: Path) -> None:
    project = with_runs(repo)
    assert common_dir_around(tmp_path / "nowhere") is None
    project.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    assert common_dir_around(tmp_path / "bare.git") is None
    assert common_dir_around(tmp_path / "bare.git" / "refs") is None
