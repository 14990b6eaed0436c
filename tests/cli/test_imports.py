"""The import budget: what the quick commands may load. Times are not asserted (bench/cli.py measures them); their cause is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from tests.runs.made import MadeRun, make_world

HEAVY = {
    "asyncio": "the event loop, 25 ms",
    "hypothesis": "tests only",
    "importlib.metadata": "8 ms; the version is in arc/__init__.py",
    "lark": "the workflow grammar, 40 ms",
    "msgspec": "state files, 15 ms",
    "pydantic": "typer's coercion, 80 ms; arc.cli.frame does without",
    "pygit2": "libgit2, 30 ms",
    "prompt_toolkit": "not used",
    "rapidfuzz": "suggestions",
    "rich": "the moving line, 50 ms",
    "ulid": "run ids",
}


def imported(arguments: list[str], environment: Mapping[str, str] | None = None) -> set[str]:
    """All modules that `arc ARGUMENTS` has loaded when it ends."""
    program = (
        "import atexit, os, sys\n"
        "atexit.register(lambda: os.write(int(os.environ['ARC_TEST_FD']), '\\n'.join(n for n, m in sys.modules.items() if m).encode()))\n"
        f"sys.argv = ['arc', *{arguments!r}]\n"
        "from arc.cli.main import main\n"
        "main()\n"
    )
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream:
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **(environment or {}), "ARC_TEST_FD": str(write)},
            pass_fds=(write,),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        os.close(write)
        return set(stream.read().decode().split("\n"))


COMPLETION = {"_ARC_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "arc run resume "}


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        pytest.param(["--version"], {}, id="version"),
        pytest.param(["--help"], {}, id="help"),
        pytest.param(["run", "--help"], {}, id="run help"),
        pytest.param(["run", "start", "--help"], {}, id="run start help"),
        pytest.param(["run", "resume", "--help"], {}, id="run resume help"),
        pytest.param(["run", "nonsense"], {}, id="usage error"),
        pytest.param(["completion", "bash"], {}, id="completion script"),
        pytest.param([], {"_ARC_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "arc ru"}, id="completion of a command"),
        pytest.param([], COMPLETION, id="completion of a run"),
    ],
)
def test_quick_commands_load_nothing_heavy(arguments: list[str], environment: dict[str, str]) -> None:
    loaded = imported(arguments, environment)
    assert "arc.cli.main" in loaded
    assert sorted(loaded & set(HEAVY)) == []


@pytest.fixture
def run_id(repo: MakeRepo) -> str:
    made = MadeRun(make_world(Path(os.environ["ARC_HOME"])), repo()).sample()
    return made.run_id


@pytest.mark.parametrize("words", ["run list", "run list --json", "run logs RUN", "run logs RUN --raw"])
def test_commands_that_read_folders_load_neither_git_nor_the_engine(run_id: str, words: str) -> None:
    loaded = imported(words.replace("RUN", run_id).split())
    assert "arc.runs.history.lookup" in loaded
    assert sorted(loaded & (set(HEAVY) - {"msgspec"})) == []
    assert not [name for name in loaded if name.startswith(("arc.workflow.engine", "arc.workspace"))]


@pytest.mark.parametrize("words", ["run show RUN", "run log RUN"])
def test_commands_that_read_refs_load_libgit2_and_nothing_that_writes(run_id: str, words: str) -> None:
    loaded = imported(words.replace("RUN", run_id).split())
    assert sorted(loaded & (set(HEAVY) - {"msgspec", "pygit2"})) == []
    assert not [name for name in loaded if name.startswith("arc.workflow.engine")]


def test_the_version_does_not_even_load_typer() -> None:
    assert "typer" not in imported(["--version"])
