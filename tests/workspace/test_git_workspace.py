"""The Git workspace: checkpoints on top of the last one whatever a node did, re-attaching, setting aside, branches and merges."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from arc.base.locks import Lease
from arc.workspace.git.branches import branch_ref, safe_name
from arc.workspace.git.errors import BranchHeldError, PlanChangedError, RefsMovedError, StageError, WorktreeError
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository
from arc.workspace.git.trailers import RunCommit, format_message, parse_message
from arc.workspace.git.workspace import GitWorkspace
from arc.workspace.protocol import BranchConflict, MergeInput
from tests.workspace.made import BRANCH, RUN, Run, attach, git, make_repository, start


def head(run: Run) -> str:
    return git(run.files, "symbolic-ref", "HEAD").strip()


def test_a_commit_per_node_also_when_nothing_changed(run: Run) -> None:
    first = run.checkpoint("one")
    second = run.checkpoint("two")
    assert git(run.repo, "log", "--format=%H", f"main..{BRANCH}").split() == [second, first]
    assert run.tree(first) == run.tree(second)
    assert git(run.files, "status", "--porcelain") == ""


def test_deletions_kinds_and_swaps(run: Run) -> None:
    (run.files / "a.txt").unlink()
    (run.files / "a.txt").mkdir()
    (run.files / "a.txt" / "inner").write_text("i")
    shutil.rmtree(run.files / "dir")
    (run.files / "dir").write_text("now a file")
    run.checkpoint()
    assert run.tree() == {"a.txt/inner": ("100644", b"i"), "dir": ("100644", b"now a file")}
    shutil.rmtree(run.files / "a.txt")
    os.symlink("dir", run.files / "a.txt")
    (run.files / "dir").unlink()
    run.checkpoint()
    assert run.tree() == {"a.txt": ("120000", b"dir")}


def test_a_file_replaced_by_a_repository(run: Run) -> None:
    (run.files / "a.txt").unlink()
    (run.files / "a.txt").mkdir()
    git(run.files / "a.txt", "init", "-q")
    (run.files / "a.txt" / "inner").write_text("i")
    run.checkpoint()
    assert sorted(run.tree()) == ["a.txt/inner", "dir/b.txt"]


def test_a_folder_replaced_by_a_link_to_its_twin(tmp_path: Path) -> None:
    run = start(make_repository(tmp_path / "repo", {"d/x": b"x", "e/x": b"x"}), tmp_path / "logs")
    shutil.rmtree(run.files / "d")
    os.symlink("e", run.files / "d")
    run.checkpoint()
    assert run.tree() == {"d": ("120000", b"e"), "e/x": ("100644", b"x")}


def test_tracked_files_are_always_captured_new_ignored_or_excluded_ones_are_not(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {"build/kept": b"1", "node_modules/t.js": b"1"})
    (repo / ".gitignore").write_text("build/\n!keep.me\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "ignore")
    run = start(repo, tmp_path / "logs", exclude_globs=["node_modules/", "*.me"])
    (run.files / "build" / "kept").write_text("2")
    (run.files / "build" / "new").write_text("ignored")
    (run.files / "node_modules" / "t.js").write_text("2")
    (run.files / "node_modules" / "n.js").write_text("excluded")
    (run.files / "keep.me").write_text("excluded although .gitignore lets it in")
    run.checkpoint()
    tree = run.tree()
    assert sorted(tree) == [".gitignore", "build/kept", "node_modules/t.js"]
    assert (tree["build/kept"][1], tree["node_modules/t.js"][1]) == (b"2", b"2")


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        ((("checkout", "-q", "-b", "mine"), ("commit", "-q", "--allow-empty", "-m", "own")), "switched to the branch `mine`"),
        ((("checkout", "-q", "--detach"), ("commit", "-q", "--allow-empty", "-m", "own")), "detached HEAD"),
        ((("commit", "-q", "--allow-empty", "-m", "own"),), "made commits of its own on the run branch"),
        ((("commit", "-q", "--amend", "--allow-empty", "-m", "own"),), "rewrote the run branch"),
        ((("reset", "-q", "--hard", "HEAD~1"),), "moved the run branch back"),
        ((("checkout", "-q", "--detach"), ("branch", "-q", "-D", f"arc/run/{RUN}")), "deleted the run branch"),
    ],
)
def test_a_node_that_moves_head_gets_its_checkpoint_on_the_run_branch(run: Run, commands: tuple[tuple[str, ...], ...], said: str) -> None:
    last = run.checkpoint("one")
    for command in commands:
        git(run.files, *command)
    own = git(run.files, "rev-parse", "HEAD").strip()
    (run.files / "new").write_text("n")
    commit = run.checkpoint("two")
    assert git(run.repo, "rev-parse", BRANCH).strip() == commit
    assert git(run.repo, "rev-parse", f"{commit}^").strip() == last
    assert head(run) == BRANCH
    assert git(run.files, "status", "--porcelain") == ""
    assert run.tree()["new"] == ("100644", b"n")
    (notice,) = (notice for notice in run.notices if notice.code != "workspace.refs_changed")
    assert (notice.code, said in notice.message) == ("workspace.head_moved", True)
    kept = git(run.repo, "for-each-ref", "--format=%(objectname)", f"refs/arc-aside/{RUN}/").split()
    is_new = own != last and own not in git(run.repo, "rev-list", last).split()
    assert kept == ([own] if is_new else [])


def test_a_rebase_left_unfinished_is_cleared_and_its_commits_kept(run: Run) -> None:
    (run.files / "a.txt").write_text("one\n")
    run.checkpoint("one")
    git(run.files, "checkout", "-q", "-b", "side", "main")
    (run.files / "a.txt").write_text("two\n")
    git(run.files, "commit", "-q", "-a", "-m", "side")
    side = git(run.files, "rev-parse", "HEAD").strip()
    git(run.files, "rebase", BRANCH, check=False)
    run.checkpoint("two")
    assert head(run) == BRANCH
    assert "rebase" not in git(run.files, "status")
    assert git(run.repo, "rev-parse", "side").strip() == side


def test_a_lost_link_to_the_repository_is_put_back(run: Run) -> None:
    (run.files / ".git").unlink()
    (run.workspace.admin_directory / "commondir").write_text("/nowhere\n")
    (run.files / "new").write_text("n")
    run.checkpoint()
    assert run.codes() == ["workspace.link_mended"]
    assert run.tree()["new"] == ("100644", b"n")
    assert git(run.files, "status", "--porcelain") == ""


@pytest.mark.parametrize("left", [0, 8, 40, 100, -1])
def test_a_torn_private_index_is_made_again(run: Run, tmp_path: Path, left: int) -> None:
    """Git itself would take what is missing for deleted files."""
    run.checkpoint()
    index = run.workspace.stager.index.path
    data = index.read_bytes()
    index.unlink()
    index.write_bytes(data[:left])
    again = attach(run, tmp_path / "logs")
    (again.files / "a.txt").write_text("changed\n")
    again.checkpoint()
    assert again.tree() == {"a.txt": ("100644", b"changed\n"), "dir/b.txt": ("100644", b"b\n")}


def test_a_failed_staging_raises_and_reuses_nothing(run: Run) -> None:
    shutil.rmtree(run.files)
    with pytest.raises(StageError):
        run.workspace.stage()


def test_a_moved_metadata_ref_moves_nothing(run: Run) -> None:
    run.checkpoint()
    before = git(run.repo, "for-each-ref")
    tip = run.workspace.tip
    staged = run.workspace.stage()
    with pytest.raises(RefsMovedError):
        run.workspace.checkpoint(staged, "x", [RefUpdate(f"refs/arc/{RUN}", tip, tip)])
    assert git(run.repo, "for-each-ref") == before
    assert run.workspace.tip == tip


class TestCreate:
    def test_no_branch_is_left_behind_when_the_worktree_cannot_be_made(self, tmp_path: Path) -> None:
        repo = make_repository(tmp_path / "repo")
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(WorktreeError):
            start(repo, tmp_path / "file")
        assert git(repo, "for-each-ref", "--format=%(refname)") == "refs/heads/main\n"
        assert git(repo, "worktree", "list").count("\n") == 1

    def test_the_worktree_is_locked_against_prune(self, run: Run) -> None:
        shutil.move(run.files, run.files.with_name("away"))
        git(run.repo, "worktree", "prune")
        shutil.move(run.files.with_name("away"), run.files)
        run.checkpoint()
        assert "locked" in git(run.repo, "worktree", "list")

    def test_a_start_in_a_subdirectory_stays_there(self, tmp_path: Path) -> None:
        repo = make_repository(tmp_path / "repo")
        repository = Repository.discover(repo / "dir")
        assert repository is not None
        assert (repository.top, repository.prefix) == (repo, "dir")
        run = start(repo, tmp_path / "logs", subdirectory="dir")
        assert run.workspace.directory == run.files / "dir"


class TestAttach:
    def test_folder_gone(self, run: Run, tmp_path: Path) -> None:
        run.checkpoint()
        shutil.rmtree(run.files)
        again = attach(run, tmp_path / "logs")
        assert (again.files / "a.txt").read_text() == "a\n"
        assert again.workspace.stage().changes == 0

    def test_registration_gone_keeps_the_files(self, run: Run, tmp_path: Path) -> None:
        (run.files / "half").write_text("done")
        shutil.rmtree(run.workspace.admin_directory)
        again = attach(run, tmp_path / "logs")
        assert (again.files / "half").read_text() == "done"
        assert head(again) == BRANCH
        again.checkpoint()
        assert again.tree()["half"] == ("100644", b"done")

    def test_registered_elsewhere_under_a_dead_run(self, run: Run, tmp_path: Path) -> None:
        (run.files / "half").write_text("done")
        again = attach(run, tmp_path / "other")
        assert again.codes() == ["workspace.worktree_released"]
        assert (run.files / "half").exists()
        again.checkpoint()

    def test_a_live_owner_elsewhere_is_refused_by_name(self, run: Run, tmp_path: Path) -> None:
        with Lease.acquire(tmp_path / "logs" / "lease"):
            with pytest.raises(BranchHeldError, match=str(os.getpid())):
                attach(run, tmp_path / "other")

    def test_a_persons_worktree_of_the_branch_is_refused(self, run: Run, tmp_path: Path) -> None:
        asyncio.run(run.workspace.close())
        git(run.repo, "worktree", "add", "-q", str(tmp_path / "mine"), f"arc/run/{RUN}")
        with pytest.raises(BranchHeldError, match="mine"):
            attach(run, tmp_path / "logs")

    def test_the_branch_checked_out_by_the_person_is_refused(self, run: Run, tmp_path: Path) -> None:
        asyncio.run(run.workspace.close())
        git(run.repo, "checkout", "-q", f"arc/run/{RUN}")
        with pytest.raises(BranchHeldError, match="main checkout"):
            attach(run, tmp_path / "logs")


class TestAside:
    def test_half_done_work_is_set_aside_and_the_files_are_those_of_the_checkpoint(self, run: Run) -> None:
        run.checkpoint()
        (run.files / "a.txt").write_text("half")
        (run.files / "junk").mkdir()
        (run.files / "junk" / "x").write_text("x")
        (run.files / "dir" / "b.txt").unlink()
        assert run.workspace.set_aside("interrupted-2", "killed") == f"refs/arc-aside/{RUN}/interrupted-2"
        run.workspace.reset()
        assert {p.name for p in run.files.iterdir()} == {".git", "a.txt", "dir"}
        assert (run.files / "a.txt").read_text() == "a\n"
        aside = run.tree(f"refs/arc-aside/{RUN}/interrupted-2")
        assert aside == {"a.txt": ("100644", b"half"), "junk/x": ("100644", b"x")}
        assert run.workspace.set_aside("again", "nothing") is None

    def test_a_taken_name_gets_a_number(self, run: Run) -> None:
        for text in ("one", "two"):
            (run.files / "a.txt").write_text(text)
            ref = run.workspace.set_aside("x", "why")
        assert ref == f"refs/arc-aside/{RUN}/x-2"

    def test_commits_of_a_killed_node_are_kept(self, run: Run, tmp_path: Path) -> None:
        last = run.checkpoint()
        (run.files / "own").write_text("o")
        git(run.files, "add", "-A")
        git(run.files, "commit", "-q", "-m", "own")
        own = git(run.files, "rev-parse", "HEAD").strip()
        ref = run.workspace.set_aside("interrupted-2", "killed")
        run.workspace.reset()
        assert ref is not None
        assert own in git(run.repo, "rev-list", ref).split()
        assert git(run.repo, "rev-parse", BRANCH).strip() == last
        assert head(run) == BRANCH
        assert not (run.files / "own").exists()


class TestPlan:
    def test_plan_names_each_step_and_apply_does_exactly_that(self, run: Run) -> None:
        first = run.checkpoint()
        (run.files / "a.txt").chmod(0o755)
        (run.files / "dir" / "b.txt").write_text("other")
        (run.files / "new").write_text("n")
        untouched = (run.files / "new").stat().st_ino
        second = run.checkpoint()
        plan = run.workspace.plan(first)
        assert [(s.path, s.action) for s in plan.steps] == [(b"a.txt", "mode"), (b"dir/b.txt", "restore"), (b"new", "delete")]
        run.workspace.apply(plan)
        assert run.workspace.plan(first).steps == ()
        run.workspace.apply(run.workspace.plan(second))
        assert (run.files / "new").stat().st_ino != untouched or (run.files / "new").read_text() == "n"
        assert os.access(run.files / "a.txt", os.X_OK)

    def test_a_plan_that_no_longer_holds_is_refused(self, run: Run) -> None:
        first = run.checkpoint()
        (run.files / "a.txt").write_text("seen")
        plan = run.workspace.plan(first)
        (run.files / "a.txt").write_text("changed after the plan was shown")
        with pytest.raises(PlanChangedError):
            run.workspace.apply(plan)
        assert (run.files / "a.txt").read_text() == "changed after the plan was shown"

    def test_an_ignored_file_in_the_way_is_a_conflict_and_stays(self, run: Run) -> None:
        first = run.checkpoint()
        (run.files / "a.txt").unlink()
        (run.files / ".gitignore").write_text("a.txt\n")
        run.checkpoint()
        (run.files / "a.txt").write_text("precious")
        plan = run.workspace.plan(first)
        assert [conflict.path for conflict in plan.conflicts] == [b"a.txt"]
        run.workspace.apply(plan)
        assert (run.files / "a.txt").read_text() == "precious"

    def test_no_symbolic_link_is_followed(self, run: Run, tmp_path: Path) -> None:
        first = run.checkpoint()
        outside = tmp_path / "outside"
        outside.mkdir()
        shutil.rmtree(run.files / "dir")
        os.symlink(outside, run.files / "dir")
        run.workspace.apply(run.workspace.plan(first))
        assert (run.files / "dir" / "b.txt").read_text() == "b\n"
        assert not (run.files / "dir").is_symlink()
        assert list(outside.iterdir()) == []


async def branch(run: Run, key: str, edits: dict[str, str | None]) -> MergeInput:
    """A parallel branch that makes these edits, checkpoints and closes."""
    fork: GitWorkspace = await run.workspace.fork(3, "fan", key)
    base = fork.tip
    for name, text in edits.items():
        place = fork.worktree.path / name
        if text is None:
            place.unlink()
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.is_dir():
                shutil.rmtree(place)
            place.write_text(text)
    commit = fork.checkpoint(fork.stage(), format_message(RUN, f"fan:{key}/work", "success", 1, None), [])
    await fork.close()
    return MergeInput(key, fork.branch, commit, base)


@pytest.fixture
def merging(tmp_path: Path) -> Run:
    lines = "".join(f"line {n}\n" for n in range(30)).encode()
    return start(make_repository(tmp_path / "repo", {"a": lines, "b": b"b\n", "c": b"c\n", "bin": b"\0\1\2"}), tmp_path / "logs")


def test_branches_are_merged_in_order_and_become_parents(merging: Run) -> None:
    async def go() -> None:
        one = await branch(merging, "one", {"a": (merging.files / "a").read_text().replace("line 1\n", "ONE\n"), "new/one": "1"})
        two = await branch(merging, "two", {"a": (merging.files / "a").read_text().replace("line 25\n", "TWO\n"), "c": None, "same": "s"})
        three = await branch(merging, "three", {"same": "s", "b": "from three\n"})
        (merging.files / "own").write_text("not committed yet")
        base = merging.workspace.tip
        report = await merging.workspace.merge([one, two, three])
        assert (report.merged, report.conflicts) == (("one", "two", "three"), ())
        commit = merging.checkpoint("join")
        parents = git(merging.repo, "log", "-1", "--format=%P", commit).split()
        assert parents == [base, one.commit, two.commit, three.commit]

    asyncio.run(go())
    text = merging.tree()["a"][1]
    assert (b"ONE\n" in text, b"TWO\n" in text) == (True, True)
    assert sorted(merging.tree()) == ["a", "b", "bin", "new/one", "own", "same"]
    assert git(merging.repo, "for-each-ref", "--format=%(refname)", "refs/heads/arc/branch") == ""
    assert git(merging.repo, "worktree", "list").count("\n") == 2
    assert git(merging.files, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("one", "two", "paths"),
    [
        ({"b": "1\n"}, {"b": "2\n"}, ("b",)),
        ({"b": None}, {"b": "2\n"}, ("b",)),
        ({"b": "2\n"}, {"b": None}, ("b",)),
        ({"bin": "\0one"}, {"bin": "\0two"}, ("bin",)),
        ({"x": "1"}, {"x": "2"}, ("x",)),
    ],
)
def test_a_branch_in_conflict_is_left_out_whole_and_kept(
    merging: Run, one: dict[str, str | None], two: dict[str, str | None], paths: tuple[str, ...]
) -> None:
    async def go() -> tuple[MergeInput, MergeInput]:
        first, second = await branch(merging, "one", one), await branch(merging, "two", {**two, "extra": "e"})
        report = await merging.workspace.merge([first, second])
        assert report.merged == ("one",)
        assert report.conflicts == (BranchConflict("two", second.ref, paths),)
        merging.checkpoint("join")
        return first, second

    first, second = asyncio.run(go())
    assert "extra" not in merging.tree()
    assert git(merging.repo, "rev-parse", second.ref).strip() == second.commit
    assert merging.workspace.repository.ref(first.ref) is None


def test_a_file_against_a_folder_is_a_conflict(merging: Run) -> None:
    async def go() -> None:
        first, second = await branch(merging, "one", {"p": "file"}), await branch(merging, "two", {"p/q": "below"})
        report = await merging.workspace.merge([first, second])
        assert report.merged == ("one",)
        assert [conflict.key for conflict in report.conflicts] == ["two"]

    asyncio.run(go())
    assert (merging.files / "p").read_text() == "file"


def test_an_existing_branch_is_attached_again_with_half_done_edits_set_aside(merging: Run) -> None:
    async def go() -> None:
        first = await merging.workspace.fork(3, "fan", "one")
        (first.worktree.path / "half").write_text("h")
        again = await merging.workspace.fork(3, "fan", "one")
        assert not (again.worktree.path / "half").exists()
        assert again.branch == first.branch

    asyncio.run(go())
    assert merging.codes() == ["workspace.set_aside"]


def test_closing_removes_only_what_is_committed(run: Run) -> None:
    run.checkpoint()
    (run.files / "late").write_text("late")
    asyncio.run(run.workspace.close())
    assert (run.files / "late").exists()
    assert run.codes() == ["workspace.kept"]


def test_branch_names_never_collide() -> None:
    names = ["a-b", "A-b", "a_b", "a b", "a/b", "ä", "..", ".", "x.lock", "@", "", "a" * 300, "A" * 300]
    made = [safe_name(name) for name in names]
    assert len({name.casefold() for name in made}) == len(names)
    assert branch_ref(RUN, 3, "fan", "a-b") == f"refs/heads/arc/branch/{RUN}/3-fan/a-b"


@pytest.mark.parametrize("checkpoint", [None, "a" * 40])
def test_messages_are_read_back(checkpoint: str | None) -> None:
    text = format_message(RUN, "fan:left/do (it)", "partial_success", 12, checkpoint)
    assert parse_message(text) == RunCommit(RUN, "fan:left/do (it)", "partial_success", 12, checkpoint)
    assert parse_message("fix things\n\nArc-Run: x\n") is None


def test_a_transaction_is_all_or_nothing(run: Run) -> None:
    tip = run.workspace.tip
    with pytest.raises(RefsMovedError):
        transact(run.workspace.repository, [RefUpdate("refs/arc-aside/x", tip, None), RefUpdate(BRANCH, tip, "1" * 40)])
    assert run.workspace.repository.ref("refs/arc-aside/x") is None
