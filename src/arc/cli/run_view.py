"""What the commands about existing runs share: opening one, statuses and times in words, checkpoints as rows and as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from arc.cli import options, ui
from arc.cli.table import Column
from arc.cli.width import wrap

if TYPE_CHECKING:
    from arc.base.json import JsonObject
    from arc.runs.history.lookup import KnownRun
    from arc.runs.history.timeline import Timeline, TimelineEntry
    from arc.workspace.protocol import Change

STATUS_STYLES = {
    "success": "green",
    "partial_success": "yellow",
    "fail": "red",
    "corrupt": "red",
    "interrupted": "yellow",
    "canceled": "yellow",
    "running": "cyan",
    "waiting": "magenta",
    "created": "blue",
    "superseded": "dim",
    "skipped": "dim",
    "start": "dim",
}
"""Status -> style; the word always stands there too."""

_FIELD = 10


def open_run(prefix: str) -> KnownRun:
    """The run that a command names: of this home, or by the refs of the repository around the working directory."""
    from arc.runs.history.lookup import find_known

    return find_known(options.world(), prefix, Path.cwd())


def status_text(status: str) -> str:
    """The word for people, in its colour."""
    return ui.style(status.replace("_", " "), STATUS_STYLES.get(status, "bold"))


def show_fields(lines: Sequence[tuple[str, str]]) -> None:
    """`name  value` lines on stdout; at a terminal a long value of several words goes on below its own beginning."""
    width = max(20, ui.terminal_width() - _FIELD - 1) if sys.stdout.isatty() else None
    for name, value in lines:
        label = f"{ui.style(name.ljust(_FIELD), 'dim')} "
        for line in [value] if width is None or "\033" in value else wrap(value, width):
            ui.out(label + line)
            label = " " * (_FIELD + 1)


def duration_text(milliseconds: int | None) -> str:
    """`0.4s`, `3m05s`; nothing for None."""
    from arc.cli.progress import seconds

    return "" if milliseconds is None else seconds(milliseconds / 1000)


def local_time(moment: str) -> str:
    """A stored time in the zone of the terminal: `2026-11-30 19:54:12`."""
    try:
        return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return moment


def size_text(size: int) -> str:
    """Bytes for people: `812 B`, `4.2 MB`."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def short(commit: str | None) -> str:
    """The beginning of a commit id."""
    return (commit or "")[:8]


def count(number: int, thing: str) -> str:
    """`1 file`, `3 files`, `2 branches`."""
    return f"{number} {thing}{'' if number == 1 else 'es' if thing.endswith('ch') else 's'}"


CHECKPOINT_COLUMNS = (
    Column("at", fixed=True),
    Column("node", least=40),
    Column("status", fixed=True),
    Column("tries", right=True, order=2),
    Column("took", right=True, order=3),
    Column("commit", fixed=True),
    Column("files", right=True, order=1),
    Column("taken", order=4),
)


def checkpoint_rows(timeline: Timeline, files: dict[int, int]) -> tuple[list[list[str]], list[list[str]]]:
    """Rows and styles of the table of checkpoints; `files`: changed files by ordinal. The first and the second cell are targets.

    The day is shown where it is not the one of the start, the year too where that is another one.
    """
    rows, styles = [], []
    day = local_time(timeline.start.timestamp)[:10]
    for entry in (timeline.start, *timeline.entries):
        changed = files.get(entry.ordinal)
        taken = local_time(entry.timestamp)
        rows.append(
            [
                f"@{entry.ordinal}",
                (entry.path or "(start)") + (f"@{entry.visit}" if entry.visit > 1 else ""),
                "" if entry.status == "start" else entry.status.replace("_", " "),
                str(entry.attempts) if entry.attempts > 1 else "",
                duration_text(entry.duration_ms),
                short(entry.commit),
                str(changed) if changed else "",
                taken.removeprefix(f"{day} ").removeprefix(day[:5]),
            ]
        )
        styles.append(["bold", "", STATUS_STYLES.get(entry.status, ""), "", "", "yellow", "", "dim"])
    return rows, styles


def entry_document(entry: TimelineEntry, files: int | None = None) -> JsonObject:
    """A checkpoint as `--json` prints it."""
    document: JsonObject = {
        "ordinal": entry.ordinal,
        "node": entry.path or None,
        "frame": entry.frame,
        "visit": entry.visit,
        "status": entry.status,
        "attempts": entry.attempts,
        "timestamp": entry.timestamp,
        "duration_ms": entry.duration_ms,
        "next_node": entry.next_node,
        "commit": entry.commit,
        "parent": entry.parent,
        "metadata": entry.metadata,
        "taken_by": entry.run_id,
    }
    if files is not None:
        document["files_changed"] = files
    return document


def change_document(change: Change) -> JsonObject:
    """A changed path; `path_b64` only where the name is not UTF-8."""
    from arc.base.json import name_fields

    document: JsonObject = {**name_fields("path", change.path), "kind": change.kind}
    if change.old_path is not None:
        document |= name_fields("old_path", change.old_path)
    return document


def change_line(change: Change) -> str:
    """`M src/a.py`, `R old -> new`."""
    letters = {"added": "A", "modified": "M", "deleted": "D", "renamed": "R", "mode": "X", "kind": "T"}
    colors = {"added": "green", "deleted": "red"}
    name = os.fsdecode(change.path)
    if change.old_path is not None:
        name = f"{os.fsdecode(change.old_path)} -> {name}"
    return f"{ui.style(letters[change.kind], colors.get(change.kind, 'yellow'))} {name}"
