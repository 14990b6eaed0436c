"""Completion: runs and targets from local files; never an error on the terminal."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from arc.cli.completion import age
from tests.conftest import Arc, Ran

FIRST, SECOND = "01JAAAAAAAAAAAAAAAAAAAAAAA", "01JBBBBBBBBBBBBBBBBBBBBBBB"


@pytest.fixture
def runs() -> Path:
    """Two run folders, the second somewhere else (`--logs-dir`)."""
    folder = Path(os.environ["ARC_HOME"]) / "runs"
    (folder / FIRST / "nodes" / "0001-start").mkdir(parents=True)
    (folder / FIRST / "nodes" / "0002-plan").mkdir()
    hour_ago = (datetime.now(UTC) - timedelta(hours=1, minutes=5)).isoformat().replace("+00:00", "Z")
    (folder / FIRST / "run.json").write_text(json.dumps({"created_at": hour_ago, "workflow": "review", "status": "success"}))
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "run.json").write_text("{torn")
    (folder / SECOND).mkdir()
    (folder / SECOND / "location.json").write_text(json.dumps({"logs_dir": str(elsewhere)}))
    return folder


def complete(arc: Arc, words: str, shell: str = "zsh") -> Ran:
    if shell == "bash":
        return arc(env={"_ARC_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))})
    return arc(env={"_ARC_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": words})


@pytest.mark.usefixtures("runs")
def test_runs_are_offered_newest_first_with_age_workflow_and_status(arc: Arc) -> None:
    ran = complete(arc, "arc run resume 01J").ok()
    assert ran.stdout.index(SECOND) < ran.stdout.index(FIRST)
    assert "1h review success" in ran.stdout


@pytest.mark.usefixtures("runs")
def test_bash_gets_bare_ids(arc: Arc) -> None:
    assert complete(arc, "arc run resume 01JA", "bash").ok().stdout.split() == [FIRST]


def test_commands_are_offered_with_their_help(arc: Arc) -> None:
    ran = complete(arc, "arc run re").ok()
    assert "Continue an interrupted, failed or canceled run" in ran.stdout


@pytest.mark.parametrize("words", ["arc run resume ", "arc nonsense ", "arc run show 'unclosed", "arc --color "])
def test_nothing_to_offer_is_silent(arc: Arc, words: str) -> None:
    ran = complete(arc, words)
    assert ran.status == 0
    assert ran.stderr == ""


def test_a_broken_instruction_is_silent(arc: Arc) -> None:
    ran = arc(env={"_ARC_COMPLETE": "rubbish"})
    assert (ran.status, ran.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_name_the_variable_that_arc_listens_to(arc: Arc, shell: str) -> None:
    ran = arc("completion", shell).ok()
    assert f"_ARC_COMPLETE=complete_{shell}" in ran.stdout
    assert ran.stderr == ""


def test_ages_have_one_unit() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert [age((now - timedelta(seconds=s)).isoformat(), now) for s in (5, 61, 7300, 90_000)] == ["5s", "1m", "2h", "1d"]
    assert age("never", now) == ""
