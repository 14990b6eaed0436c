"""Starting runs: what is decided before anything is written, what is written, how a run ends; the caller's checkout stays as it was."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from arc.base.errors import ExitStatus
from arc.base.locks import Lease
from arc.runs.config import ModelConfig
from arc.runs.errors import LogsDirError, NoBackendError, SetupError, SourceError
from arc.runs.start import start_run
from arc.runs.store import RunFolder, find_run, shown_status
from arc.runs.world import StartRequest
from arc.workflow.language.errors import WorkflowError
from tests.conftest import MakeRepo
from tests.runs.helpers import Told, chain, folder_of, start, world_in
from tests.runs.killing import Checkout


def test_a_run_in_a_clean_repository(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo({"w.dot": chain(one="echo one > one.txt", two="echo two >> one.txt; exit 0")})
    before, world = Checkout.of(project), world_in(tmp_path)
    result = start(project.path / "w.dot", world)
    assert result.status == "success"
    assert result.kept_worktree is None
    assert Checkout.of(project) == before
    branch, metadata = f"arc/run/{result.run_id}", f"refs/arc/{result.run_id}"
    assert project.git("show", f"{branch}:one.txt") == "one\ntwo"
    subjects = project.git("log", "--format=%s", f"main..{branch}").splitlines()
    assert subjects == [f"arc({result.run_id}): {node} (success)" for node in ("exit", "two", "one", "start")]
    trailers = project.git("log", "-1", "--format=%B", branch)
    parsed = subprocess.run(["git", "interpret-trailers", "--parse"], input=trailers, capture_output=True, text=True, check=True).stdout
    assert parsed.splitlines() == [
        f"Arc-Run: {result.run_id}",
        "Arc-Completed: 4",
        f"Arc-Checkpoint: {project.git('rev-parse', metadata)}",
    ]
    manifest = json.loads(project.git("show", f"{metadata}:manifest.json"))
    assert {manifest[key] for key in ("run_id", "graph_name", "run_branch")} == {result.run_id, "chain", branch}
    assert (manifest["node_count"], manifest["edge_count"], manifest["base_sha"]) == (4, 3, project.head)
    assert project.git("show", f"{metadata}:graph.dot") + "\n" == project.read("w.dot")
    assert project.git("rev-list", "--max-parents=0", "--count", metadata) == "1"
    assert project.git("merge-base", "main", metadata, check=False) == "", "no history is shared with the code"
    folder = folder_of(result)
    assert folder.read_record().status == "success"
    assert sorted(os.listdir(folder.nodes)) == ["0001-start", "0002-one", "0003-two", "0004-exit"]
    for path in folder.path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, f"{path} is readable by others"


def test_what_cannot_run_is_told_before_anything_is_written(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo(
        {
            "bad.dot": "digraph x { start [shape=Mdiamond] }",
            "model.dot": 'digraph x { start [shape=Mdiamond] exit [shape=Msquare] think [prompt="x"] start -> think -> exit }',
        }
    )
    world = world_in(tmp_path)
    with pytest.raises(WorkflowError):
        start(project.path / "bad.dot", world)
    with pytest.raises(SourceError):
        start(project.path / "none.dot", world)
    with pytest.raises(NoBackendError, match=r"node `think`.*needs a model and no backend is configured") as caught:
        start(project.path / "model.dot", world)
    assert caught.value.status is ExitStatus.USAGE
    assert any("--dry-run" in hint for hint in caught.value.hints)
    assert not world.home.exists()
    assert project.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_a_dirty_tree_runs_in_place_with_a_warning(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo({"w.dot": chain(one="echo one > one.txt")})
    project.write("new.txt", "mine")
    told = Told()
    result = start(project.path / "w.dot", replace(world_in(tmp_path), observer=told))
    assert result.run_branch is None
    assert project.read("one.txt") == "one\n"
    assert "uncommitted changes (1 untracked)" in told.notices()["run.dirty"]
    assert "Git checkpoints are disabled" in told.notices()["run.dirty"]
    assert project.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert folder_of(result).read_checkpoint() is not None


def test_a_dirty_tree_can_be_taken_along_as_checkpoint_0(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo({"w.dot": chain(one="cat new.txt old.txt > seen.txt"), "old.txt": "old\n", ".gitignore": "ignored\n"})
    project.write("new.txt", "new\n")
    project.write("old.txt", "changed\n")
    project.write("ignored", "not taken")
    before = Checkout.of(project)
    result = start(project.path / "w.dot", world_in(tmp_path), snapshot_dirty=True)
    assert project.git("show", f"{result.run_branch}:seen.txt") == "new\nchanged"
    assert Checkout.of(project) == before
    record = folder_of(result).read_record()
    assert project.git("rev-parse", f"{record.snapshot_sha}^") == record.base_sha == project.head
    assert "ignored" not in project.git("ls-tree", "--name-only", record.snapshot_sha or "").splitlines()


@pytest.mark.parametrize("commit", [True, False])
def test_without_a_commit_or_a_repository_there_is_one_notice(repo: MakeRepo, tmp_path: Path, commit: bool) -> None:
    if commit:
        source = tmp_path / "plain" / "w.dot"
        source.parent.mkdir()
        source.write_text(chain(one="echo one > one.txt"))
    else:
        source = repo({"w.dot": chain(one="echo one > one.txt")}, commit=False).path / "w.dot"
    told = Told()
    result = start(source, replace(world_in(tmp_path), observer=told))
    assert result.status == "success"
    assert list(told.notices()) == ["run.no_git" if commit else "run.no_commit"]
    assert (source.parent / "one.txt").exists()


def test_a_dry_run_touches_neither_repository_nor_files(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo({"w.dot": chain(one="touch ran.txt"), "arc.toml": '[setup]\ncommands = ["touch setup.txt"]\n'})
    before = Checkout.of(project)
    result = start(project.path / "w.dot", world_in(tmp_path), dry_run=True)
    assert result.status == "success"
    assert Checkout.of(project) == before
    assert project.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert not list(tmp_path.rglob("ran.txt")) + list(tmp_path.rglob("setup.txt"))


def test_a_dry_run_of_a_parallel_block_warns_of_nothing(repo: MakeRepo, tmp_path: Path) -> None:
    block = """digraph w {
      start [shape=Mdiamond]
      exit [shape=Msquare]
      fan [shape=component]
      join [shape=tripleoctagon]
      a [shape=parallelogram, script="true"]
      b [shape=parallelogram, script="true"]
      start -> fan
      fan -> a -> join
      fan -> b -> join
      join -> exit
    }"""
    told = Told()
    start(repo({"w.dot": block}).path / "w.dot", replace(world_in(tmp_path), observer=told), dry_run=True)
    assert "workspace.shared_branches" not in told.notices()
    assert "parallel.completed" in told.names()


def test_a_subdirectory_stays_a_subdirectory(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo({"sub/w.dot": chain(one="pwd > where.txt; ls > seen.txt"), "sub/only-here": "", "top": ""})
    result = start(project.path / "sub" / "w.dot", world_in(tmp_path))
    assert project.git("show", f"{result.run_branch}:sub/seen.txt").splitlines() == ["only-here", "seen.txt", "w.dot", "where.txt"]
    assert project.git("show", f"{result.run_branch}:sub/where.txt").endswith("/worktree/sub")


def test_a_logs_dir_holds_everything(repo: MakeRepo, tmp_path: Path) -> None:
    project, world = repo({"w.dot": chain(one="true")}), world_in(tmp_path)
    result = start(project.path / "w.dot", world, logs_dir=tmp_path / "logs")
    assert result.logs_dir == tmp_path / "logs"
    assert find_run(world, result.run_id).read_record().status == "success"
    with pytest.raises(LogsDirError, match="is not empty"):
        start(project.path / "w.dot", world, logs_dir=tmp_path / "logs")


def test_two_starts_in_the_same_instant(repo: MakeRepo, tmp_path: Path) -> None:
    project, world = repo({"w.dot": chain(one="echo $ARC_RUN_ID > id.txt")}), world_in(tmp_path)
    request = StartRequest(source=project.path / "w.dot", directory=project.path)

    async def both() -> list[str]:
        results = await asyncio.gather(*(start_run(request, world) for _ in range(3)))
        return [result.run_id for result in results]

    ids = asyncio.run(both())
    assert len(set(ids)) == 3
    for run_id in ids:
        assert project.git("show", f"arc/run/{run_id}:id.txt") == run_id
        assert project.git("show", f"refs/arc/{run_id}:checkpoint.json").count(run_id) >= 1


def test_setup_runs_first_and_its_failure_stops_the_run(repo: MakeRepo, tmp_path: Path) -> None:
    good = repo({"w.dot": chain(one="cat prepared.txt"), "arc.toml": '[setup]\ncommands = ["echo ready > prepared.txt"]\n'}, name="good")
    assert start(good.path / "w.dot", world_in(tmp_path)).status == "success"
    bad = repo({"w.dot": chain(one="true"), "arc.toml": '[setup]\ncommands = ["echo no >&2; exit 9"]\n'}, name="bad")
    world = world_in(tmp_path / "bad-home")
    with pytest.raises(SetupError, match="`echo no >&2; exit 9` ended with status 9; no node has run"):
        start(bad.path / "w.dot", world)
    folder = RunFolder(next(world.runs.iterdir()))
    assert folder.read_record().status == "fail"
    assert (folder.nodes / "0000-setup" / "stderr.log").read_text() == "no\n"
    assert not folder.worktree.exists()


def test_secrets_are_redacted_in_everything_that_is_written(repo: MakeRepo, tmp_path: Path) -> None:
    secret, configured = "correct-horse-battery", "swordfish"
    project = repo(
        {
            "w.dot": chain(one="printenv MY_TOKEN DB_PASSWORD; printenv MY_TOKEN >&2", two="test $MY_TOKEN = correct-horse-battery"),
            "arc.toml": f'[environment]\nDB_PASSWORD = "{configured}"\n',
        }
    )
    project.git("rm", "-q", "--cached", "arc.toml")
    project.write(".gitignore", "arc.toml\n")
    project.git("add", ".gitignore")
    project.git("commit", "-qm", "untrack")
    project.write("w.dot", project.read("w.dot").replace("correct-horse-battery", "$(printenv MY_TOKEN)"))
    project.commit()
    result = start(project.path / "w.dot", world_in(tmp_path, {"MY_TOKEN": secret}))
    assert result.status == "success", result.failure
    folder = folder_of(result)
    written = [path.read_bytes() for path in folder.path.rglob("*") if path.is_file()]
    objects = project.git("rev-list", "--objects", "--no-object-names", f"refs/arc/{result.run_id}").splitlines()
    written += [project.git("cat-file", "-p", name).encode("utf-8", "surrogateescape") for name in objects]
    for text in written:
        assert secret.encode() not in text
        assert configured.encode() not in text
    assert "«redacted:MY_TOKEN»" in (folder.nodes / "0002-one" / "stdout.log").read_text()


def test_a_canceled_run_keeps_its_worktree_and_says_canceled(repo: MakeRepo, tmp_path: Path) -> None:
    project, world = repo({"w.dot": chain(one="touch begun; sleep 600")}), world_in(tmp_path)

    async def cancel_in_the_middle() -> None:
        task = asyncio.create_task(start_run(StartRequest(source=project.path / "w.dot", directory=project.path), world))
        async with asyncio.timeout(30):
            while not list(tmp_path.rglob("worktree/begun")):  # noqa: ASYNC110, ASYNC240 - a file is all a shell can show
                await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_in_the_middle())
    folder = RunFolder(next(world.runs.iterdir()))
    assert shown_status(folder) == "canceled"
    assert (folder.worktree / "begun").exists()
    with Lease.acquire(folder.lease_file):
        pass


def test_cancelling_through_the_file(repo: MakeRepo, tmp_path: Path) -> None:
    """What `arc run cancel` leaves for a process on another machine."""
    project = repo({"w.dot": chain(one="echo x > $CANCEL; sleep 600")})
    world = world_in(tmp_path, {"CANCEL": str(tmp_path / "logs" / "cancel")})
    result = start(project.path / "w.dot", world, logs_dir=tmp_path / "logs")
    assert result.status == "canceled"
    assert result.kept_worktree == tmp_path / "logs" / "worktree"


def test_uncommitted_work_at_the_end_keeps_the_worktree(repo: MakeRepo, tmp_path: Path) -> None:
    """Git cannot commit (the object store is read-only for it), the run goes on, and what no commit has stays."""
    project = repo({"w.dot": chain(one="echo work > work.txt; chmod -R a-w $OBJECTS; mv $OBJECTS $OBJECTS.gone", two="true")})
    objects = project.path / ".git" / "objects"
    told = Told()
    world = replace(world_in(tmp_path, {"OBJECTS": str(objects)}), observer=told)
    try:
        result = start(project.path / "w.dot", world)
    finally:
        subprocess.run(["chmod", "-R", "u+w", f"{objects}.gone"], check=True)
        if objects.exists():
            objects.rename(project.path / ".git" / "objects.new")
        Path(f"{objects}.gone").rename(objects)
    assert result.status == "success"
    assert "checkpoint.failed" in told.names()
    assert "could not be committed to Git" in told.notices()["checkpoint.git_failed"]
    assert result.kept_worktree is not None
    assert (result.kept_worktree / "work.txt").read_text() == "work\n"
    checkpoint = folder_of(result).read_checkpoint()
    assert checkpoint is not None
    assert checkpoint.status == "success"
    assert checkpoint.git_error


def test_a_backend_from_the_command_line(repo: MakeRepo, tmp_path: Path) -> None:
    project = repo({"w.dot": 'digraph x { start [shape=Mdiamond] exit [shape=Msquare] think [prompt="say"] start -> think -> exit }'})
    result = start(project.path / "w.dot", world_in(tmp_path), model=ModelConfig(command=("sh", "-c", "cat > prompt.txt; echo reply")))
    assert result.status == "success", result.failure
    assert "say" in project.git("show", f"{result.run_branch}:prompt.txt")
    assert (folder_of(result).nodes / "0002-think" / "response.md").read_text().strip() == "reply"


def test_a_file_changed_in_the_second_it_was_staged_is_taken_as_it_is(repo: MakeRepo, tmp_path: Path) -> None:
    """Same size, same second: git tells such a file from a clean one only by the time of the index, which a copy must keep."""
    project = repo({"w.dot": chain(one="true"), "x.txt": "1\n"})
    while True:
        project.write("x.txt", "2\n")
        project.git("add", "x.txt")
        staged = int((project.path / "x.txt").stat().st_ctime)
        project.write("x.txt", "3\n")
        if int((project.path / "x.txt").stat().st_ctime) == staged:
            break
    result = start(project.path / "w.dot", world_in(tmp_path), snapshot_dirty=True)
    assert project.git("show", f"{result.run_branch}:x.txt") == "3"
