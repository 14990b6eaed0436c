"""The pages tell the truth: workflows and configurations in them are read, commands exist, transcripts look as the real thing does."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Arc, MakeRepo

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^    .*\n(?:^\n(?=     ))?)+", re.MULTILINE)
"""Blank lines belong to a block where the next line is indented deeper than the block."""


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """(language, text) of every block of code; indented ones have no language."""
    text = page.read_text("utf-8")
    yield from FENCE.findall(text)
    for part in INDENTED.findall(FENCE.sub("", text)):
        yield "", textwrap.dedent(part)


def named(kind: str) -> list[Any]:
    """Parameters: every block of `kind`, named by its page and number."""
    found = []
    for page in PAGES:
        for number, (language, text) in enumerate(blocks(page)):
            is_workflow = re.search(r"^digraph ", text, re.MULTILINE) is not None and language in {"", "dot"}
            if language == kind or (kind == "dot" and is_workflow):
                found.append(pytest.param(text, id=f"{page.relative_to(ROOT)}:{number}"))
    return found


@pytest.mark.parametrize("text", named("dot"))
def test_workflows_shown_are_valid(text: str, arc: Arc, tmp_path: Path) -> None:
    (tmp_path / "shown.dot").write_text(text)
    done = arc.inside("validate", "--strict", "-i", "file=src/parser.py", "shown.dot")
    assert done.status == 0, done.stdout + done.stderr


@pytest.mark.parametrize("text", named("toml"))
def test_configurations_shown_are_read(text: str, tmp_path: Path) -> None:
    from arc.agent.scripted_backend import ScriptedBackend
    from arc.runs.config_files import read_layer

    if "[[reply]]" in text:
        ScriptedBackend.load(text, "replies.toml")
        return
    file = tmp_path / "shown.toml"
    file.write_text(text)
    read_layer(file, project="graph =" not in text)


# --- commands ---------------------------------------------------------------------------------------------------------------


@cache
def command_table() -> dict[str, set[str]]:
    """Words of a command -> its options, with the common ones."""
    from arc.cli.main import build

    found: dict[str, set[str]] = {}

    def walk(words: str, command: Any, common: set[str]) -> None:
        command = command.load() if hasattr(command, "load") else command
        own = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        found[words] = own | common | {"--help", "-h", "--version", "-V"}
        for name, inner in getattr(command, "commands", {}).items():
            walk(f"{words} {name}", inner, common or own)

    walk("arc", build(), set())
    return found


def shown_commands(page: Path) -> Iterator[str]:
    """Commands in blocks of shell and in inline code that begin with `arc`."""
    for language, text in blocks(page):
        if language in {"", "console", "text"}:
            for line in re.findall(r"^(?:\$ |  )?((?:\.venv/bin/)?arc(?: .*)?)$", text, re.MULTILINE):
                yield line.removeprefix(".venv/bin/")
    yield from re.findall(r"`(arc [^`\n]+)`", FENCE.sub("", page.read_text("utf-8")))


def wrong_words(line: str) -> list[str]:
    """What a shown command says that arc does not know: its name, or options."""
    line = line.split(" #")[0].split(" | ")[0].split("→")[0].replace("…", "").replace("[", " ").replace("]", " ").replace("\\|", "|")
    words = shlex.split(line, posix=False)
    name = "arc"
    for word in words[1:]:
        if f"{name} {word}" not in command_table():
            break
        name = f"{name} {word}"
    rest = words[len(name.split()) :]
    if name in {"arc", "arc run"} and rest and re.fullmatch("[a-z]+", rest[0]):
        return [f"{name} {rest[0]}"]
    given = [part.split("=")[0] for word in rest for part in word.split("|") if re.match(r"--?[a-zA-Z]", part)]
    return [f"{name} {option}" for option in given if option not in command_table()[name]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_shown_exist_with_their_options(page: Path) -> None:
    assert [(line, wrong) for line in shown_commands(page) if (wrong := wrong_words(line))] == []


def test_the_readme_names_every_command() -> None:
    from arc.cli.commands import COMMANDS, RUN_COMMANDS

    table = "\n".join(line for line in (ROOT / "README.md").read_text("utf-8").splitlines() if line.startswith("| `"))
    assert [name for name in [*COMMANDS, *RUN_COMMANDS] if f"`{name}`" not in table and f" {name} " not in table.replace("`", " ")] == []


def anchor(title: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_pages_and_headings_that_are_there(page: Path) -> None:
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text("utf-8"))):
        if "://" in target:
            continue
        file, _, heading = target.partition("#")
        other = (page.parent / file) if file else page
        titles = re.findall(r"^#+ (.+)$", other.read_text("utf-8"), re.MULTILINE) if other.is_file() else []
        if not other.exists() or (heading and heading not in map(anchor, titles)):
            wrong.append(target)
    assert wrong == []


def test_files_and_tests_that_pages_name_are_there() -> None:
    tests = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    wrong = []
    for page in PAGES:
        text = page.read_text("utf-8")
        wrong += [
            f"{page.name}: {name}"
            for name in re.findall(r"`((?:src|tests|bench|docs|script|demo|examples)/[\w./-]+)`", text)
            if not (ROOT / name).exists() and page.name not in {"runs.md", "agents.md"}
        ]
        wrong += [f"{page.name}: {name}" for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in tests]
    assert wrong == []


def test_modules_of_the_architecture_page_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    for name in sorted(set(re.findall(r"`(arc(?:\.[a-z_]+)+)`", text))):
        import_module(name)


# --- what pages say happens -------------------------------------------------------------------------------------------------


def test_the_handler_shown_works(arc: Arc, repo: MakeRepo) -> None:
    page = ROOT / "docs" / "handlers.md"
    code = next(text for language, text in blocks(page) if language == "python")
    named_in = next(text for language, text in blocks(page) if language == "toml")
    routing = next(text for language, text in blocks(page) if language == "sh")
    workflow = """digraph shown {
      start [shape=Mdiamond]
      exit [shape=Msquare]
      decide [shape=parallelogram, script="sh decide.sh"]
      ship [type=deploy, target=staging]
      start -> decide
      decide -> exit [label="Stop"]
      decide -> ship [label="Deploy"]
      ship -> exit
    }"""
    project = repo({"tools/deploy.py": code, "arc.toml": named_in, "decide.sh": routing, "shown.dot": workflow})
    result = arc("--json", "run", "start", "shown.dot", cwd=project.path).ok().json()
    assert project.git("show", f"{result['run_branch']}:staging.txt") == "deployed"


def test_the_conflict_shown_is_routed_and_solved(arc: Arc, repo: MakeRepo) -> None:
    workflow = next(text for _, text in blocks(ROOT / "docs" / "execution.md") if text.startswith("digraph attempts"))
    project = repo({"attempts.dot": workflow})
    result = arc("--json", "run", "start", "attempts.dot", cwd=project.path).ok().json()
    assert project.git("show", f"{result['run_branch']}:notes.txt") == "both"
    assert "solve (success)" in project.git("log", "--format=%s", result["run_branch"])


def test_the_retry_policies_shown_are_those_of_the_engine() -> None:
    from arc.workflow.engine.retry import PRESETS

    rows = re.findall(r"^\| `(\w+)` \| (\d) \| ([\d., ]*)\|$", (ROOT / "docs" / "execution.md").read_text("utf-8"), re.MULTILINE)
    waits = {
        name: [preset.first_delay * preset.factor**number for number in range(preset.attempts - 1)] for name, preset in PRESETS.items()
    }
    shown = {name: (int(attempts), [float(part) for part in text.split(",") if part.strip()]) for name, attempts, text in rows}
    assert shown == {name: (preset.attempts, waits[name]) for name, preset in PRESETS.items()}


def test_listings_shown_have_the_columns_of_the_real_ones(arc: Arc, repo: MakeRepo) -> None:
    workflow = """digraph review {
      graph [goal="Add a changelog"]
      start [shape=Mdiamond]
      exit [shape=Msquare]
      plan [shape=parallelogram, script="echo planned; echo x > CHANGELOG.md"]
      start -> plan -> exit
    }"""
    project = repo({"review.dot": workflow})
    run = arc("--json", "run", "start", "review.dot", cwd=project.path).ok().json()["run_id"]
    page = (ROOT / "docs" / "coming-back.md").read_text("utf-8")
    transcripts = [text for language, text in FENCE.findall(page) if language == "console"]

    def columns(line: str) -> list[str]:
        return re.split(r"\s{2,}", line.strip())

    listing = next(text for text in transcripts if text.startswith("$ arc run list"))
    assert columns(arc.inside("run", "list").ok().stdout.split("\n")[0]) == columns(listing.split("\n")[1])

    whole = arc.inside("run", "show", run).ok().stdout
    shown = next(text for text in transcripts if re.match(r"\$ arc run show \w+\n", text))
    heads = [line for line in shown.split("\n") if line.startswith("at ")]
    assert [columns(line) for line in whole.split("\n") if line.startswith("at ")] == [columns(line) for line in heads]
    unfinished = {"at", "next node", "worktree", "unmerged"}  # shown of a run that is not over
    labels = set(re.findall(r"^([a-z]+(?: [a-z]+)?)  ", shown, re.MULTILINE)) - unfinished
    assert {label for label in labels if not re.search(rf"^{label}  ", whole, re.MULTILINE)} == set()

    one = arc.inside("run", "show", run, "plan").ok().stdout
    shown = next(text for text in transcripts if re.match(r"\$ arc run show \w+ plan\n", text))
    labels = set(re.findall(r"^([a-z]+(?: [a-z]+)?)  ", shown, re.MULTILINE))
    assert {label for label in labels if not re.search(rf"^{label} ", one, re.MULTILINE)} == set()
    assert "  A CHANGELOG.md" in one
