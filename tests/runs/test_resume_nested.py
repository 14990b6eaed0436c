"""A run survives SIGKILL inside blocks that are inside blocks: a parallel block in a branch, a child in a branch, a parallel block in that
child; and a clone that fetched only the two refs goes on from any of those moments."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from arc.runs.events import read_events
from tests.conftest import MakeRepo
from tests.runs.killing import Checkout, Project, check_agreement, check_files
from tests.runs.nested import NODES, completed_nodes, make_nested

pytestmark = pytest.mark.kill

POINTS = (
    *(f"checkpoint.begin:{number}" for number in (3, 7, 11, 15, 17)),
    *(f"checkpoint.disk:{number}" for number in range(2, 19)),
    *(f"git.refs.after:{number}" for number in (4, 9, 13, 16, 17, 18)),
)
"""Nothing saved; the disk ahead of Git; Git complete and the disk behind. Checkpoints 2 to 16 are inside the outer block, in whatever
order, 17 is the block itself, 18 its fan-in."""


@pytest.fixture
def project(repo: MakeRepo, tmp_path: Path) -> Project:
    return make_nested(repo, tmp_path)


def resume_and_check(project: Project, before: Checkout) -> None:
    folder = project.folder()
    completed, told_before = completed_nodes(folder), len(list(read_events(folder.events_file)))
    begun = project.begun()
    ended = project.drive("resume", folder.run_id)
    bad = [line for line in folder.events_file.read_text().splitlines() if '"fail' in line or "notice" in line]
    assert (ended.stdout, ended.status) == ("success", 0), "\n".join((ended.stderr, *bad))
    check_agreement(project)
    check_files(project, NODES)
    assert Checkout.of(project.repo) == before
    told = list(read_events(folder.events_file))[told_before:]
    started = Counter((event.node or "").rpartition("/")[2] for event in told if event.event == "node.started")
    for node in NODES:
        assert started[node] == (0 if completed[node] else 1), node
        if completed[node]:
            assert project.begun()[node] == begun[node]
            assert project.done()[node] == 1, node


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_checkpoint_inside(project: Project, point: str) -> None:
    before = Checkout.of(project.repo)
    assert project.drive("start", extra={"ARC_FAULT": point}).killed
    resume_and_check(project, before)


@pytest.mark.parametrize("node", NODES)
def test_killed_in_the_middle_of_a_node_inside(project: Project, node: str) -> None:
    before = Checkout.of(project.repo)
    project.kill_in(node)
    resume_and_check(project, before)


@pytest.mark.parametrize("number", [1, 2, 4, 6])
def test_killed_while_git_registers_the_worktree_of_a_branch(project: Project, number: int) -> None:
    """`git worktree add` begins with a detached HEAD and dies with arc (its output is a closed pipe): only the place names the branch."""
    before = Checkout.of(project.repo)
    assert project.drive("start", extra={"ARC_FAULT": f"git.worktree.added:{number}"}).killed
    half = [admin for admin in (project.repo.path / ".git" / "worktrees").iterdir() if not (admin / "index").exists()]
    assert half
    for admin in half:
        (admin / "HEAD").write_text(project.repo.git("rev-parse", "main") + "\n")
    resume_and_check(project, before)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_killed_while_the_worktree_of_a_branch_that_has_ended_is_removed(project: Project, number: int) -> None:
    """Its files are gone, its registration is not, and nothing opens that branch again."""
    before = Checkout.of(project.repo)
    assert project.drive("start", extra={"ARC_FAULT": f"git.close.removing:{number}"}).killed
    event = next(event for event in read_events(project.folder().events_file) if event.event == "branch.completed")
    block, key = f"{event.ordinal}-{(event.node or '').rpartition('/')[2]}", str(event.properties["branch"])
    for admin in (project.repo.path / ".git" / "worktrees").iterdir():
        place = Path((admin / "gitdir").read_text().strip()).parent
        if place.parts[-3:-1] == (block, key):
            shutil.rmtree(place)
    resume_and_check(project, before)


@pytest.mark.parametrize("number", [1, 3, 9, 16, 17, 18])
def test_a_clone_with_the_two_refs_goes_on(project: Project, tmp_path: Path, number: int) -> None:
    """Commits of branches that were not joined are not in the two refs: the block runs again, from a state whose files are all here."""
    assert project.drive("start", extra={"ARC_FAULT": f"git.refs.after:{number}"}).killed
    run_id = project.folder().run_id
    elsewhere = project.clone(tmp_path / "elsewhere", f"refs/arc/{run_id}", f"refs/heads/arc/run/{run_id}")
    ended = elsewhere.drive("resume", f"arc/run/{run_id}")
    assert (ended.stdout, ended.status) == ("success", 0), ended.stderr
    check_agreement(elsewhere)
    check_files(elsewhere, NODES)
    told = [event.properties.get("code") for event in read_events(elsewhere.folder().events_file)]
    assert ("resume.branches_missing" in told) == (2 <= number <= 17), "said exactly when something had to run again"
    assert set(elsewhere.done()) == (set(NODES) if number <= 17 else {"last"})


def test_a_clone_with_all_refs_keeps_what_completed_in_the_branches(project: Project, tmp_path: Path) -> None:
    assert project.drive("start", extra={"ARC_FAULT": "git.refs.after:9"}).killed
    folder = project.folder()
    completed = completed_nodes(folder)
    assert len(completed) > 2
    elsewhere = project.clone(tmp_path / "elsewhere", f"refs/arc/{folder.run_id}", "refs/heads/arc/*")
    ended = elsewhere.drive("resume", f"arc/run/{folder.run_id}")
    assert (ended.stdout, ended.status) == ("success", 0), ended.stderr
    check_agreement(elsewhere)
    check_files(elsewhere, NODES)
    assert elsewhere.done() == {node: 1 for node in NODES if not completed[node]}
