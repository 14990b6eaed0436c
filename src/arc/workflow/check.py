"""A workflow read and checked in one step: parse, resolve, lint.

`check_workflow` tells everything there is to say about a text and never raises for what is wrong in it; `read_workflow` is for those
who need a workflow that can run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.parser import parse_dot
from arc.workflow.language.resolve import ResolveInputs, resolve
from arc.workflow.language.sources import SourceReader
from arc.workflow.language.syntax import GraphSyntax
from arc.workflow.lint.rules import lint
from arc.workflow.model import Workflow
from arc.workflow.values import Diagnostic, Position


@dataclass(frozen=True)
class Checked:
    """What came of a text. `syntax` is None if it could not be parsed; `workflow` is None if any error was found.

    `diagnostics` holds errors, warnings and notices, sorted by position: the workflow's own file first, then the files it runs.
    """

    syntax: GraphSyntax | None
    workflow: Workflow | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The findings for which the workflow cannot run."""
        return tuple(finding for finding in self.diagnostics if finding.severity == "error")


def check_workflow(source: str, file: str, sources: SourceReader, inputs: ResolveInputs) -> Checked:
    """Parse, resolve and lint `source`; `file` is its name in messages. Findings that two steps share are reported once."""
    try:
        syntax = parse_dot(source, file)
    except WorkflowError as error:
        return Checked(None, None, _sorted(error.diagnostics, file))
    workflow, found = resolve(syntax, sources, inputs)
    diagnostics = _sorted((*found, *lint(syntax, workflow)), file)
    if any(finding.severity == "error" for finding in diagnostics):
        workflow = None
    if workflow is not None:  # what a start tells: all that reading found, and of the rules what looks wrong
        workflow = replace(workflow, notices=tuple(each for each in diagnostics if each.severity == "warning" or each in found))
    return Checked(syntax, workflow, diagnostics)


def read_workflow(source: str, file: str, sources: SourceReader, inputs: ResolveInputs) -> Workflow:
    """The workflow, ready to run.

    Raises:
        WorkflowError: it has errors; holds all findings, warnings and notices too.
    """
    checked = check_workflow(source, file, sources, inputs)
    if checked.workflow is None:
        raise WorkflowError(checked.diagnostics)
    return checked.workflow


def check_without_inputs(source: str, file: str, sources: SourceReader, inputs: ResolveInputs) -> Checked:
    """`check_workflow` for a workflow that is looked at rather than run: variables that only a run can give are no errors.

    Each becomes one notice at its first use (rule `undefined_variable`), and everything else is checked as if it had been given.
    """
    checked = check_workflow(source, file, sources, inputs)
    missing: dict[str, Diagnostic] = {}
    for finding in checked.diagnostics:
        name = _undefined_name(finding)
        if name is not None:
            missing.setdefault(name, finding)
    if not missing:
        return checked
    stand_ins = {name: f"${name}" for name in missing if name != "goal"}
    goal = "$goal" if "goal" in missing else inputs.goal
    again = check_workflow(source, file, sources, replace(inputs, goal=goal, inputs={**inputs.inputs, **stand_ins}))
    notices = [
        replace(
            finding,
            severity="notice",
            message=f"the run must be given `{name}`",
            hint='arc run start --goal "..."' if name == "goal" else f"arc run start -i {name}=VALUE",
        )
        for name, finding in missing.items()
    ]
    return replace(again, diagnostics=_sorted((*again.diagnostics, *notices), file))


def read_to_look_at(source: str, file: str, sources: SourceReader, inputs: ResolveInputs) -> Workflow:
    """The workflow for a picture: inputs need not be given, and what lint finds does not matter.

    Raises:
        WorkflowError: it cannot be parsed or resolved.
    """
    syntax = parse_dot(source, file)
    workflow, found = resolve(syntax, sources, inputs)
    missing = {name for name in map(_undefined_name, found) if name is not None}
    if workflow is None and missing:
        stand_ins = {name: f"${name}" for name in missing - {"goal"}}
        goal = "$goal" if "goal" in missing else inputs.goal
        workflow, found = resolve(syntax, sources, replace(inputs, goal=goal, inputs={**inputs.inputs, **stand_ins}))
    if workflow is None:
        raise WorkflowError(found)
    return workflow


_NAME_AT = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_][A-Za-z0-9_.-]*)\}|(?P<plain>[A-Za-z_][A-Za-z0-9_]*))")


def _undefined_name(finding: Diagnostic) -> str | None:
    """The name of the undefined variable that a finding points at, None if it is about something else."""
    if finding.rule != "undefined_variable":
        return None
    match = _NAME_AT.match(finding.source_line, finding.position.column - 1)
    return (match["braced"] or match["plain"]) if match else None


def _sorted(diagnostics: tuple[Diagnostic, ...], file: str) -> tuple[Diagnostic, ...]:
    """By position, each (rule, place, message) once; the findings of one place keep the order in which they were found."""
    unique: dict[tuple[str, Position, str], Diagnostic] = {}
    for finding in diagnostics:
        unique.setdefault((finding.rule, finding.position, finding.message), finding)
    return tuple(sorted(unique.values(), key=lambda finding: (finding.position.file != file, finding.position)))
