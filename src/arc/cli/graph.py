"""`arc graph`: a workflow or a run as a picture, or as an outline in the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from arc.base.errors import NotFoundError, UsageError
from arc.base.json import JsonObject
from arc.cli import ui
from arc.cli.completion import complete_run
from arc.cli.options import Output

if TYPE_CHECKING:
    from arc.workflow.model import Workflow
    from arc.workflow.picture.draw import NodeMark

Subject = Annotated[
    str,
    typer.Argument(
        metavar="FILE|RUN",
        help="A workflow (`.dot`), a run configuration (`.toml`), `-` (stdin), or a run's id",
        autocompletion=complete_run,
    ),
]
Format = Literal["svg", "png", "dot"]

_STATUS_COLORS = {
    "success": "green",
    "partial_success": "green",
    "fail": "red",
    "running": "blue",
    "waiting": "yellow",
    "interrupted": "magenta",
    "retry": "yellow",
    "pending": "dim",
    "skipped": "dim",
    "canceled": "dim",
}


@dataclass(frozen=True)
class _Drawn:
    """What is drawn; `marks` and `run` are None for a workflow that is no run."""

    workflow: Workflow
    marks: Mapping[str, NodeMark] | None = None
    caption: str = ""
    run: str | None = None
    taken: frozenset[tuple[str, int]] | None = None


def command(subject: Subject, output: Output = None) -> None:
    """Draw a workflow, or a run with its progress

    With -o, writes a picture: `.svg`, `.png`, or `.dot` (which needs no program; the others need Graphviz). Without it, prints an
    outline at a terminal, and the SVG into a pipe or file. A run's nodes show their status, visits, attempts and time.

    \b
    Examples:
      arc graph review.dot
      arc graph review.dot -o review.svg
      arc graph 01JK -o run.png
    """
    drawn = _read(subject)
    if ui.state.json and output is None:
        ui.json(_document(drawn))
    elif output is None and sys.stdout.isatty():
        _print_outline(drawn)
    else:
        _write_picture(drawn, output)


def _read(subject: str) -> _Drawn:
    path = Path(subject)
    if subject == "-" or path.is_file() or path.suffix in (".dot", ".toml") or os.sep in subject:
        return _Drawn(_workflow(subject))
    from arc.cli.options import world
    from arc.runs.history.lookup import find_known
    from arc.runs.history.marks import run_picture

    known = find_known(world(), subject, Path.cwd())
    picture = run_picture(known)
    return _Drawn(picture.workflow, picture.marks, picture.caption, known.run_id, picture.taken)


def _workflow(subject: str) -> Workflow:
    from arc.runs.checking import workflow_to_draw

    if subject != "-" and not Path(subject).is_file():
        raise NotFoundError(f"there is no file `{subject}`")
    return workflow_to_draw(subject, sys.stdin.buffer.read() if subject == "-" else b"")


def _write_picture(drawn: _Drawn, output: Path | None) -> None:
    from arc.workflow.picture.draw import render, to_dot

    kind = "svg" if output is None else output.suffix.lower().removeprefix(".")
    if kind == "gv":
        kind = "dot"
    if kind not in ("svg", "png", "dot"):
        raise UsageError(f"`{output}` names no format that arc draws", hints=("end the file's name in `.svg`, `.png` or `.dot`",))
    dot = to_dot(drawn.workflow, drawn.marks, caption=drawn.caption, taken=drawn.taken)
    with ui.working("drawing"):
        data = dot.encode() if kind == "dot" else render(dot, cast("Literal['svg', 'png']", kind))
    if output is None:
        ui.raw(data)
        return
    try:
        output.write_bytes(data)
    except OSError as error:
        raise UsageError(f"`{output}` cannot be written: {error.strerror}") from error
    if ui.state.json:
        ui.json({"path": str(output), "format": kind, "bytes": len(data)})
    else:
        ui.note(f"wrote `{output}` ({len(data):,} bytes)")


def _print_outline(drawn: _Drawn) -> None:
    from arc.workflow.picture.draw import fold_branches
    from arc.workflow.picture.outline import outline

    workflow = drawn.workflow
    title = workflow.label or workflow.name or "workflow"
    ui.out(ui.style(" ".join(title.split()), "bold"))
    if workflow.goal:
        ui.out(ui.style(" ".join(workflow.goal.split()), "dim"))
    if drawn.caption:
        ui.out(drawn.caption)
    ui.out("")
    marks = None if drawn.marks is None else fold_branches(drawn.marks)
    for line in outline(workflow, marks, width=shutil.get_terminal_size((100, 24)).columns):
        if line.kind == "node":
            ui.out(ui.style(line.text, _STATUS_COLORS.get(line.status or "", "bold")))
        else:
            ui.out(ui.style(line.text, "dim"))
    ui.note("")
    ui.hint(f"arc graph {drawn.run or workflow.file} -o {workflow.name or 'workflow'}.svg")


def _document(drawn: _Drawn) -> JsonObject:
    """The graph as plain values; in a run, with each node's numbers by path (branches and children by their own paths)."""
    graph = _graph(drawn.workflow)
    if drawn.marks is None:
        return graph
    return {
        **graph,
        "run_id": drawn.run,
        "progress": {
            path: {
                "status": mark.status,
                "visits": mark.visits,
                "attempts": mark.attempts,
                "duration_ms": mark.duration_ms,
                "note": mark.note,
            }
            for path, mark in drawn.marks.items()
        },
    }


def _graph(workflow: Workflow) -> JsonObject:
    return {
        "name": workflow.name,
        "label": workflow.label,
        "goal": workflow.goal,
        "file": workflow.file,
        "start": workflow.start,
        "exit": workflow.exit,
        "nodes": [
            {
                "id": node.id,
                "type": node.type,
                "label": node.label,
                "goal_gate": node.goal_gate,
                "retry_target": node.retry_target,
                "child": _graph(node.child) if node.child is not None else None,
            }
            for node in workflow.nodes.values()
        ],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target,
                "label": edge.label,
                "condition": edge.condition.text if edge.condition is not None else None,
                "weight": edge.weight,
            }
            for edge in workflow.edges
        ],
    }
