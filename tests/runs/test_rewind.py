"""Rewind: a fork that supersedes its source, by a plan, never on a live run, nothing erased."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc.base.errors import ExitStatus
from arc.base.locks import Lease, LeaseHeldError
from arc.runs.errors import SupersededError
from arc.runs.fork import ForkRequest, ForkWithoutFilesError
from arc.runs.history.lookup import open_known
from arc.runs.rewind import plan_rewind, rewind_document, rewind_run
from arc.workspace.git.errors import PlanChangedError
from tests.conftest import MakeRepo
from tests.runs.made import MadeRun, make_world


@pytest.fixture
def made(repo: MakeRepo, tmp_path: Path) -> MadeRun:
    return MadeRun(make_world(tmp_path / "home"), repo()).sample()


def test_the_plan_says_what_becomes_of_the_files_and_what_stays_behind(made: MadeRun) -> None:
    plan = plan_rewind(made.known, "plan")
    assert [(step.path, step.action) for step in plan.files.steps] == [(b"a.txt", "restore"), (b"src/b.txt", "delete")]
    assert [entry.ordinal for entry in plan.left_behind] == [3, 4, 5]
    document = rewind_document(plan)
    assert document["digest"] == plan.digest
    assert document["target"] == "@2"


def test_the_source_is_superseded_and_keeps_everything(made: MadeRun) -> None:
    refs = made.repo.git("for-each-ref")
    done = rewind_run(made.known, ForkRequest("plan"), made.world)
    assert open_known(made.folder).status == "superseded"
    assert made.folder.read_record().superseded_by == done.forked.run_id
    assert set(refs.splitlines()) < set(made.repo.git("for-each-ref").splitlines())
    assert made.repo.git("show", f"arc/run/{done.forked.run_id}:a.txt") == "one"


def test_a_confirmed_plan_is_applied_and_a_changed_one_is_refused(made: MadeRun) -> None:
    digest = plan_rewind(made.known, "plan").digest
    made.node("after", {"c": "1"})
    with pytest.raises(PlanChangedError, match="nothing was changed") as caught:
        rewind_run(made.known, ForkRequest("plan"), made.world, confirm=digest)
    assert caught.value.status == ExitStatus.REFUSED
    assert made.folder.read_record().superseded_by is None
    assert [path.name for path in made.world.runs.iterdir()] == [made.run_id]
    rewind_run(made.known, ForkRequest("plan"), made.world, confirm=plan_rewind(made.known, "plan").digest)


def test_without_git_the_plan_is_refused_like_the_rewind(repo: MakeRepo, tmp_path: Path) -> None:
    made = MadeRun(make_world(tmp_path / "home"), repo(), git=False).sample()
    with pytest.raises(ForkWithoutFilesError) as planned:
        plan_rewind(made.known, "@last")
    with pytest.raises(ForkWithoutFilesError) as rewound:
        rewind_run(made.known, ForkRequest("@last"), made.world)
    assert planned.value.message == rewound.value.message
    assert plan_rewind(made.known, "@last", state_only=True).files.steps == ()


def test_a_live_source_is_refused_by_name(made: MadeRun) -> None:
    with Lease.acquire(made.folder.lease_file) as lease:
        with pytest.raises(LeaseHeldError, match=f"process {lease.owner.pid} on") as caught:
            rewind_run(made.known, ForkRequest("plan"), made.world)
    assert caught.value.status == ExitStatus.BUSY
    assert [path.name for path in made.world.runs.iterdir()] == [made.run_id]


def test_a_superseded_run_names_the_run_that_took_its_place(made: MadeRun) -> None:
    done = rewind_run(made.known, ForkRequest("plan"), made.world)
    with pytest.raises(SupersededError, match=done.forked.run_id):
        rewind_run(made.known, ForkRequest("plan"), made.world)


def test_a_rewind_of_a_rewind_goes_further_back(made: MadeRun) -> None:
    first = rewind_run(made.known, ForkRequest("build@1"), made.world).forked
    second = rewind_run(open_known(open_folder(made, first.run_id)), ForkRequest("plan"), made.world).forked
    assert second.forked_from == f"{first.run_id}@2"
    assert made.repo.git("ls-tree", "-r", "--name-only", second.run_branch or "").splitlines() == ["README.md", "a.txt"]


def open_folder(made: MadeRun, run_id: str):  # type: ignore[no-untyped-def]
    from arc.runs.store import find_run

    return find_run(made.world, run_id)
