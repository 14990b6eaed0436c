"""Checks workflow files and run configurations without running them: what `arc validate` reports.

Without inputs, a workflow that takes some is checked as if they had been given (a notice names them); with `strict`, or where the run
configuration is meant to be complete, they are errors.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from arc.base.errors import NotFoundError
from arc.runs.config import RunConfig
from arc.runs.config_files import PROJECT_FILE, read_layer, read_sources
from arc.runs.errors import ConfigError, SourceError
from arc.runs.world import StartRequest
from arc.workflow.check import Checked, check_without_inputs, check_workflow, read_to_look_at
from arc.workflow.handlers.registry import installed_types
from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.resolve import ResolveInputs
from arc.workflow.language.sources import FileSources
from arc.workflow.language.text import decode_source
from arc.workflow.model import Workflow
from arc.workflow.values import Diagnostic, Position

STDIN = "-"
_STDIN_NAME = "<stdin>"
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "venv", "build", "dist"})
_PLACE = re.compile(r"^(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<message>.*)$", re.DOTALL)


@dataclass(frozen=True)
class CheckOptions:
    """`strict`: variables that were not given are errors. `goal` and `inputs` as a run would be given them."""

    goal: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False


@dataclass(frozen=True)
class FileReport:
    """One checked file. `workflow` is the file that a run configuration names, else `path`. Counts are 0 if it cannot be read."""

    path: str
    workflow: str
    diagnostics: tuple[Diagnostic, ...]
    nodes: int = 0
    edges: int = 0

    def count(self, severity: str) -> int:
        """How many findings have this severity."""
        return sum(1 for finding in self.diagnostics if finding.severity == severity)


def find_files(paths: Iterable[str]) -> tuple[str, ...]:
    """The files to check: those named, and of folders all `.dot` files, run configurations and `arc.toml`s in them, sorted.

    Raises:
        NotFoundError: a path does not exist, or a folder has nothing to check.
    """
    found: dict[str, None] = {}
    for path in paths:
        if path == STDIN or not Path(path).is_dir():
            if path != STDIN and not Path(path).exists():
                raise NotFoundError(f"there is no file `{path}`")
            found[path] = None
            continue
        inside = list(_in_folder(Path(path)))
        if not inside:
            raise NotFoundError(f"the folder `{path}` holds no workflow (`.dot`) and no run configuration (`.toml`)")
        found.update(dict.fromkeys(inside))
    return tuple(found)


def check_files(paths: Iterable[str], options: CheckOptions, stdin: bytes = b"") -> tuple[FileReport, ...]:
    """Check each file. A workflow that one of the run configurations names is checked with that configuration, and once.

    Raises:
        NotFoundError: a file cannot be read.
    """
    reports: dict[str, FileReport] = {}
    ordered = list(paths)
    for path in sorted(ordered, key=lambda name: not name.endswith(".toml")):
        covered = any(os.path.realpath(path) == os.path.realpath(report.workflow) for report in reports.values() if report.path != path)
        if path == STDIN:
            reports[path] = _check_text(_STDIN_NAME, _STDIN_NAME, stdin, Path("."), options)
        elif path.endswith(".toml"):
            reports[path] = _check_configuration(Path(path), options)
        elif not covered:
            reports[path] = _check_configured(Path(path), Path("."), options)
    return _each_once(tuple(reports[path] for path in ordered if path in reports))


def workflow_to_draw(path: str, stdin: bytes = b"") -> Workflow:
    """The workflow of a file (or of the run configuration `path`) for looking at it: what only a run can give stays open.

    Raises:
        WorkflowError: it has errors that keep it from being read; rules about its shape do not count.
        NotFoundError, ConfigError, SourceError: the files cannot be read.
    """
    file, data, directory, goal, inputs = Path(path), stdin, Path("."), None, {}
    if path != STDIN:
        sources = read_sources(StartRequest(file, Path(".")), _top(Path(".")))
        file, goal, inputs = (
            (file if sources.graph == file else Path(os.path.relpath(sources.graph))),
            sources.config.goal,
            sources.config.inputs,
        )
        data, directory = _read(sources.graph), sources.graph.parent
    name = _STDIN_NAME if path == STDIN else str(file)
    return read_to_look_at(decode_source(data, name), name, FileSources(directory), ResolveInputs(goal=goal, inputs=inputs))


def _check_configuration(path: Path, options: CheckOptions) -> FileReport:
    name = str(path)
    if path.name == PROJECT_FILE:
        try:
            read_layer(path, project=True)
        except ConfigError as error:
            return FileReport(name, name, (_from_error(name, error),))
        return FileReport(name, name, ())
    return _check_configured(path, path.parent, options)


def _check_configured(path: Path, directory: Path, options: CheckOptions) -> FileReport:
    """A run configuration, or a workflow with what the project's `arc.toml` says: as `arc run start PATH` in `directory` would read it."""
    name = str(path)
    try:
        sources = read_sources(StartRequest(path, directory, goal=options.goal, inputs=options.inputs), _top(directory))
    except (ConfigError, SourceError) as error:
        return FileReport(name, name, (_from_error(name, error),))
    graph = name if sources.graph == path else os.path.relpath(sources.graph)
    given = replace(options, goal=sources.config.goal, inputs=sources.config.inputs)
    return _check_text(name, graph, _read(sources.graph), sources.graph.parent, given, sources.config)


def _check_text(
    path: str, workflow: str, data: bytes, directory: Path, options: CheckOptions, config: RunConfig | None = None
) -> FileReport:
    try:
        text = decode_source(data, workflow)
    except WorkflowError as error:
        return FileReport(path, workflow, error.diagnostics)
    check = check_workflow if options.strict else check_without_inputs
    inputs = ResolveInputs(goal=options.goal, inputs=options.inputs)
    checked = check(text, workflow, FileSources(directory), inputs)
    found = (_from_here(finding, workflow, directory) for finding in checked.diagnostics)
    return FileReport(path, workflow, tuple(finding for finding in found if _concerns(finding, config)), *_size(checked))


def _from_here(finding: Diagnostic, workflow: str, directory: Path) -> Diagnostic:
    """Other files of the workflow are named from its own folder; a person needs them named from here."""
    file = finding.position.file
    if file == workflow or file.startswith(f"{workflow}#") or os.path.isabs(file):
        return finding
    return replace(finding, position=replace(finding.position, file=os.path.join(directory, file)))


def _concerns(finding: Diagnostic, config: RunConfig | None) -> bool:
    """Whether a finding still stands here: not if the configuration gives the model asked for, or if it or a package has the handler."""
    if finding.rule == "type_known":
        served = (*(config.handlers if config is not None else ()), *installed_types())
        return not any(f"`{name.removeprefix('!')}`" in finding.message for name in served)
    if config is None:
        return True
    if finding.rule == "model_needed":
        return config.model.backend is None
    return finding.rule != "unused_input"  # a project's inputs are for all its workflows


def _top(directory: Path) -> Path | None:
    """The top of the repository around a folder, as far as where `arc.toml` is looked for is concerned."""
    start = directory.resolve()
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)


def _size(checked: Checked) -> tuple[int, int]:
    return (len(checked.syntax.nodes), len(checked.syntax.edges)) if checked.syntax is not None else (0, 0)


def _each_once(reports: tuple[FileReport, ...]) -> tuple[FileReport, ...]:
    """A finding in a file that several workflows use is told with the first of them."""
    seen: set[tuple[str, str, int, int, str]] = set()
    result = []
    for report in reports:
        kept = []
        for finding in report.diagnostics:
            position = finding.position
            key = (finding.rule, os.path.realpath(position.file), position.line, position.column, finding.message)
            if key not in seen:
                seen.add(key)
                kept.append(finding)
        result.append(replace(report, diagnostics=tuple(kept)))
    return tuple(result)


def _from_error(path: str, error: ConfigError | SourceError) -> Diagnostic:
    """An error of reading a configuration as a finding; its message begins with its place where it has one."""
    match = _PLACE.match(error.message)
    position = Position(path, int(match["line"]), int(match["column"])) if match else Position(path, 1, 1)
    return Diagnostic(
        rule="configuration",
        severity="error",
        message=match["message"] if match else error.message,
        position=position,
        source_line=error.details[0] if match and error.details else "",
        hint="; ".join(error.hints),
    )


def _in_folder(folder: Path) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _PASSED_OVER)
        for name in sorted(names):
            path = Path(parent, name)
            if name.endswith(".dot") or name == PROJECT_FILE or (name.endswith(".toml") and _is_run_configuration(path)):
                yield str(path)


def _is_run_configuration(path: Path) -> bool:
    """Whether a TOML file names a graph (others, such as pyproject.toml, are none of our business)."""
    try:
        return "graph" in tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return False


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotFoundError(f"`{path}` cannot be read: {error.strerror}") from error
