"""The error of a workflow that cannot be used, and how a finding is written for people."""

from __future__ import annotations

from collections.abc import Sequence

from arc.base.errors import ArcError, ExitStatus
from arc.workflow.values import Diagnostic, Position

_SHOWN_WIDTH = 120
"""Longest part of a source line that is shown around the caret, in characters."""


class WorkflowError(ArcError):
    """A workflow, a condition or a stylesheet has errors. `diagnostics` holds everything that was found, in the order of the file.

    `str()` gives, for each finding, `file:line:column: message`, the source line, a caret, and what was expected.
    """

    code = "workflow.invalid"
    status = ExitStatus.FAILED

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        errors = [finding for finding in self.diagnostics if finding.severity == "error"] or list(self.diagnostics)
        hints = tuple(dict.fromkeys(finding.hint for finding in errors if finding.hint))
        if len(errors) == 1:
            head, *rest = format_diagnostic(errors[0], with_hint=False)
            super().__init__(head, hints=hints, details=tuple(rest))
            return
        file = errors[0].position.file if errors else "the workflow"
        details = [line for finding in errors for line in format_diagnostic(finding, with_hint=False)]
        super().__init__(f"`{file}` has {len(errors)} errors", hints=hints, details=tuple(details))

    def __str__(self) -> str:
        return "\n".join((self.message, *self.details, *(f"hint: {hint}" for hint in self.hints)))


def problem(
    rule: str, message: str, position: Position, source_line: str, *, expected: Sequence[str] = (), hint: str = ""
) -> WorkflowError:
    """A `WorkflowError` that holds one error."""
    return WorkflowError([Diagnostic(rule, "error", message, position, source_line, tuple(expected), hint)])


def format_diagnostic(finding: Diagnostic, *, with_hint: bool = True) -> list[str]:
    """The lines that show a finding: place and message, source line, caret, expectation, hint."""
    lines = [f"{finding.position}: {_visible(finding.message)}"]
    if finding.source_line.strip():
        lines += _excerpt(finding.source_line, finding.position.column)
    if finding.expected:
        lines.append(f"expected {join_words(finding.expected)}")
    if finding.hint and with_hint:
        lines.append(f"hint: {finding.hint}")
    return lines


def join_words(words: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"


def around(line: str, column: int) -> tuple[str, int]:
    """A long line cut around a column, `…` at each cut; and how many characters of it stand before that column."""
    start = 0
    before = after = ""
    if len(line) > _SHOWN_WIDTH:
        start = max(0, min(column - 1 - _SHOWN_WIDTH // 2, len(line) - _SHOWN_WIDTH))
        before = "…" if start else ""
        after = "…" if start + _SHOWN_WIDTH < len(line) else ""
    return before + line[start : start + _SHOWN_WIDTH] + after, column - 1 - start + len(before)


def _excerpt(line: str, column: int) -> list[str]:
    """The line and a caret below the column; a long line is cut around it. Tabs are repeated before the caret so that it stays in place."""
    shown, offset = around(line, column)
    padding = "".join("\t" if char == "\t" else " " for char in shown[:offset]).ljust(offset)
    return [f"    {_visible(shown)}", f"    {padding}^"]


def _visible(text: str) -> str:
    """Control characters other than tab would disturb a terminal: shown as U+FFFD."""
    return "".join(char if char == "\t" or char.isprintable() else "�" for char in text)
