"""Hooks around nodes: what they are given, and what their exit status decides."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.conftest import MakeRepo, Repo
from tests.runs.helpers import Told, chain, folder_of, start, world_in


def project_with(repo: MakeRepo, *hooks: str) -> Repo:
    text = "\n".join(f"[[hooks]]\n{hook}" for hook in hooks)
    return repo({"w.dot": chain(one="echo one > one.txt", two="echo two > two.txt"), "arc.toml": text})


def test_hooks_see_the_node_and_its_outcome(repo: MakeRepo, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    project = project_with(
        repo,
        f"""event = "before_node"\ncommand = 'cat > {out}/before-$ARC_NODE.json; echo $ARC_HOOK $ARC_ORDINAL > {out}/env-$ARC_NODE'""",
        f"""event = "after_node"\nnodes = ["two"]\ncommand = 'cat > {out}/after-$ARC_NODE.json'""",
    )
    assert start(project.path / "w.dot", world_in(tmp_path)).status == "success"
    assert (out / "env-one").read_text() == "before_node 2\n"
    before = json.loads((out / "before-two.json").read_text())
    assert (before["node"], before["ordinal"], before["type"]) == ("two", 3, "command")
    assert before["context"]["outcome"] == "success"
    after = json.loads((out / "after-two.json").read_text())
    assert after["outcome"]["status"] == "success"
    assert not (out / "after-one.json").exists()


def test_status_2_blocks_with_the_hooks_words(repo: MakeRepo, tmp_path: Path) -> None:
    project = project_with(repo, """event = "before_node"\nnodes = ["two"]\ncommand = 'echo "not on Fridays" >&2; exit 2'""")
    result = start(project.path / "w.dot", world_in(tmp_path))
    checkpoint = folder_of(result).read_checkpoint()
    assert checkpoint is not None
    failure = checkpoint.node_outcomes["two"].failure
    assert failure is not None
    assert failure.message.endswith("not on Fridays")
    assert "two.txt" not in project.git("ls-tree", "--name-only", str(result.run_branch)).splitlines()


def test_status_3_skips_and_the_skipped_node_has_a_checkpoint(repo: MakeRepo, tmp_path: Path) -> None:
    project = project_with(repo, """event = "before_node"\nnodes = ["one"]\ncommand = 'exit 3'""")
    result = start(project.path / "w.dot", world_in(tmp_path))
    assert result.status == "success"
    subjects = project.git("log", "--format=%s", f"main..{result.run_branch}").splitlines()
    assert f"arc({result.run_id}): one (skipped)" in subjects
    files = project.git("ls-tree", "--name-only", str(result.run_branch)).splitlines()
    assert "one.txt" not in files
    assert "two.txt" in files


def test_any_other_end_is_a_warning_and_the_node_runs(repo: MakeRepo, tmp_path: Path) -> None:
    project = project_with(
        repo,
        'event = "before_node"\nnodes = ["one"]\ncommand = "exit 7"',
        'event = "after_node"\nnodes = ["two"]\ncommand = "sleep 600"\ntimeout = "50ms"',
    )
    told = Told()
    result = start(project.path / "w.dot", replace(world_in(tmp_path), observer=told))
    assert result.status == "success"
    warned = [line["properties"] for line in told.lines if line["event"] == "run.notice"]
    messages = [str(properties["message"]) for properties in warned if isinstance(properties, dict)]
    assert messages == [
        "the before_node hook `exit 7` ended with status 7; the run goes on",
        "the after_node hook `sleep 600` did not end in time and was killed; the run goes on",
    ]
