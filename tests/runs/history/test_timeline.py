"""Timelines: from the two refs alone, from the disk, from both; matched by trailers; through a fork into its source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arc.runs.history.details import read_timeline
from arc.runs.history.lookup import find_known, known_by_refs
from arc.runs.history.timeline import Timeline, TimelineCorrupt, git_timeline
from arc.workflow.outcome import Outcome
from arc.workflow.state import BranchState, FrameState, OpenBlock
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository
from tests.conftest import MakeRepo, Repo
from tests.runs.made import MadeRun, make_world


@pytest.fixture
def made(repo: MakeRepo, tmp_path: Path) -> MadeRun:
    return MadeRun(make_world(tmp_path / "home"), repo())


def lines(timeline: Timeline) -> list[tuple[int, str, int, str]]:
    return [(entry.ordinal, entry.path, entry.visit, entry.status) for entry in timeline.entries]


SAMPLE = [
    (1, "start", 1, "success"),
    (2, "plan", 1, "success"),
    (3, "build", 1, "fail"),
    (4, "build", 2, "success"),
    (5, "exit", 1, "success"),
]


def test_each_checkpoint_is_matched_with_its_commit_by_trailer(made: MadeRun) -> None:
    commits = [made.node("start"), made.node("plan", {"a": "1"}), made.node("build", {"a": "2"})]
    timeline = read_timeline(made.known)
    assert [entry.commit for entry in timeline.entries] == commits
    assert [entry.parent for entry in timeline.entries] == [made.base, commits[0], commits[1]]
    assert (
        timeline.entries[1].metadata == made.repo.git("show", "-s", "--format=%(trailers:key=Arc-Checkpoint,valueonly)", commits[1]).strip()
    )
    assert (timeline.start.ordinal, timeline.start.commit) == (0, made.base)
    assert timeline.entries[2].duration_ms == 1500


def test_visits_and_statuses_are_those_of_the_moment(made: MadeRun) -> None:
    assert lines(read_timeline(made.sample().known)) == SAMPLE


def test_a_clone_that_fetched_the_two_refs_has_the_same_timeline(made: MadeRun, repo: MakeRepo, tmp_path: Path) -> None:
    made.sample().finish()
    other = clone_of(made, tmp_path / "clone")
    world = make_world(tmp_path / "other-home")
    known = find_known(world, made.run_id[:-1].lower(), other.path)
    assert known.folder is None
    assert (known.status, known.record.goal, known.record.base_sha) == ("success", "Make it", made.base)
    assert read_timeline(known).entries == git_entries(made)


def clone_of(made: MadeRun, path: Path) -> Repo:
    path.mkdir()
    other = Repo(path)
    other.git("init", "-q", "-b", "main")
    refs = [f"{made.branch}:{made.branch}", f"refs/arc/{made.run_id}:refs/arc/{made.run_id}"]
    other.git("fetch", "-q", str(made.repo.path), *refs)
    other.git("fetch", "-q", str(made.repo.path), "main:refs/heads/base")
    return other


def git_entries(made: MadeRun) -> object:
    timeline = git_timeline(made.repository, made.known.refs)
    assert timeline is not None
    return timeline.entries


def test_the_last_commit_of_a_finished_run_adds_no_checkpoint_but_its_status(made: MadeRun) -> None:
    made.sample()
    before = read_timeline(made.known)
    made.finish("fail")
    after = read_timeline(made.known)
    assert lines(after) == lines(before)
    assert (after.last.run_status, after.last.commit) == ("fail", before.last.commit)


def test_the_base_and_what_is_before_it_is_not_walked(made: MadeRun) -> None:
    """Commits with run messages of an older, merged run lie below the base and are not matched."""
    made.sample().finish()
    made.repo.git("merge", "-q", "--ff-only", made.branch)
    second = MadeRun(made.world, made.repo)
    commit = second.node("plan", {"c": "1"})
    assert [(entry.ordinal, entry.commit) for entry in read_timeline(second.known).entries] == [(1, commit)]


def test_branches_of_a_parallel_block_are_in_the_timeline_with_their_own_commits(made: MadeRun) -> None:
    made.node("start", next_node="fan")
    refs = {key: f"refs/heads/arc/branch/{made.run_id}/2-fan/{key}" for key in ("left", "right")}
    base = made.frame.git_commit_sha
    transact(made.repository, [RefUpdate(ref, base, None) for ref in refs.values()])

    def block(done: str) -> OpenBlock:
        frames = {
            key: FrameState(prefix=f"fan:{key}/", node_visits={"lint": 1}, node_outcomes={"lint": Outcome("success", duration_ms=7)})
            for key in refs
        }
        frames[done] = replace(frames[done], current_node="lint", completed_nodes=("lint",))
        return OpenBlock("parallel", "fan", 2, tuple(BranchState(key, "lint", "running", frames[key], refs[key], base) for key in refs))

    left = made.node("lint", {"l": "1"}, ordinal=3, ref=refs["left"], block=block("left"), frame="fan:left/")
    right = made.node("lint", {"r": "1"}, ordinal=4, ref=refs["right"], block=block("right"), frame="fan:right/")
    merged = made.node("fan", {"l": "1", "r": "1"}, ordinal=2)
    timeline = read_timeline(made.known)
    assert [(entry.ordinal, entry.path, entry.visit, entry.commit) for entry in timeline.entries[1:]] == [
        (3, "fan:left/lint", 1, left),
        (4, "fan:right/lint", 1, right),
        (2, "fan", 1, merged),
    ]
    assert timeline.entries[1].duration_ms == 7


def test_without_git_the_timeline_is_read_from_the_disk(repo: MakeRepo, tmp_path: Path) -> None:
    made = MadeRun(make_world(tmp_path / "home"), repo(), git=False).sample()
    timeline = read_timeline(made.known)
    assert lines(timeline) == SAMPLE
    assert {entry.commit for entry in timeline.entries} == {None}


def test_an_execution_whose_checkpoint_was_never_saved_is_not_listed(repo: MakeRepo, tmp_path: Path) -> None:
    made = MadeRun(make_world(tmp_path / "home"), repo(), git=False)
    made.node("start")
    kept = made.folder.checkpoint_file.read_bytes()
    made.node("plan")
    made.folder.checkpoint_file.write_bytes(kept)
    events = made.folder.events_file.read_bytes().splitlines(keepends=True)
    made.folder.events_file.write_bytes(b"".join(line for line in events if b'"checkpoint.saved","node":"plan"' not in line) + b'{"torn')
    assert lines(read_timeline(made.known)) == SAMPLE[:1]


def test_a_checkpoint_that_git_missed_is_listed_from_the_disk(made: MadeRun) -> None:
    made.node("start")
    made.git = False
    made.node("plan")
    made.git = True
    made.node("build", {"a": "1"})
    timeline = read_timeline(made.known)
    assert [(entry.path, entry.commit is not None, entry.metadata is not None) for entry in timeline.entries] == [
        ("start", True, True),
        ("plan", False, False),
        ("build", True, True),
    ]


def test_a_damaged_checkpoint_names_the_commit(made: MadeRun) -> None:
    made.node("start")
    update = made.metadata.prepare({"checkpoint.json": b'{"run_id": 7}'}, "damage")
    transact(made.repository, [update])
    with pytest.raises(TimelineCorrupt, match=str(update.new)):
        read_timeline(made.known)


def test_each_checkpoint_is_decoded_once(made: MadeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: one decode for each checkpoint."""
    import msgspec

    for _ in range(60):
        made.node("loop")
    refs = made.known.refs
    decoded: list[bytes] = []
    real = msgspec.json.decode

    def counted(data: bytes, *, type: Any) -> Any:
        decoded.append(data)
        return real(data, type=type)

    monkeypatch.setattr("arc.runs.history.timeline.msgspec.json.decode", counted)
    timeline = git_timeline(made.repository, refs)
    assert timeline is not None
    assert [entry.visit for entry in timeline.entries] == list(range(1, 61))
    assert len(decoded) == len(set(decoded)) == 60


def test_a_run_known_by_a_ref_that_is_none_is_refused(made: MadeRun) -> None:
    from arc.runs.errors import RunIncompleteError

    transact(made.repository, [RefUpdate("refs/arc/01OTHER", made.base, None)])
    repository = Repository.discover(made.repo.path)
    assert repository is not None
    with pytest.raises(RunIncompleteError, match="refs/arc/01OTHER"):
        known_by_refs(repository, "01OTHER")
