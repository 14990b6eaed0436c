"""What an agent has staged and then changed in the file is kept reachable when the worktree's index is replaced."""

from __future__ import annotations

from pathlib import Path

from tests.workspace.made import RUN, Run, attach, git


def staged_then_changed(run: Run, text: str) -> None:
    (run.files / "a.txt").write_text(f"{text}, staged\n")
    git(run.files, "add", "a.txt")
    (run.files / "a.txt").write_text(f"{text}, in the file\n")


def test_content_that_was_only_staged_is_kept_in_an_aside_ref(run: Run) -> None:
    run.checkpoint()
    staged_then_changed(run, "one")
    (run.files / "new").write_text("staged and then deleted")
    git(run.files, "add", "new")
    (run.files / "new").unlink()
    commit = run.checkpoint("edit")
    assert run.tree(commit)["a.txt"] == ("100644", b"one, in the file\n")
    kept = run.tree(f"refs/arc-aside/{RUN}/staged-edit")
    assert kept == {
        "a.txt": ("100644", b"one, staged\n"),
        "dir/b.txt": ("100644", b"b\n"),
        "new": ("100644", b"staged and then deleted"),
    }
    assert run.codes() == ["workspace.staged_kept"]
    assert git(run.files, "status", "--porcelain") == ""


def test_it_is_kept_once(run: Run) -> None:
    staged_then_changed(run, "one")
    run.checkpoint("edit")
    run.checkpoint("edit")
    (run.files / "a.txt").write_text("other")
    run.checkpoint("edit")
    assert git(run.repo, "for-each-ref", "--format=%(refname)", "refs/arc-aside").split() == [f"refs/arc-aside/{RUN}/staged-edit"]


def test_what_is_staged_as_it_is_in_the_files_needs_no_keeping(run: Run) -> None:
    (run.files / "a.txt").write_text("changed\n")
    (run.files / "new").write_text("new")
    (run.files / "announced").write_text("only announced")
    git(run.files, "add", "a.txt", "new")
    git(run.files, "add", "-N", "announced")
    git(run.files, "rm", "-q", "--cached", "dir/b.txt")
    git(run.files, "update-index", "--chmod=+x", "new")
    run.checkpoint()
    assert run.codes() == []
    assert git(run.repo, "for-each-ref", "refs/arc-aside") == ""
    assert sorted(run.tree()) == ["a.txt", "announced", "dir/b.txt", "new"]


def test_it_is_kept_when_the_node_was_killed(run: Run, tmp_path: Path) -> None:
    run.checkpoint()
    staged_then_changed(run, "half")
    again = attach(run, tmp_path / "logs")
    again.workspace.set_aside("interrupted-2-work", "killed")
    again.workspace.reset()
    assert run.tree(f"refs/arc-aside/{RUN}/staged-interrupted-2-work")["a.txt"] == ("100644", b"half, staged\n")
    assert run.tree(f"refs/arc-aside/{RUN}/interrupted-2-work")["a.txt"] == ("100644", b"half, in the file\n")
    assert (again.files / "a.txt").read_text() == "a\n"
    assert git(run.repo, "for-each-ref", "refs/arc-aside").count("\n") == 2


def test_a_torn_index_of_the_worktree_is_said_to_be_torn(run: Run) -> None:
    index = run.workspace.admin_directory / "index"
    data = index.read_bytes()
    index.unlink()
    index.write_bytes(data[:40])
    run.checkpoint()
    assert run.codes() == ["workspace.index_broken"]
    assert git(run.files, "status", "--porcelain") == ""
