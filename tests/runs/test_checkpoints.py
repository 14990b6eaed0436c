"""The checkpoint cycle: what each step writes, what a failure of each step means, large values, frames and their commits."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from arc.base.faults import FAULT_POINTS
from arc.base.redact import Redactor
from arc.runs.checkpoints import count_completed, place_commit
from arc.runs.errors import CheckpointWriteError
from arc.runs.redaction import storable
from arc.runs.store import RunFolder, shown_status
from arc.workflow.state import BranchState, FrameState, OpenBlock
from tests.conftest import MakeRepo
from tests.runs.helpers import Told, chain, folder_of, resume, start, world_in
from tests.runs.killing import Project, make_project

SEED_FIELDS = (
    *("timestamp", "current_node", "next_node_id", "completed_nodes", "node_retries", "node_outcomes", "context_values", "logs"),
    *("git_commit_sha", "loop_failure_signatures", "restart_failure_signatures"),
)


def test_both_copies_have_the_fields_of_the_seed(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo({"w.dot": chain(one="echo hello")})
    result = start(project.path / "w.dot", world_in(tmp_path))
    disk = json.loads(folder_of(result).checkpoint_file.read_text())
    stored = json.loads(project.git("show", f"refs/arc/{result.run_id}:checkpoint.json"))
    for document in (disk, stored):
        assert set(SEED_FIELDS) <= set(document)
    assert disk["completed_nodes"] == ["start", "one", "exit"]
    assert disk["current_node"] == "exit"
    assert disk["context_values"]["command.output"] == "hello\n"
    assert disk["git_commit_sha"] == project.git("rev-parse", str(result.run_branch))
    assert stored["git_commit_sha"] is None, "the commit names this copy, so this copy cannot name the commit"
    assert stored["git_tree_sha"] == disk["git_tree_sha"] == project.git("rev-parse", f"{result.run_branch}^{{tree}}")
    assert project.git("log", "--format=%s", f"refs/arc/{result.run_id}").splitlines() == [
        "checkpoint 3: exit (success)",
        "checkpoint 2: one (success)",
        "checkpoint 1: start (success)",
        "init run",
    ]


def test_large_values_are_stored_once_and_referred_to(repo: MakeRepo, tmp_path: Path) -> None:
    script = "yes 0123456789 | head -c 150000"
    project = repo({"w.dot": chain(one=script, two="true")})
    result = start(project.path / "w.dot", world_in(tmp_path))
    folder = folder_of(result)
    checkpoint = json.loads(folder.checkpoint_file.read_text())
    reference = checkpoint["context_values"]["response.one"]
    assert set(reference) == {"$artifact", "bytes"}
    assert reference["bytes"] > 150_000
    assert checkpoint["node_outcomes"]["one"]["context_updates"]["response.one"] == reference
    assert len(folder.checkpoint_file.read_bytes()) < 20_000
    assert len(os.listdir(folder.artifacts)) == 1
    names = project.git("ls-tree", "-r", "--name-only", f"refs/arc/{result.run_id}", "artifacts/").splitlines()
    assert names == [reference["$artifact"]]


def test_an_outcome_names_the_files_that_git_saw_the_node_touch(repo: MakeRepo, tmp_path: Path) -> None:
    many = "for n in $(seq 1001 1300); do echo $n > many-$n; done; rm old.txt; printf x > $(printf 'caf\\\\351')"
    project = repo(
        {"w.dot": chain(one="echo a > sub/a.txt; chmod +x keep.txt", two=many, three="true"), "old.txt": "", "keep.txt": "", "sub/b": ""}
    )
    result = start(project.path / "w.dot", world_in(tmp_path))
    disk = json.loads(folder_of(result).checkpoint_file.read_text())["node_outcomes"]
    assert (disk["one"]["files_touched"], disk["one"]["files_touched_count"]) == (["keep.txt", "sub/a.txt"], 2)
    names = disk["two"]["files_touched"]
    assert disk["two"]["files_touched_count"] == 302
    assert names == ["caf\\xe9", *(f"many-{n}" for n in range(1001, 1200))], "in order, not more than 200, bytes that are not UTF-8 escaped"
    assert (disk["three"]["files_touched"], disk["three"]["files_touched_count"]) == ([], 0)
    commits = project.git("log", "--reverse", "--format=%(trailers:key=Arc-Checkpoint,valueonly,separator=)", f"HEAD..{result.run_branch}")
    own = json.loads(project.git("show", f"{commits.split()[1]}:checkpoint.json"))["node_outcomes"]
    assert own["one"]["files_touched"] == ["keep.txt", "sub/a.txt"], "already in the checkpoint of the node itself"


def test_a_merge_and_the_nodes_of_branches_name_their_files(repo: MakeRepo, tmp_path: Path) -> None:
    text = """digraph w { start [shape=Mdiamond]; exit [shape=Msquare]; fan [shape=component]; join [shape=tripleoctagon]
      l [shape=parallelogram, script="echo l > left"]; r [shape=parallelogram, script="echo r > right"]
      start -> fan; fan -> l -> join; fan -> r -> join; join -> exit }"""
    result = start(repo({"w.dot": text}).path / "w.dot", world_in(tmp_path))
    outcomes = json.loads(folder_of(result).checkpoint_file.read_text())["node_outcomes"]
    assert {node: outcomes[node]["files_touched"] for node in ("l", "r", "join")} == {
        "l": ["left"],
        "r": ["right"],
        "join": ["left", "right"],
    }


def test_a_name_that_is_a_secret_is_redacted_in_the_outcome(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo({"w.dot": chain(one="touch file-$DEPLOY_TOKEN")})
    result = start(project.path / "w.dot", world_in(tmp_path, {"DEPLOY_TOKEN": "s3cr3t-value-of-it"}))
    outcome = json.loads(project.git("show", f"refs/arc/{result.run_id}:checkpoint.json"))["node_outcomes"]["one"]
    assert outcome["files_touched"] == ["file-«redacted:DEPLOY_TOKEN»"]


def test_the_log_holds_the_notices_also_of_before_a_resume(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo({"w.dot": chain(one="git init -q nested && touch nested/f", two="test -f {go}".format(go=tmp_path / "go"))})
    world = world_in(tmp_path)
    result = start(project.path / "w.dot", world)
    assert result.status == "fail"
    first = json.loads(folder_of(result).checkpoint_file.read_text())["logs"]
    assert any("nested" in line for line in first)
    (tmp_path / "go").touch()
    assert resume(world, result.run_id).status == "success"
    stored = json.loads(project.git("show", f"refs/arc/{result.run_id}:checkpoint.json"))["logs"]
    assert stored[: len(first)] == first


def test_the_commit_of_a_node_that_moved_head_says_what_it_did(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo(
        {"w.dot": chain(own="git -c user.name=n -c user.email=e commit -q --allow-empty -m mine", back="git checkout -q --detach main")}
    )
    result = start(project.path / "w.dot", world_in(tmp_path))
    branch = result.run_branch
    body = project.git("log", "-1", "--format=%b", f"{branch}~2").splitlines()
    assert body[:2] == ["The node made commits of its own on the run branch; this commit is on top of the last checkpoint.", ""]
    assert body[2] == f"Arc-Run: {result.run_id}"
    assert project.git("log", "-1", "--format=%b", f"{branch}~1").startswith("The node detached HEAD")
    assert project.git("log", "-1", "--format=%b", str(branch)).startswith("Arc-Run: ")
    for commit in (branch, f"{branch}~1", f"{branch}~2"):
        parsed = project.git("log", "-1", "--format=%(trailers:only,unfold)", str(commit)).splitlines()
        assert [line.split(":")[0] for line in parsed if line] == ["Arc-Run", "Arc-Completed", "Arc-Checkpoint"]


@pytest.mark.parametrize("point", ["checkpoint.staged:2", "checkpoint.metadata:2", "git.refs.before:2"])
def test_git_failing_in_any_step_is_told_and_the_next_checkpoint_has_it_all(repo: MakeRepo, tmp_path: Path, point: str) -> None:
    project = make_project(repo, tmp_path)
    ended = project.drive("start", extra={"ARC_FAULT": point, "ARC_FAULT_ACTION": "raise"})
    assert (ended.stdout, ended.status) == ("success", 0), ended.stderr
    folder = project.folder()
    events = [json.loads(line) for line in folder.events_file.read_text().splitlines()]
    (failed,) = [event for event in events if event["event"] == "checkpoint.failed"]
    assert failed["node"] == "plan"
    (told,) = [e["properties"] for e in events if e["event"] == "run.notice" and e["properties"]["code"] == "checkpoint.git_failed"]
    assert f"after node `plan` (ordinal 2) could not be committed to Git: injected at {point.partition(':')[0]}" in told["message"]
    assert "still safe: the state is in checkpoint.json" in told["details"][-1]
    subjects = project.repo.git("log", "--format=%s", f"main..arc/run/{folder.run_id}")
    assert ": plan (" not in subjects
    assert project.repo.git("show", f"arc/run/{folder.run_id}:plan.txt") == "half plan\nwhole plan"


def fails_on_disk(project: Project, point: str) -> RunFolder:
    ended = project.drive("start", extra={"ARC_FAULT": point, "ARC_FAULT_ACTION": "raise"})
    assert ended.status == 1
    assert "the checkpoint after node `plan` (ordinal 2) could not be written" in ended.stderr
    assert f"injected at {point}" in ended.stderr
    return project.folder()


def test_a_full_disk_in_step_1_stops_the_run_and_nothing_is_reported_as_saved(repo: MakeRepo, tmp_path: Path) -> None:
    """`artifacts.written` is behind a write to the run folder and before checkpoint.json."""
    project = make_project(repo, tmp_path)
    project.repo.write("step.sh", project.repo.read("step.sh") + "\nyes 0123456789 | head -c 150000\n")
    project.repo.commit()
    folder = fails_on_disk(project, "artifacts.written")
    checkpoint = folder.read_checkpoint()
    assert checkpoint is not None
    assert checkpoint.current_node == "start", "the checkpoint before it is whole"
    assert shown_status(folder) == "interrupted"
    assert folder.worktree.exists()
    saved = [json.loads(line)["node"] for line in folder.events_file.read_text().splitlines() if '"checkpoint.saved"' in line]
    assert saved == ["start"]
    assert project.drive("resume", folder.run_id).stdout == "success"


def test_a_run_folder_that_becomes_read_only_stops_the_run(repo: MakeRepo, tmp_path: Path) -> None:
    """Root may write anywhere, so the folder is replaced by a file: step 1 cannot create its temporary file."""
    logs = tmp_path / "logs"
    project = repo({"w.dot": chain(one="mv $LOGS $LOGS.gone; touch $LOGS", two="true")})
    told = Told()
    world = replace(world_in(tmp_path, {"LOGS": str(logs)}), observer=told)
    with pytest.raises(CheckpointWriteError, match="after node `one`") as caught:
        start(project.path / "w.dot", world, logs_dir=logs)
    assert "the checkpoint before it is still there" in caught.value.details[0]
    assert told.ran() == ["start", "one"]
    logs.unlink()
    Path(f"{logs}.gone").rename(logs)
    project.write("w.dot", "unused: the run has its own copy")
    folder = RunFolder(logs, os.listdir(world.runs)[0])
    assert shown_status(folder) == "interrupted"


def test_text_that_is_not_utf8_is_stored_as_well_as_it_can_be() -> None:
    stored = storable({"x": ["lone \udc80 surrogate"], "\udcff": 1}, Redactor())
    assert stored == {"x": ["lone \ufffd\ufffd\ufffd surrogate"], "\ufffd\ufffd\ufffd": 1}


def test_commits_are_placed_in_the_frames_that_share_a_workspace() -> None:
    inner = FrameState(prefix="fan:l/sub/", completed_nodes=("a",))
    left = FrameState(
        prefix="fan:l/", git_commit_sha="l0", open_block=OpenBlock("child", "sub", 5, child=inner), completed_nodes=("b", "c")
    )
    right = FrameState(prefix="fan:r/", git_commit_sha="r0")
    block = OpenBlock("parallel", "fan", 4, (BranchState("l", "l", "running", left), BranchState("r", "r", "running", right)))
    root = FrameState(git_commit_sha="m0", open_block=block, completed_nodes=("start",))
    placed = place_commit(root, "fan:l/sub/", "new")
    assert placed.git_commit_sha == "m0", "a branch has its own workspace"
    assert placed.open_block is not None
    branch, other = placed.open_block.branches
    assert branch.frame.git_commit_sha == "new", "a child shares its parent's"
    assert branch.frame.open_block is not None
    assert branch.frame.open_block.child is not None
    assert branch.frame.open_block.child.git_commit_sha == "new"
    assert other.frame.git_commit_sha == "r0"
    assert place_commit(root, "", None).git_commit_sha is None
    assert count_completed(root) == 4


def test_every_point_of_the_cycle_is_declared() -> None:
    assert {"checkpoint.disk", "checkpoint.metadata", "checkpoint.refs", "checkpoint.resaved"} <= set(FAULT_POINTS)
