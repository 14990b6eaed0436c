"""Forks: own refs and folder, the exact state of then, and independence of the source."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from arc.runs.fork import ForkRequest, ForkWithoutFilesError, fork_run
from arc.runs.gc import GcRequest, collect
from arc.runs.history.details import read_timeline
from arc.runs.history.lookup import find_known
from arc.runs.history.states import StateNotKeptError, state_at
from arc.runs.history.targets import TargetNotFound, find_text
from arc.runs.records import Manifest
from arc.runs.store import find_run
from arc.workflow.state import BranchState, FrameState, OpenBlock
from arc.workspace.git.errors import RefsMovedError
from arc.workspace.git.metadata import MetadataBranch
from arc.workspace.git.refs import RefUpdate, transact
from tests.conftest import MakeRepo
from tests.runs.made import MadeRun, make_world


@pytest.fixture
def made(repo: MakeRepo, tmp_path: Path) -> MadeRun:
    return MadeRun(make_world(tmp_path / "home"), repo()).sample()


def tree(made: MadeRun, revision: str) -> list[str]:
    return made.repo.git("ls-tree", "-r", "--name-only", revision).splitlines()


def test_a_fork_has_the_files_of_then_on_a_branch_of_its_own(made: MadeRun) -> None:
    forked = fork_run(made.known, ForkRequest("plan"), made.world)
    assert forked.forked_from == f"{made.run_id}@2"
    assert forked.run_branch == f"arc/run/{forked.run_id}"
    assert tree(made, forked.run_branch) == ["README.md", "a.txt"]
    assert made.repo.git("show", f"{forked.run_branch}:a.txt") == "one"
    assert forked.next_node == "build"


def test_a_fork_has_the_whole_state_of_then(made: MadeRun) -> None:
    source = state_at(made.known, timeline := read_timeline(made.known), find_text(timeline, "build@1"))
    forked = fork_run(made.known, ForkRequest("build@1"), made.world)
    checkpoint = find_run(made.world, forked.run_id).read_checkpoint()
    assert checkpoint == replace(source, run_id=forked.run_id)
    assert checkpoint is not None
    assert checkpoint.to_state() == source.to_state()
    assert (checkpoint.ordinal, checkpoint.next_ordinal, checkpoint.git_commit_sha) == (3, 4, forked.commit)
    assert checkpoint.node_visits == {"start": 1, "plan": 1, "build": 1}


def test_the_metadata_branch_of_a_fork_is_an_orphan_that_says_where_it_comes_from(made: MadeRun) -> None:
    forked = fork_run(made.known, ForkRequest("@2", inputs={"style": "terse", "more": "1"}), made.world)
    branch = MetadataBranch(made.repository, forked.run_id)
    manifest = json.loads(branch.read("manifest.json") or b"")
    assert (manifest["run_id"], manifest["forked_from"], manifest["base_sha"]) == (forked.run_id, f"{made.run_id}@2", made.base)
    assert manifest["config"]["inputs"] == {"style": "terse", "more": "1"}
    assert [commit.subject for commit in branch.log()] == [
        f"fork of {made.run_id}@2: plan",
        f"init run {forked.run_id}, forked from {made.run_id}@2",
    ]
    assert branch.names("", branch.log()[1].commit) == ("graph.dot", "manifest.json")
    assert Manifest(**{**manifest, "config": manifest["config"]}).run_branch == f"arc/run/{forked.run_id}"


def test_a_fork_is_created_not_interrupted_until_it_is_started(made: MadeRun) -> None:
    forked = fork_run(made.known, ForkRequest("@2"), made.world)
    known = find_known(made.world, forked.run_id, made.repo.path)
    assert (known.status, known.record.forked_from) == ("created", f"{made.run_id}@2")
    assert known.record.config.inputs == {"style": "plain"}


def test_a_fork_inherits_the_timeline_up_to_its_checkpoint(made: MadeRun) -> None:
    source = read_timeline(made.known)
    forked = fork_run(made.known, ForkRequest("@3"), made.world)
    timeline = read_timeline(find_known(made.world, forked.run_id, made.repo.path))
    assert [(entry.ordinal, entry.path, entry.commit) for entry in timeline.entries] == [
        (entry.ordinal, entry.path, entry.commit) for entry in source.entries[:3]
    ]
    assert [entry.run_id for entry in timeline.entries] == [made.run_id, made.run_id, forked.run_id]


def test_at_zero_it_starts_from_the_base_with_nothing_done(made: MadeRun) -> None:
    forked = fork_run(made.known, ForkRequest("@0"), made.world)
    assert forked.commit == made.base
    known = find_known(made.world, forked.run_id, made.repo.path)
    assert known.folder is not None
    assert known.folder.read_checkpoint() is None
    assert read_timeline(known).entries == ()


def test_forks_survive_their_source_and_a_pruning_gc(made: MadeRun) -> None:
    """arbos #621: nothing of the fork is held by the source's refs only; also an earlier checkpoint can still be forked."""
    forked = fork_run(made.known, ForkRequest("@4"), made.world)
    made.finish()
    done = collect(made.world, GcRequest(runs=(made.known,), discard_unmerged=True))
    assert done.deleted == (made.run_id,)
    made.repo.git("reflog", "expire", "--expire=all", "--all")
    made.repo.git("gc", "-q", "--prune=now")
    known = find_known(made.world, forked.run_id, made.repo.path)
    assert known.repository is not None
    known.repository.__dict__.pop("pygit2", None)
    timeline = read_timeline(known)
    assert [entry.ordinal for entry in timeline.entries] == [1, 2, 3, 4]
    again = fork_run(known, ForkRequest("@2"), made.world)
    assert tree(made, again.run_branch or "") == ["README.md", "a.txt"]
    assert made.repo.git("fsck", "--no-dangling") == ""


def test_the_source_is_untouched(made: MadeRun) -> None:
    refs = made.repo.git("for-each-ref", f"refs/arc/{made.run_id}", made.branch)
    files = {path: path.read_bytes() for path in made.folder.path.rglob("*") if path.is_file()}
    fork_run(made.known, ForkRequest("@3"), made.world)
    assert made.repo.git("for-each-ref", f"refs/arc/{made.run_id}", made.branch) == refs
    assert {path: path.read_bytes() for path in made.folder.path.rglob("*") if path.is_file()} == files


def test_artifacts_come_along_on_the_disk_and_in_git(repo: MakeRepo, tmp_path: Path) -> None:
    made = MadeRun(make_world(tmp_path / "home"), repo())
    data = json.dumps("x" * 5000).encode()
    name = f"artifacts/{hashlib.sha256(data).hexdigest()}.json"
    made.context = {"big": {"$artifact": name, "bytes": len(data)}}
    made.node("plan", artifacts={name: data})
    forked = fork_run(made.known, ForkRequest("plan"), made.world)
    assert (find_run(made.world, forked.run_id).path / name).read_bytes() == data
    assert MetadataBranch(made.repository, forked.run_id).read(name) == data


def test_inside_an_open_parallel_block_its_branches_are_made_again_where_they_stood(repo: MakeRepo, tmp_path: Path) -> None:
    made = MadeRun(make_world(tmp_path / "home"), repo())
    made.node("start", next_node="fan")
    base = made.frame.git_commit_sha
    left = f"refs/heads/arc/branch/{made.run_id}/2-fan/left"
    transact(made.repository, [RefUpdate(left, base, None)])
    frame = FrameState(prefix="fan:left/", current_node="lint", next_node_id="test", completed_nodes=("lint",), node_visits={"lint": 1})
    block = OpenBlock("parallel", "fan", 2, (BranchState("left", "lint", "running", frame, left, base),))
    made.context = {"parallel.branch": f"arc/branch/{made.run_id}/2-fan/left"}
    commit = made.node("lint", {"l": "1"}, ordinal=3, ref=left, block=block, frame="fan:left/")
    later = made.node("lint", {"l": "2"}, ordinal=4, ref=left, block=block, frame="fan:left/")
    assert made.repository.ref(left) == later

    forked = fork_run(made.known, ForkRequest("@3"), made.world)

    mine = f"refs/heads/arc/branch/{forked.run_id}/2-fan/left"
    assert forked.branches == (mine,)
    assert made.repo.git("rev-parse", mine) == commit
    assert forked.commit == base
    state = find_run(made.world, forked.run_id).read_checkpoint()
    assert state is not None
    assert state.open_block is not None
    (branch,) = state.open_block.branches
    assert (branch.ref, branch.frame.git_commit_sha, branch.frame.next_node_id) == (mine, commit, "test")


def test_branches_that_were_never_merged_come_along_and_are_named_anew(made: MadeRun) -> None:
    kept = f"refs/heads/arc/branch/{made.run_id}/2-plan/left"
    transact(made.repository, [RefUpdate(kept, made.base, None)])
    made.context = {"parallel.results": [{"ref": kept}], "note": f"see arc/branch/{made.run_id}/2-plan/left"}
    made.node("after", ordinal=6)
    forked = fork_run(made.known, ForkRequest("after"), made.world)
    mine = kept.replace(made.run_id, forked.run_id)
    assert forked.branches == (mine,)
    state = find_run(made.world, forked.run_id).read_checkpoint()
    assert state is not None
    assert state.context_values["parallel.results"] == [{"ref": mine}]
    assert state.context_values["note"] == f"see arc/branch/{made.run_id}/2-plan/left"


def test_a_run_without_git_is_refused_unless_the_state_alone_is_wanted(repo: MakeRepo, tmp_path: Path) -> None:
    made = MadeRun(make_world(tmp_path / "home"), repo(), git=False).sample()
    with pytest.raises(ForkWithoutFilesError, match="cannot be brought back") as caught:
        fork_run(made.known, ForkRequest("@5"), made.world)
    assert caught.value.hints == (f"arc run fork {made.run_id} @5 --state-only",)
    forked = fork_run(made.known, ForkRequest("@5", state_only=True), made.world)
    assert (forked.commit, forked.run_branch) == (None, None)
    state = find_run(made.world, forked.run_id).read_checkpoint()
    assert state is not None
    assert state.completed_nodes == ("start", "plan", "build", "build", "exit")
    with pytest.raises(StateNotKeptError, match="keeps the last one, @5"):
        fork_run(made.known, ForkRequest("@2", state_only=True), made.world)


def test_nothing_is_left_of_a_fork_whose_refs_could_not_be_made(made: MadeRun) -> None:
    taken = made.world.ids.run_id()
    made.world.ids.count -= 1  # type: ignore[attr-defined]
    transact(made.repository, [RefUpdate(f"refs/heads/arc/run/{taken}", made.base, None)])
    with pytest.raises(RefsMovedError):
        fork_run(made.known, ForkRequest("@2"), made.world)
    assert [path.name for path in made.world.runs.iterdir()] == [made.run_id]
    assert made.repository.ref(f"refs/arc/{taken}") is None


def test_an_unknown_target_makes_nothing(made: MadeRun) -> None:
    with pytest.raises(TargetNotFound):
        fork_run(made.known, ForkRequest("@77"), made.world)
    assert [path.name for path in made.world.runs.iterdir()] == [made.run_id]


def test_a_secret_given_as_input_is_written_nowhere(made: MadeRun) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    forked = fork_run(made.known, ForkRequest("@2", inputs={"token": secret}), made.world)
    written = [path.read_bytes() for path in forked.logs_dir.rglob("*") if path.is_file()]
    written.append(MetadataBranch(made.repository, forked.run_id).read("manifest.json") or b"")
    assert not [data for data in written if secret.encode() in data]
