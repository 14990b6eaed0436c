"""A run survives SIGKILL at every named point of its life and in the middle of every kind of node.

Each test kills a real process, looks at what is left, resumes in another process and compares with a run that was never killed: the
same files, state and files in agreement, every node that had completed executed exactly once, the caller's checkout as it was.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from arc.runs.events import read_events
from arc.runs.store import shown_status
from tests.conftest import MakeRepo
from tests.runs.killing import NODES, Checkout, Project, check_agreement, check_files, completed_nodes, make_project

pytestmark = pytest.mark.kill

BEFORE_RUN = ("folder.created", "start.lease", "start.sources")
"""Killed here, there is no run yet: nothing but a folder without run.json."""

START = (
    "run_json.written",
    "start.recorded",
    "start.metadata",
    "start.refs",
    "git.worktree.added",
    "git.worktree.filled",
    "start.worktree",
    "run_json.written:2",
    "execute.running",
    "setup.begin",
    "setup.command",
    "setup.done",
)

CYCLE = (
    "checkpoint.begin",
    "checkpoint.disk",
    "checkpoint.staged",
    "checkpoint.metadata",
    "git.commit.object",
    "git.refs.before",
    "git.refs.after",
    "git.head.restored",
    "git.index.synced",
    "checkpoint.refs",
    "checkpoint.resaved",
    "checkpoint.told",
)

TIMES = (1, 5, 9, 13)
"""At which checkpoint: after start, in the parallel block, at the fan-in, after the child."""

NODE_LOG = ("nodelog.opened:2", "nodelog.status:3", "nodelog.status:4", "nodelog.prompt", "nodelog.response")

BRANCHES = ("git.worktree.branch", "git.worktree.branch:2", "git.worktree.added:2", "git.worktree.filled:3")

JOIN = ("git.merge.planned", "git.apply.step", "git.apply.written", "git.merge.applied")

STAGE = ("git.stage.status:3", "git.stage.indexed:3", "git.stage.tree:3")

END = ("end.state", "end.recorded", "git.close.removing:3", "end.closed")

POINTS = (*START, *(f"{point}:{time}" for time in TIMES for point in CYCLE), *NODE_LOG, *BRANCHES, *STAGE, *JOIN, *END)


@pytest.fixture
def project(repo: MakeRepo, tmp_path: Path) -> Project:
    return make_project(repo, tmp_path)


def resume_and_check(project: Project, before: Checkout) -> None:
    """Resume the killed run to its end; whatever had completed must not have run again."""
    folder = project.folder()
    assert shown_status(folder) in ("interrupted", "success")
    completed, begun_before, told_before = completed_nodes(folder), project.begun(), len(list(read_events(folder.events_file)))
    ended = project.drive("resume", folder.run_id)
    bad = [line for line in folder.events_file.read_text().splitlines() if '"fail' in line or "notice" in line]
    assert (ended.stdout, ended.status) == ("success", 0), "\n".join((ended.stderr, *bad))
    check_agreement(project)
    check_files(project)
    assert Checkout.of(project.repo) == before
    told = list(read_events(folder.events_file))[told_before:]
    started = Counter((event.node or "").rpartition("/")[2] for event in told if event.event == "node.started")
    for node in NODES:
        if node in completed:
            assert started[node] == 0, f"`{node}` had completed and was started again"
            assert project.begun()[node] == begun_before[node]
            assert project.done()[node] == 1
        else:
            assert started[node] == 1, f"`{node}` was started {started[node]} times"
            assert project.done()[node] >= 1


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_named_point(project: Project, point: str) -> None:
    """Start, killed at the point; resume: as if it had never happened."""
    before = Checkout.of(project.repo)
    ended = project.drive("start", extra={"ARC_FAULT": point})
    assert ended.killed, f"`{point}` was not reached: {ended}"
    resume_and_check(project, before)


@pytest.mark.parametrize("point", BEFORE_RUN)
def test_killed_before_there_is_a_run(project: Project, point: str) -> None:
    """Nothing was done: no ref exists, the next start works, the folder does not claim to be a running run."""
    before = Checkout.of(project.repo)
    assert project.drive("start", extra={"ARC_FAULT": point}).killed
    folder = project.folder()
    assert not folder.run_file.exists()
    assert folder.holder() is None
    assert project.repo.git("for-each-ref", "refs/arc", "refs/heads/arc") == ""
    assert Checkout.of(project.repo) == before
    assert project.drive("start").stdout == "success"


@pytest.mark.parametrize("node", NODES)
def test_killed_in_the_middle_of_a_node(project: Project, node: str) -> None:
    """Half-done edits are set aside and named, never kept in the files; the node runs again under a new ordinal."""
    before = Checkout.of(project.repo)
    project.kill_in(node)
    resume_and_check(project, before)
    folders = [name for name in os.listdir(project.folder().nodes) if name.endswith(f"{node}")]
    assert len(folders) == 2, "the interrupted execution keeps its log, the new one has its own"
    asides = project.repo.git("for-each-ref", "--format=%(refname)", f"refs/arc-aside/{project.folder().run_id}").splitlines()
    assert any(f"half {node}" in project.repo.git("show", f"{aside}:{node}.txt") for aside in asides if _has(project, aside, f"{node}.txt"))


def _has(project: Project, ref: str, name: str) -> bool:
    return name in project.repo.git("ls-tree", "--name-only", ref).splitlines()


RESUME = ("resume.claimed", "resume.opened", "resume.cycle", "checkpoint.refs", "execute.running")

ASIDE = ("git.aside.kept", "resume.aside", "resume.reset")


@pytest.mark.parametrize("point", RESUME)
def test_killed_again_while_resuming(project: Project, point: str) -> None:
    """A resume that is killed is resumed like a run that is killed."""
    before = Checkout.of(project.repo)
    assert project.drive("start", extra={"ARC_FAULT": "checkpoint.disk:3"}).killed
    assert project.drive("resume", project.folder().run_id, {"ARC_FAULT": point}).killed
    resume_and_check(project, before)


@pytest.mark.parametrize("point", ASIDE)
def test_killed_while_setting_aside(project: Project, point: str) -> None:
    before = Checkout.of(project.repo)
    assert project.drive("start", extra={"ARC_FAULT": "nodelog.status:6"}).killed
    assert project.drive("resume", project.folder().run_id, {"ARC_FAULT": point}).killed
    resume_and_check(project, before)


def test_there_are_at_least_forty_points() -> None:
    """The points above are distinct."""
    assert len(set(POINTS)) == len(POINTS)
    assert len(POINTS) + len(NODES) >= 40
