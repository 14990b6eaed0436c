"""gc: what is chosen, what stays and why, what a plan's digest protects, and what is left afterwards."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from arc.base.errors import UsageError
from arc.base.locks import Lease
from arc.runs.fork import ForkRequest, fork_run
from arc.runs.gc import GcRequest, collect, parse_age, plan_gc
from arc.runs.history.lookup import open_known
from arc.runs.rewind import rewind_run
from arc.runs.store import create_run_folder, find_run, open_run_folder, own_names
from arc.workspace.git.errors import PlanChangedError
from arc.workspace.git.refs import RefUpdate, transact
from tests.conftest import MakeRepo, Repo
from tests.runs.helpers import start, world_in
from tests.runs.made import MadeRun, make_world


@pytest.fixture
def made(repo: MakeRepo, tmp_path: Path) -> MadeRun:
    return MadeRun(make_world(tmp_path / "home"), repo()).sample()


def merge(made: MadeRun) -> None:
    made.repo.git("merge", "-q", "--ff-only", made.branch)


def run_refs(repo: Repo) -> list[str]:
    return [name for name in repo.git("for-each-ref", "--format=%(refname)").splitlines() if "arc" in name]


def test_a_finished_and_merged_run_goes_with_folder_and_refs(made: MadeRun) -> None:
    made.finish()
    merge(made)
    plan = plan_gc(made.world, GcRequest())
    (item,) = plan.items
    assert (item.run_id, item.refused, item.size > 0) == (made.run_id, (), True)
    assert [name for name, _ in item.refs] == [made.branch, f"refs/arc/{made.run_id}"]
    done = collect(made.world, GcRequest(), confirm=plan.digest)
    assert done.deleted == (made.run_id,)
    assert run_refs(made.repo) == []
    assert list(made.world.runs.iterdir()) == []
    assert made.repo.read("src/b.txt") == "better\n"


def test_commits_reachable_from_nowhere_else_are_kept_unless_the_run_is_named_for_it(made: MadeRun) -> None:
    made.finish()
    (item,) = plan_gc(made.world, GcRequest()).items
    assert item.refused == (f"commits reachable from nowhere else: {made.branch}",)
    assert collect(made.world, GcRequest()).deleted == ()
    with pytest.raises(UsageError, match="by name"):
        plan_gc(made.world, GcRequest(discard_unmerged=True))
    request = GcRequest(runs=(made.known,), discard_unmerged=True)
    (item,) = plan_gc(made.world, request).items
    assert (item.refused, item.lost) == ((), (made.branch,))
    assert collect(made.world, request).deleted == (made.run_id,)
    assert run_refs(made.repo) == []


def test_a_run_that_changed_no_file_has_nothing_to_lose(repo: MakeRepo, tmp_path: Path) -> None:
    made = MadeRun(make_world(tmp_path / "home"), repo())
    made.node("start")
    made.node("check")
    made.finish("fail")
    assert collect(made.world, GcRequest()).deleted == (made.run_id,)


def test_work_set_aside_counts(made: MadeRun) -> None:
    made.finish()
    merge(made)
    aside = f"refs/arc-aside/{made.run_id}/3-build"
    commit = made.repo.git("commit-tree", "-m", "half done", "-p", made.base, made.repo.git("write-tree"))
    transact(made.repository, [RefUpdate(aside, commit, None)])
    (item,) = plan_gc(made.world, GcRequest()).items
    assert item.refused == (f"commits reachable from nowhere else: {aside}",)


def test_live_and_interrupted_runs_stay(made: MadeRun) -> None:
    assert plan_gc(made.world, GcRequest()).items == ()
    merge(made)
    made.finish()
    with Lease.acquire(made.folder.lease_file) as lease:
        (item,) = plan_gc(made.world, GcRequest(runs=(made.known,))).items
    assert item.refused == (f"{lease.owner} works on it",)


def test_a_worktree_with_uncommitted_work_stays(made: MadeRun) -> None:
    made.finish()
    merge(made)
    worktree = made.folder.worktree
    made.repo.git("worktree", "add", "-q", str(worktree), f"arc/run/{made.run_id}")
    (worktree / "new.txt").write_text("not committed\n")
    (item,) = plan_gc(made.world, GcRequest()).items
    assert item.refused == (f"the worktree `{worktree}` has uncommitted work (1 file)",)
    (worktree / "new.txt").unlink()
    assert collect(made.world, GcRequest()).deleted == (made.run_id,)
    assert made.repo.git("worktree", "list", "--porcelain").count("worktree ") == 1


def test_of_a_run_and_its_fork_one_can_go(made: MadeRun) -> None:
    """The fork stays (nothing else has its commits), and so the source's commits live on in it."""
    made.finish()
    forked = fork_run(made.known, ForkRequest("@5"), made.world)
    fork = find_run(made.world, forked.run_id)
    runs = (made.known, open_known(fork))
    items = {item.run_id: item for item in plan_gc(made.world, GcRequest(runs=runs)).items}
    assert items[forked.run_id].refused == (f"commits reachable from nowhere else: refs/heads/arc/run/{forked.run_id}",)
    assert items[made.run_id].refused == ()
    assert collect(made.world, GcRequest(runs=runs)).deleted == (made.run_id,)
    assert run_refs(made.repo) == [f"refs/arc/{forked.run_id}", f"refs/heads/arc/run/{forked.run_id}"]


def test_a_superseded_run_keeps_what_only_it_has(made: MadeRun) -> None:
    rewind_run(made.known, ForkRequest("plan"), made.world)
    (item,) = plan_gc(made.world, GcRequest(finished=True)).items
    assert (item.run_id, item.status) == (made.run_id, "superseded")
    assert item.refused == (f"commits reachable from nowhere else: {made.branch}",)


def test_age_and_merged_narrow(made: MadeRun) -> None:
    made.finish()
    assert plan_gc(made.world, GcRequest(merged=True)).items == ()
    merge(made)
    assert len(plan_gc(made.world, GcRequest(merged=True)).items) == 1
    assert plan_gc(made.world, GcRequest(older_than=timedelta(days=1))).items == ()
    made.world.clock.moment += timedelta(days=2)  # type: ignore[attr-defined]
    assert len(plan_gc(made.world, GcRequest(older_than=timedelta(days=1))).items) == 1


def test_a_plan_that_has_changed_is_refused(made: MadeRun) -> None:
    made.finish()
    merge(made)
    digest = plan_gc(made.world, GcRequest()).digest
    made.repo.git("update-ref", f"refs/arc-aside/{made.run_id}/x", made.base)
    with pytest.raises(PlanChangedError, match="nothing was deleted"):
        collect(made.world, GcRequest(), confirm=digest)
    assert made.folder.run_file.exists()


def test_a_corrupt_run_stays_and_does_not_stop_the_others(made: MadeRun) -> None:
    made.finish()
    merge(made)
    broken = create_run_folder(made.world, made.world.ids.run_id())
    broken.run_file.write_bytes(b"{")
    items = {item.run_id: item for item in plan_gc(made.world, GcRequest()).items}
    assert items[broken.run_id].status == "corrupt"
    assert "run.json" in items[broken.run_id].refused[0]
    assert collect(made.world, GcRequest()).deleted == (made.run_id,)
    assert broken.run_file.exists()


def test_a_corrupt_run_goes_by_name_when_asked_and_with_nothing_that_may_be_work(made: MadeRun) -> None:
    broken = create_run_folder(made.world, made.world.ids.run_id())
    broken.run_file.write_bytes(b"{")
    (broken.worktree / "x").mkdir(parents=True)
    request = GcRequest(runs=(broken,), discard_corrupt=True)
    (item,) = plan_gc(made.world, request).items
    assert item.refused == (f"`{broken.worktree}` may hold work that no commit has: look, and remove it yourself",)
    assert collect(made.world, request).deleted == ()
    (broken.worktree / "x").rmdir()
    assert plan_gc(made.world, GcRequest(runs=(broken,))).items[0].refused == (item.reason,)
    assert collect(made.world, request).deleted == (broken.run_id,)
    assert not broken.path.exists()
    assert made.folder.run_file.exists()


def test_a_run_of_a_newer_arc_stays_also_when_asked_by_name(made: MadeRun) -> None:
    newer = create_run_folder(made.world, made.world.ids.run_id())
    newer.run_file.write_bytes(b'{"schema": 99}')
    request = GcRequest(runs=(newer,), discard_corrupt=True)
    (item,) = plan_gc(made.world, request).items
    assert (item.newer, item.refused) == (True, (item.reason,))
    assert "written by a newer arc" in item.reason
    assert collect(made.world, request).deleted == ()
    assert newer.run_file.exists()


def test_a_corrupt_run_that_a_process_works_on_stays(made: MadeRun) -> None:
    broken = create_run_folder(made.world, made.world.ids.run_id())
    with Lease.acquire(broken.lease_file, what="run", clock=made.world.clock):
        (item,) = plan_gc(made.world, GcRequest(runs=(broken,), discard_corrupt=True)).items
        assert len(item.refused) == 1
        assert "works on it" in item.refused[0]


def test_a_run_whose_folder_elsewhere_is_gone_can_be_removed(made: MadeRun, tmp_path: Path) -> None:
    lost = create_run_folder(made.world, made.world.ids.run_id(), tmp_path / "elsewhere")
    shutil.rmtree(lost.path)
    assert collect(made.world, GcRequest(runs=(lost,), discard_corrupt=True)).deleted == (lost.run_id,)
    assert not (made.world.runs / lost.run_id).exists()


@pytest.mark.parametrize("option", ["discard_corrupt", "discard_unmerged"])
def test_what_discards_needs_names(made: MadeRun, option: str) -> None:
    with pytest.raises(UsageError, match=f"`--{option.replace('_', '-')}` needs the runs by name"):
        plan_gc(made.world, GcRequest(**{option: True}))  # type: ignore[arg-type]


def test_a_fork_that_was_killed_before_its_refs_can_be_removed(made: MadeRun) -> None:
    forked = find_run(made.world, fork_run(made.known, ForkRequest("plan"), made.world).run_id)
    for ref in (f"refs/heads/arc/run/{forked.run_id}", f"refs/arc/{forked.run_id}"):
        made.repo.git("update-ref", "-d", ref)
    (item,) = plan_gc(made.world, GcRequest(runs=(open_known(forked),))).items
    assert (item.status, item.refs, item.refused) == ("created", (), ())
    assert collect(made.world, GcRequest(runs=(open_known(forked),))).deleted == (forked.run_id,)
    assert not forked.path.exists()


def test_in_a_folder_of_the_persons_own_only_arcs_files_go(repo: MakeRepo, tmp_path: Path) -> None:
    made = MadeRun(make_world(tmp_path / "home"), repo(), git=False)
    made.node("start")
    made.finish()
    elsewhere = tmp_path / "logs"
    made.folder.path.rename(elsewhere)
    from arc.base.json import encode
    from arc.runs.store import Location

    made.folder.path.mkdir()
    (made.folder.path / "location.json").write_bytes(encode(Location(1, made.run_id, str(elsewhere))))
    (elsewhere / "mine.txt").write_text("mine\n")
    done = collect(made.world, GcRequest())
    assert done.left == (str(elsewhere / "mine.txt"),)
    assert [path.name for path in elsewhere.iterdir()] == ["mine.txt"]
    assert list(made.world.runs.iterdir()) == []


EVERYTHING = """digraph g { start [shape=Mdiamond] exit [shape=Msquare]
  fan [shape=component] a [shape=parallelogram, script="echo a > a"] b [shape=parallelogram, script="echo b > b"] join [shape=tripleoctagon]
  ask [shape=hexagon] start -> fan  fan -> a -> join  fan -> b -> join  join -> ask  ask -> exit [label="go"] }"""


@pytest.mark.parametrize("dry", [False, True])
def test_all_that_a_real_run_leaves_in_a_folder_elsewhere_is_arcs_own(repo: MakeRepo, tmp_path: Path, dry: bool) -> None:
    project = repo({"run.toml": 'graph = "w.dot"\n[setup]\ncommands = ["true"]\n', "w.dot": EVERYTHING, ".gitignore": "logs\n"})
    world = world_in(tmp_path)
    logs = project.path / "logs"
    start(project.path / "run.toml", world, logs_dir=logs, auto_approve=True, dry_run=dry)
    left = {path.name for path in logs.iterdir()}
    assert {".gitignore", "run.json", "scratch" if dry else "setup.json"} <= left
    assert left <= own_names()
    known = open_known(open_run_folder(next(world.runs.iterdir())))
    done = collect(world, GcRequest(runs=(known,), discard_unmerged=True))
    assert (done.deleted, done.left, logs.exists(), list(world.runs.iterdir())) == ((known.run_id,), (), False, [])


@pytest.mark.parametrize(("text", "age"), [("30d", timedelta(days=30)), ("12h", timedelta(hours=12)), ("2w", timedelta(weeks=2))])
def test_ages(text: str, age: timedelta) -> None:
    assert parse_age(text) == age


@pytest.mark.parametrize("text", ["", "d", "30", "-1d", "1.5h", "1y", "9999999d"])
def test_other_ages_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not an age"):
        parse_age(text)
