"""Completion: runs and targets from local files; never an error on the terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
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


@pytest.fixture
def bash(runs: Path, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """A real interactive bash with the installed completion: keys in, the command line that stands there after Tab out."""
    for number, node in ((1, "start"), (2, "plan"), (3, "fan:left/fix"), (4, "fan:right/fix")):
        folder = runs / FIRST / "nodes" / f"{number:04d}-{node.replace(':', '-').replace('/', '.')}"
        folder.mkdir(exist_ok=True)
        (folder / "status.json").write_text(json.dumps({"node": node}))
    environment = {**programs_in(tmp_path), "SHELL": "/bin/bash", "INPUTRC": "/dev/null"}
    subprocess.run(["bash", "-c", "arc --install-completion"], env=environment, check=True, capture_output=True)
    settings = (
        "PS1=ready:",
        "bind 'set bell-style none'",
        "bind 'set enable-bracketed-paste off'",
        'bind -x \'"\\C-t": echo "<$READLINE_LINE>"\'',
    )
    with Path(os.environ["HOME"], ".bashrc").open("a") as rc:
        rc.write("\n".join(settings) + "\n")
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe("bash", ["bash", "-i"], environment)

    def until(pattern: str) -> str:
        seen = ""
        while (found := re.search(pattern, seen)) is None:
            assert select.select([terminal], [], [], 60)[0], seen
            seen += os.read(terminal, 4096).decode(errors="replace")
        return found[1]

    def press(keys: str) -> str:
        os.write(terminal, f"{keys}\t\x14\x15".encode())  # Tab, show the line, clear it
        return until(r"<(.*)>\r?\n")

    until("(ready:)")
    yield press
    os.write(terminal, b"exit\n")
    os.close(terminal)
    os.waitpid(child, 0)


@pytest.mark.slow
def test_the_installed_completion_works_in_a_real_bash(bash: Callable[[str], str]) -> None:
    assert bash("arc run resu") == "arc run resume "
    assert bash("arc run show 01JA") == f"arc run show {FIRST} "
    assert bash("arc run show 01JA pl") == "arc run show 01JA plan "
    assert bash("arc run logs 01JA @2") == "arc run logs 01JA @2 "
    assert bash("arc run show 01JA fan:l") == "arc run show 01JA fan:left/fix "
    assert bash("arc run show 01JA fan:right/f") == "arc run show 01JA fan:right/fix "
    assert bash("arc run list --status part") == "arc run list --status partial_success "
    assert bash("arc run list --status=inter") == "arc run list --status=interrupted "


def programs_in(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH begins with a folder that holds `arc`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "arc").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m arc "$@"\n')
    (programs / "arc").chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "TERM": "dumb"}


def test_the_script_for_zsh_completes_at_the_first_tab_and_behind_an_equals_sign(arc: Arc) -> None:
    script = arc("completion", "zsh").ok().stdout
    assert script.startswith("#compdef arc\n")
    assert "[[ ${words[CURRENT]} == --*=* ]] && compset -P '*='" in script
    assert 'if [[ ${funcstack[1]} == _arc ]]; then\n    _arc_completion "$@"\nelse\n    compdef _arc_completion arc\nfi' in script


# Neither shell is among what script/setup installs: where one is, its test exists.
if shutil.which("zsh"):

    @pytest.mark.slow
    @pytest.mark.usefixtures("runs")
    def test_the_script_works_in_a_real_zsh(arc: Arc, tmp_path: Path) -> None:
        environment, home = programs_in(tmp_path), Path(os.environ["HOME"])
        (home / ".zfunc").mkdir()
        (home / ".zfunc" / "_arc").write_text(arc("completion", "zsh").ok().stdout)
        settings = (
            "fpath=(~/.zfunc $fpath); autoload -Uz compinit; compinit -u -D; PS1=ready:",
            'showline() { print -r -- "<$BUFFER>"; BUFFER=; }; zle -N showline; bindkey "^T" showline',
        )
        (home / ".zshrc").write_text("\n".join(settings) + "\n")
        child, terminal = pty.fork()
        if child == 0:
            os.execvpe("zsh", ["zsh", "-i"], environment)

        def until(pattern: str) -> str:
            seen = ""
            while (found := re.search(pattern, seen)) is None:
                assert select.select([terminal], [], [], 60)[0], seen
                seen += os.read(terminal, 4096).decode(errors="replace")
            return found[1]

        def press(keys: str) -> str:
            os.write(terminal, f"{keys}\t\x14".encode())
            return until(r"<(.*)>\r?\n")

        until("(ready:)")
        assert press("arc run resu") == "arc run resume "
        assert press("arc run show 01JA") == f"arc run show {FIRST} "
        assert press("arc run list --status part") == "arc run list --status partial_success "
        assert press("arc run list --status=inter") == "arc run list --status=interrupted "
        os.write(terminal, b"exit\n")
        os.close(terminal)
        os.waitpid(child, 0)


if shutil.which("fish"):

    @pytest.mark.slow
    @pytest.mark.usefixtures("runs")
    def test_the_script_works_in_a_real_fish(arc: Arc, tmp_path: Path) -> None:
        environment = programs_in(tmp_path)
        folder = Path(os.environ["XDG_CONFIG_HOME"]) / "fish" / "completions"
        folder.mkdir(parents=True)
        (folder / "arc.fish").write_text(arc("completion", "fish").ok().stdout)

        def offered(line: str) -> list[str]:
            done = subprocess.run(["fish", "-c", f"complete -C '{line}'"], env=environment, capture_output=True, text=True, check=True)
            return [row.partition("\t")[0] for row in done.stdout.splitlines()]

        assert offered("arc run resu") == ["resume"]
        assert offered("arc run show 01JA") == [FIRST]
        assert offered("arc run list --status part") == ["partial_success"]


@pytest.mark.usefixtures("runs")
def test_targets_are_ordinals_and_the_paths_of_nodes_not_names_of_folders(arc: Arc, runs: Path) -> None:
    (runs / FIRST / "nodes" / "0003-fan-a.fix").mkdir()
    (runs / FIRST / "nodes" / "0003-fan-a.fix" / "status.json").write_text('{"node": "fan:a/fix"}')
    ran = complete(arc, f"arc run show {FIRST} ", "bash").ok()
    assert ran.stdout.split() == ["@1", "@2", "@3", "fan:a/fix"]


def test_ages_have_one_unit() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert [age((now - timedelta(seconds=s)).isoformat(), now) for s in (5, 61, 7300, 90_000)] == ["5s", "1m", "2h", "1d"]
    assert age("never", now) == ""
