"""`arc run log`: the checkpoints of a run like `git log`, newest first, with what each one changed."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from arc.cli import options, ui
from arc.cli.run_view import change_document, change_line, count, duration_text, entry_document, local_time, open_run, short, status_text

if TYPE_CHECKING:
    from arc.runs.history.lookup import KnownRun
    from arc.runs.history.timeline import TimelineEntry

Patch = Annotated[bool, typer.Option("-p", "--patch", help="With the changes of each checkpoint")]
Oneline = Annotated[bool, typer.Option("--oneline", help="One line for each checkpoint")]


def command(run: options.Run, patch: Patch = False, oneline: Oneline = False) -> None:
    """Show a run's checkpoints, one after the other, newest first

    \b
    Examples:
      arc run log 01JK
      arc run log 01JK --oneline
      arc run log 01JK --patch | less -R
    """
    from arc.runs.history.details import changed_files, read_timeline

    known = open_run(run)
    timeline = read_timeline(known)
    entries = timeline.entries[::-1]
    if ui.state.json:
        documents = []
        for entry in entries:
            changes = changed_files(known.repository, entry) if known.repository is not None else ()
            documents.append({**entry_document(entry, len(changes)), "files": [change_document(change) for change in changes]})
        ui.json({"run_id": known.run_id, "checkpoints": documents})
        return
    if not entries:
        ui.note(f"run {known.run_id} has no checkpoint yet")
    for number, entry in enumerate(entries):
        if oneline:
            ui.out(_line(entry))
        else:
            if number:
                ui.out("")
            _show(known, entry)
        if patch:
            _show_patch(known, entry)


def _line(entry: TimelineEntry) -> str:
    commit = ui.style(short(entry.commit) or "-" * 9, "yellow")
    visit = f"@{entry.visit}" if entry.visit > 1 else ""
    return f"{commit} {ui.style(f'@{entry.ordinal}', 'bold')} {entry.path}{visit} ({status_text(entry.status)})"


def _show(known: KnownRun, entry: TimelineEntry) -> None:
    from arc.runs.history.details import changed_files

    visit = f", visit {entry.visit}" if entry.visit > 1 else ""
    attempts = f", {count(entry.attempts, 'attempt')}" if entry.attempts > 1 else ""
    took = f", {duration_text(entry.duration_ms)}" if entry.duration_ms is not None else ""
    ui.out(f"{ui.style(f'checkpoint @{entry.ordinal}', 'bold')}  {entry.path}  {status_text(entry.status)}{visit}{attempts}{took}")
    ui.out(f"commit    {ui.style(entry.commit or '(none)', 'yellow')}")
    ui.out(f"state     {entry.metadata or '(on disk only)'}")
    ui.out(f"taken     {local_time(entry.timestamp)}" + (f"  by run {entry.run_id}" if entry.run_id != known.run_id else ""))
    for change in changed_files(known.repository, entry) if known.repository is not None else ():
        ui.out(f"  {change_line(change)}")


def _show_patch(known: KnownRun, entry: TimelineEntry) -> None:
    from dataclasses import replace

    from arc.runs.history.details import render_diff

    if entry.commit is None or entry.parent is None:
        return
    before = replace(entry, commit=entry.parent)
    data = render_diff(known, before, entry, color=ui.has_color(sys.stdout))
    if data:
        ui.out("")
        ui.out(os.fsdecode(data).rstrip("\n"))
