"""Findings in workflow files: their lines on the terminal, their form in JSON; and paths as one would type them here."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from arc.cli import ui

if TYPE_CHECKING:
    from arc.base.json import JsonObject
    from arc.workflow.values import Diagnostic

COLORS = {"error": "red", "warning": "yellow", "notice": "cyan"}


def near(path: str) -> str:
    """An absolute path as it is reached from the working directory, if that is shorter; others unchanged."""
    if not os.path.isabs(path):
        return path
    try:
        relative = os.path.relpath(path)
    except OSError:  # the working directory is gone
        return path
    return relative if len(relative) < len(path) else path


def nearby(text: str) -> str:
    """A message with the paths below the working directory as one would type them: `/here/a.dot:1:2: x` is `a.dot:1:2: x`."""
    try:
        here = os.getcwd() + os.sep
    except OSError:
        return text
    if here == os.sep or here not in text:
        return text
    for before in ("`", " ", "("):
        text = text.replace(before + here, before)
    return text.removeprefix(here)


def finding_lines(finding: Diagnostic, *, kind: bool = False, stream: TextIO | None = None) -> list[str]:
    """`file:line:column: message`, the source line with a caret, what was expected, and the hint. `kind`: with severity and rule."""
    from arc.workflow.language.errors import format_diagnostic

    stream = stream or sys.stdout
    here = replace(finding.position, file=near(finding.position.file))
    _, *rest = format_diagnostic(replace(finding, position=here))
    words = ui.style(f"{finding.severity}[{finding.rule}]", COLORS[finding.severity], "bold", stream=stream) + ": " if kind else ""
    return [f"{ui.style(str(here), 'bold', stream=stream)}: {words}{ui.visible(finding.message)}", *rest]


def finding_document(finding: Diagnostic) -> JsonObject:
    """A finding as `--json` prints it (docs/json.md)."""
    from arc.workflow.language.errors import around

    line, before = around(finding.source_line, finding.position.column)
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "message": finding.message,
        "file": finding.position.file,
        "line": finding.position.line,
        "column": finding.position.column,
        "source_line": line,
        "source_column": before + 1 if line else 0,
        "expected": list(finding.expected),
        "hint": finding.hint,
    }
