"""`arc run list`: the runs of this home and of the repository around, newest first."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arc.base.errors import UsageError
from arc.cli import options, ui
from arc.cli.completion import complete_words
from arc.cli.run_view import STATUS_STYLES, duration_text
from arc.cli.table import Column, show_table

if TYPE_CHECKING:
    from arc.runs.history.listing import RunRow

STATUSES = ("created", "running", "waiting", "interrupted", "success", "partial_success", "fail", "canceled", "superseded", "corrupt")
Status = Annotated[
    list[str] | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        help=f"Only these (can be repeated): {', '.join(STATUSES)}",
        autocompletion=complete_words(*STATUSES),
    ),
]
Here = Annotated[bool, typer.Option("--here", help="Only runs of the repository (or folder) one stands in")]
All = Annotated[bool, typer.Option("--all", help="Runs that a rewind superseded too")]

_COLUMNS = (
    Column("run", fixed=True),
    Column("status", fixed=True),
    Column("workflow", least=8),
    Column("goal", least=12, order=2),
    Column("done", right=True, order=3),
    Column("started"),
    Column("took", right=True, order=4),
    Column("where", least=12, order=1, end="right"),
)


def command(status: Status = None, here: Here = False, all: All = False) -> None:
    """List runs, newest first

    All runs of this home, and those whose refs the current repository has (a clone that fetched them). A run whose process died is
    interrupted. RUN in other commands is any beginning of the id that is unique; the shortest one is shown.

    \b
    Examples:
      arc run list
      arc run list --here --status interrupted
      arc run list --json
    """
    from arc.runs.history.listing import list_runs

    for name in status or ():
        if name not in STATUSES:
            raise UsageError(f"`{name}` is no status of a run", hints=(f"one of {', '.join(STATUSES)}",))
    with ui.working("reading the runs"):
        rows = list_runs(options.world(), Path.cwd(), here=here, superseded=all, statuses=status or ())
    if ui.state.json:
        ui.json({"runs": [row.document() for row in rows]})
        return
    if not rows:
        ui.note("no runs" + (" here" if here else ""))
        return
    now = datetime.now(UTC)
    styles = [["bold", STATUS_STYLES.get(row.status, ""), "", "", "", "dim", "", "dim"] for row in rows]
    show_table(_COLUMNS, [_cells(row, now) for row in rows], styles)
    for row in rows:
        if row.problem:
            ui.warn(f"run {row.run_id}: {row.problem}")
    if any(row.newer for row in rows):
        ui.hint("use the newer arc for what it wrote; nothing there is damaged")
    corrupt = next((row.run_id for row in rows if row.problem and row.logs_dir and not row.newer), None)
    if corrupt is not None:
        ui.hint(f"to remove what is left of it: `arc run gc {corrupt} --discard-corrupt`")


def _cells(row: RunRow, now: datetime) -> list[str]:
    from arc.base.paths import tilde
    from arc.cli.completion import age
    from arc.cli.progress import first_line

    started = f"{age(row.created_at, now)} ago" if row.created_at else ""
    return [
        row.short_id,
        row.status.replace("_", " "),
        first_line(row.workflow, 20),
        first_line(row.goal, 32),
        str(row.nodes_done) if row.status != "corrupt" else "",
        started,
        duration_text(row.duration_ms),
        tilde(row.repository or row.logs_dir or "", os.environ),
    ]
