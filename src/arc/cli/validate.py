"""`arc validate`: check workflow files without running them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from arc.base.errors import ExitStatus
from arc.base.json import JsonObject
from arc.cli import ui
from arc.cli.findings import finding_document, finding_lines, near
from arc.cli.run_start import pairs

if TYPE_CHECKING:
    from arc.runs.checking import FileReport

Files = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Workflows (`.dot`), run configurations (`.toml`), folders; `-` is stdin")
]
Goal = Annotated[str | None, typer.Option("--goal", metavar="TEXT", help="The goal that the run will be given")]
Inputs = Annotated[
    list[str] | None, typer.Option("-i", "--input", metavar="KEY=VALUE", help="An input that the run will be given (can be repeated)")
]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings fail too, and inputs that are not given are errors")]


def command(files: Files, goal: Goal = None, inputs: Inputs = None, strict: Strict = False) -> int:
    """Check workflow files

    Reports everything that is wrong or looks wrong, with its place. Ends with status 1 if there are errors (with --strict also for
    warnings). Inputs that only a run is given are named in a notice and otherwise taken as given. docs/lint.md explains each rule.

    \b
    Examples:
      arc validate review.dot
      arc validate --strict -i version=1.4.0 workflows/
      arc validate --json review.toml
    """
    from arc.runs.checking import STDIN, CheckOptions, check_files, find_files

    paths = find_files(files)
    stdin = sys.stdin.buffer.read() if STDIN in paths else b""
    with ui.working(f"checking {len(paths)} files"):
        reports = check_files(paths, CheckOptions(goal, pairs(inputs, "--input"), strict), stdin)
    errors, warnings, notices = (sum(report.count(kind) for report in reports) for kind in ("error", "warning", "notice"))
    if ui.state.json:
        ui.json({"files": [_document(report) for report in reports], "errors": errors, "warnings": warnings, "notices": notices})
    else:
        for report in reports:
            _show(report)
        ui.note(_summary(reports, errors, warnings, notices))
    return ExitStatus.FAILED if errors or (strict and warnings) else ExitStatus.OK


def _show(report: FileReport) -> None:
    for finding in report.diagnostics:
        if finding.severity == "notice" and ui.state.quiet:
            continue
        first, *rest = finding_lines(finding, kind=True)
        ui.out(first)
        for line in rest:
            if finding.severity != "notice" or line.startswith(("expected ", "hint: ")):
                ui.out(line)


def _summary(reports: tuple[FileReport, ...], errors: int, warnings: int, notices: int) -> str:
    counts = ", ".join(_counted(number, word) for number, word in ((errors, "error"), (warnings, "warning"), (notices, "notice")) if number)
    if len(reports) == 1:
        (report,) = reports
        size = f" ({_counted(report.nodes, 'node')}, {_counted(report.edges, 'edge')})" if report.nodes else ""
        name = f"{near(report.path)}{size}"
    else:
        name = f"{len(reports)} files"
    if errors:
        return f"{name}: {counts}"
    return f"{name}: valid, {counts}" if counts else f"{name}: valid"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _document(report: FileReport) -> JsonObject:
    return {
        "path": report.path,
        "workflow": report.workflow,
        "valid": report.count("error") == 0,
        "nodes": report.nodes,
        "edges": report.edges,
        "diagnostics": [finding_document(finding) for finding in report.diagnostics],
    }
