"""Where a command needs a run and none was named: the run that was probably meant, as a hint."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from arc.base.errors import ArcError
from arc.cli import options
from arc.cli.completion import age

if TYPE_CHECKING:
    from arc.runs.history.listing import RunRow

WANTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "arc run resume": ("which run is to go on? RUN is missing", ("interrupted", "fail", "canceled", "created")),
    "arc run answer": ("which run is to be answered? RUN is missing", ("waiting",)),
}
"""Command -> (what to say without a run, statuses of the runs that it is for)."""


def meant(command: str) -> tuple[str, ...]:
    """`arc run resume 01JX…  (review, interrupted 3m ago)` for the run of this repository that changed last; none if there is none."""
    from arc.runs.history.listing import list_runs

    _, statuses = WANTED[command]
    try:
        rows = list_runs(options.world(), Path.cwd(), here=True, statuses=statuses)
    except (ArcError, OSError):
        return ()
    if not rows:
        return ()
    newest = max(rows, key=lambda row: row.updated_at or "")
    return (f"{command} {newest.short_id}  ({_about(newest)})",)


def _about(row: RunRow) -> str:
    since = age(row.updated_at or "", datetime.now(UTC))
    word = {"fail": "failed"}.get(row.status, row.status)
    return f"{row.workflow}, {word} {since} ago" if since else f"{row.workflow}, {word}"
