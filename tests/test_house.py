"""The rules of the house, as tests that read the sources: rooms, single doors to the outside, sizes, errors, reference pages."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import arc

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "arc"
FILES = sorted(SOURCES.rglob("*.py"))

ROOMS = ("base", "sandbox", "workspace", "agent", "workflow", "runs", "cli")
"""From the ground up: a room imports itself and rooms before it."""

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80

ONLY_IN = {
    "typer": ("cli",),
    "rich": ("cli",),
    "lark": ("workflow",),
    "pygit2": ("workspace",),
}
"""Library -> rooms that may import it."""

LIBRARY_EXCEPTIONS = {
    ("pygit2", "runs"): "fork and timeline read and write objects of the metadata branch without a workspace",
}

BROAD_EXCEPT = {
    "cli/main.py": "the last frame: a bug becomes a report, a completion stays silent",
    "workflow/engine": "the node runner: whatever a handler raises is a failure of its node",
    "workflow/handlers": "the handler runner: a user's code may raise anything",
}
"""Places (files or folders) where `except Exception` may stand, and why."""

ENVIRONMENT = {
    "base/faults.py": "named failure points are armed by the environment, so that a killed process can be a real one",
}

PROCESSES = {
    "base/git.py": "the git program",
    "base/processes.py": "commands of nodes, in a process group of their own",
    "workflow/picture/draw.py": "graphviz",
}
"""Modules that start programs."""


def relative(path: Path) -> str:
    return path.relative_to(SOURCES).as_posix()


def room(path: Path) -> str | None:
    part = path.relative_to(SOURCES).parts[0]
    return part if part in ROOMS else None


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """(dotted module, line) of every import, also those inside functions and under TYPE_CHECKING."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)}:{node.lineno}: relative import"
            yield node.module or "", node.lineno
            if node.module == "arc":
                yield from ((f"arc.{alias.name}", node.lineno) for alias in node.names)


def allowed(path: Path, places: dict[str, str]) -> bool:
    name = relative(path)
    return any(name == place or name.startswith(f"{place}/") for place in places)


def test_rooms_import_downward_only() -> None:
    wrong = []
    for path in FILES:
        own = room(path)
        if own is None:
            continue
        for module, line in imports(path):
            parts = module.split(".")
            if parts[0] == "arc" and len(parts) > 1 and parts[1] in ROOMS and ROOMS.index(parts[1]) > ROOMS.index(own):
                wrong.append(f"{relative(path)}:{line} imports {module}")
    assert wrong == []


def test_no_module_imports_itself_through_others() -> None:
    """Circles count however they are cut: by an import inside a function or under TYPE_CHECKING too."""
    names = {"arc." + relative(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in FILES}
    arrows = {name: sorted({module for module, _ in imports(path) if module in names and module != name}) for name, path in names.items()}
    done: set[str] = set()
    circles: list[str] = []

    def visit(name: str, way: tuple[str, ...]) -> None:
        if name in way:
            circles.append(" -> ".join((*way[way.index(name) :], name)))
        elif name not in done:
            for target in arrows[name]:
                visit(target, (*way, name))
            done.add(name)

    for name in arrows:
        visit(name, ())
    assert circles == []


def test_libraries_stay_in_their_rooms() -> None:
    wrong = []
    for path in FILES:
        for module, line in imports(path):
            library = module.split(".")[0]
            own = room(path)
            if library in ONLY_IN and own not in ONLY_IN[library] and (library, own) not in LIBRARY_EXCEPTIONS:
                wrong.append(f"{relative(path)}:{line} imports {library}")
    assert wrong == []


def test_only_the_face_prints_exits_and_reads_the_environment() -> None:
    wrong = []
    for path in FILES:
        if room(path) == "cli" or path.name == "__main__.py":
            continue
        for node in ast.walk(tree(path)):
            where = f"{relative(path)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"print", "input", "breakpoint"}:
                wrong.append(f"{where} calls {node.func.id}")
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name = f"{node.value.id}.{node.attr}"
                if name in {"sys.exit", "sys.stdout", "sys.stderr", "sys.stdin"}:
                    wrong.append(f"{where} uses {name}")
                if name in {"os.environ", "os.getenv"} and not allowed(path, ENVIRONMENT):
                    wrong.append(f"{where} uses {name}")
    assert wrong == []


def test_programs_are_started_in_few_places_and_git_in_one() -> None:
    wrong = []
    for path in FILES:
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                continue
            name = f"{node.value.id}.{node.attr}"
            starts = name in {"subprocess.run", "subprocess.Popen", "subprocess.check_output", "subprocess.call", "os.system", "os.popen"}
            if (starts or name.startswith(("os.exec", "os.spawn"))) and not allowed(path, PROCESSES):
                wrong.append(f"{relative(path)}:{node.lineno} uses {name}")
    assert wrong == []


def test_broad_excepts_stand_only_where_a_reason_is_given() -> None:
    wrong = []
    for path in FILES:
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.ExceptHandler):
                continue
            names = ast.unparse(node.type) if node.type is not None else "everything"
            broad = node.type is None or re.search(r"\bException\b", names)
            swallows_base = "BaseException" in names and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
            if (broad and not allowed(path, BROAD_EXCEPT)) or swallows_base:
                wrong.append(f"{relative(path)}:{node.lineno} catches {names}")
    assert wrong == []


def test_every_file_says_its_purpose_in_one_line() -> None:
    wrong = []
    for path in [*FILES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "bench").rglob("*.py"))]:
        if not path.read_text("utf-8").strip():
            continue  # an empty `__init__.py` only makes the folder a package
        first = (ast.get_docstring(tree(path)) or "").split("\n")[0]
        if not first or len(first) > 140:
            wrong.append(str(path.relative_to(ROOT)))
    assert wrong == []


def test_files_and_functions_stay_readable() -> None:
    wrong = []
    for path in FILES:
        lines = path.read_text("utf-8").count("\n")
        if lines > MAX_FILE_LINES:
            wrong.append(f"{relative(path)} has {lines} lines")
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    wrong.append(f"{relative(path)}:{node.lineno} {node.name} has {length} lines")
    assert wrong == []


def test_reference_pages_are_up_to_date_and_error_codes_unique() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_command_has_help_that_fits_its_place_in_the_table() -> None:
    from arc.cli.commands import COMMANDS, RUN_COMMANDS

    for table in (COMMANDS, RUN_COMMANDS):
        for name, (module, line) in table.items():
            function = __import__(module, fromlist=["command"]).command
            text = function.__doc__ or ""
            assert text.split("\n")[0] == line, f"{name}: the first line of its help is not the table's"
            assert line[0].isupper(), name
            assert not line.endswith("."), name
            assert "Examples:" in text, f"{name} shows no examples"


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text("utf-8")
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    pages = [page.name for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "README.md"]
    assert [name for name in pages if f"]({name})" not in index] == []


def test_the_licence_and_the_version_are_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")[:200]
    assert project["tool"]["hatch"]["version"]["path"] == "src/arc/__init__.py"
    assert f"## {arc.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_nothing_names_a_package_host() -> None:
    texts = [
        ROOT / name for name in ("pyproject.toml", "requirements.lock", "requirements-dev.lock", "requirements.in", "requirements-dev.in")
    ]
    texts += [path for folder in ("script", "demo", ".ci") for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    assert [path.name for path in texts if re.search(r"--(extra-)?index-url|https?://", path.read_text("utf-8"))] == []
