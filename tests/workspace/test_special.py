"""Pipes, sockets and devices: reported wherever they are, and reason enough to keep a worktree."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from tests.workspace.made import Run, make_repository, start


def gaps(run: Run) -> list[bytes]:
    return [gap.path for gap in run.workspace.stage().gaps]


@pytest.mark.parametrize("place", ["pipe", "dir/pipe", "new/pipe", "new/deep/er/pipe", "dir/new/pipe"])
def test_one_in_any_folder_is_a_gap_and_keeps_the_worktree(run: Run, place: str) -> None:
    run.checkpoint()
    (run.files / place).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(run.files / place)
    assert gaps(run) == [place.encode()]
    assert run.codes() == ["workspace.gap"]
    run.checkpoint()
    asyncio.run(run.workspace.close())
    assert (run.files / place).exists()
    assert run.codes() == ["workspace.gap", "workspace.kept"]


def test_it_is_no_gap_any_more_when_it_is_gone(run: Run) -> None:
    (run.files / "new").mkdir()
    os.mkfifo(run.files / "new" / "pipe")
    assert gaps(run) == [b"new/pipe"]
    (run.files / "new" / "pipe").unlink()
    assert gaps(run) == []
    os.mkfifo(run.files / "new" / "again")
    assert gaps(run) == [b"new/again"]
    os.rename(run.files / "new", run.files / "moved")
    assert gaps(run) == [b"moved/again"]


def test_ignored_folders_links_and_git_folders_are_not_entered(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    os.mkfifo(outside / "pipe")
    run = start(make_repository(tmp_path / "repo", {".gitignore": b"build/\n", "a": b"a", "d/x": b"x"}), tmp_path / "logs")
    assert gaps(run) == []
    (run.files / "build" / "deep").mkdir(parents=True)
    os.mkfifo(run.files / "build" / "deep" / "pipe")
    os.symlink(outside, run.files / "link")
    (run.files / "d" / "x").unlink()
    (run.files / "d").rmdir()
    os.symlink(outside, run.files / "d")
    assert gaps(run) == []
    run.checkpoint()
    asyncio.run(run.workspace.close())
    assert not run.files.exists()


def test_one_in_a_tracked_files_place_leaves_the_file_as_it_was(run: Run) -> None:
    (run.files / "a.txt").unlink()
    os.mkfifo(run.files / "a.txt")
    run.checkpoint()
    assert gaps(run) == [b"a.txt"]
    assert run.tree()["a.txt"] == ("100644", b"a\n")


def test_new_files_are_found_however_they_come(run: Run) -> None:
    """Where no folder has changed git is not asked for new files: each way in which one can come must change a folder, or be seen."""
    files = run.files
    (files / ".gitignore").write_text("*.log\n")
    (files / "dir" / "x.log").write_text("ignored at first")
    assert sorted(run.tree(run.checkpoint())) == [".gitignore", "a.txt", "dir/b.txt"]
    while time.time_ns() - max(folder.stat().st_ctime_ns for folder in (files, files / "dir")) < 60_000_000:
        time.sleep(0.01)  # folders that changed a moment ago count as changed
    for _ in range(3):
        run.checkpoint()

    (files / "a.txt").write_text("in place")
    assert run.tree(run.checkpoint())["a.txt"] == ("100644", b"in place")
    (files / ".gitignore").write_text("nothing\n")
    assert "dir/x.log" in run.tree(run.checkpoint())
    (files / "dir" / "new").write_text("n")
    assert "dir/new" in run.tree(run.checkpoint())
    (files / "new" / "deep").mkdir(parents=True)
    run.checkpoint()
    (files / "new" / "deep" / "file").write_text("f")
    assert "new/deep/file" in run.tree(run.checkpoint())
    (files / "dir" / "b.txt").unlink()
    run.checkpoint()
    (files / "dir" / "b.txt").write_text("again")
    assert run.tree(run.checkpoint())["dir/b.txt"] == ("100644", b"again")
    (files / "replaced").write_text("by a rename")
    os.rename(files / "replaced", files / "a.txt")
    assert run.tree(run.checkpoint())["a.txt"] == ("100644", b"by a rename")
    (run.repo / ".git" / "info").mkdir(exist_ok=True)
    (run.repo / ".git" / "info" / "exclude").write_text("*.tmp\n")
    (files / "dir" / "y.tmp").write_text("y")
    assert "dir/y.tmp" not in run.tree(run.checkpoint())
    (run.repo / ".git" / "info" / "exclude").write_text("# nothing\n")
    assert "dir/y.tmp" in run.tree(run.checkpoint())


def test_a_file_that_was_captured_but_not_committed_and_went_and_came_back_is_captured(run: Run) -> None:
    run.checkpoint()
    (run.files / "a.txt").unlink()
    run.workspace.stage()
    (run.files / "a.txt").write_text("back")
    run.checkpoint()
    assert run.tree()["a.txt"] == ("100644", b"back")
