"""A process killed at each named point of the Git room: attached again, files, refs and indexes agree, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from arc.base.faults import FAULT_POINTS
from tests.workspace.killed import DONE, half_done
from tests.workspace.made import BRANCH, RUN, Run, attach, fingerprint, git, make_repository, start

POINTS = [
    ("create", "git.worktree.branch"),
    ("create", "git.worktree.added"),
    ("create", "git.worktree.filled"),
    ("attach", "git.worktree.moved"),
    *(
        ("checkpoint", point)
        for point in (
            "git.stage.status",
            "git.stage.indexed",
            "git.stage.tree",
            "git.commit.object",
            "git.refs.before",
            "git.refs.after",
            "git.head.restored",
            "git.index.synced",
        )
    ),
    ("aside", "git.aside.kept"),
    ("aside", "git.apply.written"),
    ("aside", "git.apply.step:1"),
    ("aside", "git.apply.step:2"),
    ("aside", "git.apply.step:3"),
    ("close", "git.close.removing"),
    ("merge", "git.close.removing:2"),
    ("merge", "git.merge.planned"),
    ("merge", "git.apply.step"),
    ("merge", "git.merge.applied"),
    ("merge", "git.refs.after:3"),
]


def run_process(scenario: str, repo: Path, logs: Path, **environment: str) -> int:
    command = [sys.executable, "-m", "tests.workspace.killed", scenario, str(repo), str(logs)]
    root = Path(__file__).parents[2]
    result = subprocess.run(command, cwd=root, env={**os.environ, **environment}, capture_output=True, check=False)
    assert result.returncode in (0, 1, -signal.SIGKILL), result.stderr.decode()
    return result.returncode


def test_every_point_of_the_room_is_killed_at() -> None:
    named = {point for point in FAULT_POINTS if point.startswith("git.")}
    assert named == {point.partition(":")[0] for _, point in POINTS}


@pytest.mark.parametrize(("scenario", "point"), POINTS)
@pytest.mark.parametrize("action", ["kill", "raise"])
def test_after_a_death_files_refs_and_indexes_agree_and_nothing_is_lost(tmp_path: Path, scenario: str, point: str, action: str) -> None:
    repo, logs = make_repository(tmp_path / "repo"), tmp_path / "logs"
    before = fingerprint(repo)
    if scenario != "create":
        half_done(start(repo, logs).files)
    ended = run_process(scenario, repo, logs, ARC_FAULT=point, ARC_FAULT_ACTION=action)
    assert ended == (-signal.SIGKILL if action == "kill" else 1)
    if scenario == "create" and action == "raise" and not git(repo, "for-each-ref", "refs/heads/arc"):
        return  # undone: neither branch nor worktree is left
    again = attach(Run(repo, workspace=None), logs)  # type: ignore[arg-type]
    if scenario == "create":
        assert again.tree() == {"a.txt": ("100644", b"a\n"), "dir/b.txt": ("100644", b"b\n")}
        half_done(again.files)
    if scenario == "aside":
        assert again.tree(f"refs/arc-aside/{RUN}/interrupted-1-work") == DONE
        again.workspace.reset()
        assert (again.files / "a.txt").read_text() == "a\n"
    else:
        again.checkpoint("again")
        merged = {key: ("100644", key.encode()) for key in ("one", "two") if (again.files / key).exists()}
        assert again.tree() == {**DONE, **merged}
        if point in ("git.merge.applied", "git.refs.after:3"):
            assert sorted(merged) == ["one", "two"]
    assert git(again.files, "status", "--porcelain") == ""
    assert git(again.files, "symbolic-ref", "HEAD").strip() == BRANCH
    assert git(repo, "fsck", "--no-dangling") == ""
    assert fingerprint(repo) == before
    if scenario == "merge":
        for key in ("one", "two"):  # in the run branch, or still at its own branch
            held = git(repo, "log", "--all", "--format=%H", "--", key).split()
            assert held
