"""Each kind of conflict between two branches: the second is left out whole, its paths are named, its files stay in its branch."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from arc.workspace.git.trailers import format_message
from arc.workspace.git.workspace import GitWorkspace
from arc.workspace.in_place import InPlaceWorkspace
from arc.workspace.notices import Notice
from arc.workspace.protocol import MergeInput
from tests.workspace.made import RUN, NoSandboxes, Run, git, make_repository, start

LINES = "".join(f"line {n}\n" for n in range(30))
Edit = Callable[[Path], object]


async def branch(run: Run, key: str, edit: Edit, *, close: bool = True) -> tuple[MergeInput, GitWorkspace]:
    """A parallel branch with this edit and one file of its own, committed."""
    fork = await run.workspace.fork(3, "fan", key)
    base = fork.tip
    edit(fork.worktree.path)
    (fork.worktree.path / f"only-{key}").write_text(key)
    commit = fork.checkpoint(fork.stage(), format_message(RUN, f"fan:{key}/work", "success", 1, None), [])
    if close:
        await fork.close()
    return MergeInput(key, fork.branch, commit, base), fork


@pytest.fixture
def merging(tmp_path: Path) -> Run:
    files = {"a": LINES.encode(), "b": b"b\n", "tool": b"#!/bin/sh\necho tool\n", "bin": bytes(range(256)), "d/x": b"x\n"}
    repo = make_repository(tmp_path / "repo", files)
    os.symlink("a", repo / "link")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "link")
    return start(repo, tmp_path / "logs")


def relink(to: str) -> Edit:
    def edit(top: Path) -> None:
        (top / "link").unlink()
        os.symlink(to, top / "link")

    return edit


def replace_folder(top: Path) -> None:
    (top / "d" / "x").unlink()
    (top / "d").rmdir()
    (top / "d").write_text("a file now")


def link_to_file(top: Path) -> None:
    (top / "link").unlink()
    (top / "link").write_text("file")


def make_folder(top: Path) -> None:
    (top / "p").mkdir()
    (top / "p" / "q").write_text("q")


def submodule(message: str) -> Edit:
    def edit(top: Path) -> None:
        inner = make_repository(top.parent / f"inner-{message}", {"f": message.encode()})
        git(top, "submodule", "--quiet", "add", str(inner), "sub")

    return edit


CONFLICTS: dict[str, tuple[Edit, Edit, tuple[str, ...]]] = {
    "rename/rename to two names": (lambda t: (t / "a").rename(t / "one"), lambda t: (t / "a").rename(t / "two"), ("a", "one", "two")),
    "two files renamed to one name": (lambda t: (t / "a").rename(t / "c"), lambda t: (t / "bin").rename(t / "c"), ("a", "bin", "c")),
    "rename/delete": (lambda t: (t / "a").rename(t / "one"), lambda t: (t / "a").unlink(), ("a", "one")),
    "delete/change": (lambda t: (t / "b").unlink(), lambda t: (t / "b").write_text("other\n"), ("b",)),
    "mode against content is merged": (lambda t: (t / "tool").chmod(0o755), lambda t: (t / "tool").write_text("#!/bin/sh\n"), ()),
    "links to two places": (relink("b"), relink("bin"), ("link",)),
    "link/file": (relink("b"), link_to_file, ("link",)),
    "binary": (lambda t: (t / "bin").write_bytes(b"\0one"), lambda t: (t / "bin").write_bytes(b"\0two"), ("bin",)),
    "new in both": (lambda t: (t / "n").write_text("1"), lambda t: (t / "n").write_text("2"), ("n",)),
    "folder became a file/change in it": (replace_folder, lambda t: (t / "d" / "x").write_text("changed\n"), ("d", "d/x")),
    "file where the other made a folder": (
        lambda t: (t / "p").write_text("file"),
        make_folder,
        ("p", "p/q"),
    ),
    "submodule at two commits": (submodule("one"), submodule("two"), (".gitmodules", "sub")),
}


@pytest.mark.parametrize("kind", CONFLICTS)
def test_a_conflict_is_named_and_nothing_of_the_branch_is_merged_or_lost(merging: Run, kind: str) -> None:
    one, two, paths = CONFLICTS[kind]

    async def go() -> MergeInput:
        first, _ = await branch(merging, "one", one)
        second, _ = await branch(merging, "two", two)
        before = merging.tree(first.commit)
        report = await merging.workspace.merge([first, second])
        merging.checkpoint("join")
        if not paths:
            assert (report.merged, report.conflicts) == (("one", "two"), ())
            return second
        assert report.merged == ("one",)
        (conflict,) = report.conflicts
        assert (conflict.key, conflict.ref) == ("two", second.ref)
        assert set(conflict.paths) <= set(paths)
        assert conflict.paths
        assert merging.tree() == before
        assert git(merging.repo, "rev-parse", second.ref).strip() == second.commit
        return second

    second = asyncio.run(go())
    assert merging.tree(second.commit)["only-two"] == ("100644", b"two")
    assert git(merging.repo, "fsck", "--no-dangling") == ""


def test_a_merged_branch_whose_worktree_was_never_closed_keeps_its_late_edits(merging: Run) -> None:
    async def go() -> tuple[MergeInput, GitWorkspace]:
        first, fork = await branch(merging, "one", lambda t: (t / "b").write_text("one\n"), close=False)
        (fork.worktree.path / "late").write_text("after its last checkpoint")
        await merging.workspace.merge([first])
        merging.checkpoint("join")
        return first, fork

    first, fork = asyncio.run(go())
    assert not fork.worktree.path.exists()
    assert merging.workspace.repository.ref(first.ref) is None
    (aside,) = git(merging.repo, "for-each-ref", "--format=%(refname)", "refs/arc-aside").split()
    assert merging.tree(aside)["late"] == ("100644", b"after its last checkpoint")
    assert "late" not in merging.tree()


def test_a_merged_branch_whose_worktree_holds_a_socket_stays_detached(merging: Run) -> None:
    async def go() -> tuple[MergeInput, GitWorkspace]:
        first, fork = await branch(merging, "one", lambda t: os.mkfifo(t / "pipe"), close=False)
        await merging.workspace.merge([first])
        merging.checkpoint("join")
        return first, fork

    first, fork = asyncio.run(go())
    assert (fork.worktree.path / "pipe").exists()
    assert git(fork.worktree.path, "rev-parse", "HEAD").strip() == first.commit
    assert merging.workspace.repository.ref(first.ref) is None
    assert "workspace.kept" in merging.codes()


def test_in_place_branches_share_the_directory_and_the_first_fork_says_so(tmp_path: Path) -> None:
    notices: list[Notice] = []
    workspace = InPlaceWorkspace(tmp_path, NoSandboxes(), notices.append)

    async def go() -> None:
        one, two = await workspace.fork(3, "fan", "one"), await workspace.fork(3, "fan", "two")
        inner = await one.fork(4, "inner", "x")
        assert one.directory == two.directory == inner.directory == tmp_path
        assert (one.isolated, one.ref, one.commit) == (False, None, None)
        foreign = MergeInput("two", "refs/heads/x", "1" * 40, "2" * 40)
        report = await workspace.merge([MergeInput("one", "", "", ""), foreign])
        assert (report.merged, [conflict.key for conflict in report.conflicts]) == (("one",), ["two"])
        await one.close()
        await workspace.close()
        await workspace.close()

    asyncio.run(go())
    assert [(notice.level, notice.code) for notice in notices] == [("warning", "workspace.shared_branches")]
    assert tmp_path.exists()
