"""`arc run gc`: delete what runs left behind, by a plan."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arc.base.errors import ExitStatus, RefusedError
from arc.cli import options, ui
from arc.cli.completion import complete_run
from arc.cli.run_view import STATUS_STYLES, count, size_text
from arc.cli.table import Column, show_table

if TYPE_CHECKING:
    from arc.runs.gc import GcItem, GcPlan, GcRequest

Runs = Annotated[list[str] | None, typer.Argument(metavar="[RUN...]", help="These runs only", autocompletion=complete_run)]
OlderThan = Annotated[str | None, typer.Option("--older-than", metavar="AGE", help="Only runs unchanged for that long: `30d`, `12h`, `2w`")]
Merged = Annotated[bool, typer.Option("--merged", help="Only runs whose branch a branch or tag of yours reaches")]
Finished = Annotated[bool, typer.Option("--finished", help="Only finished runs (the default if nothing is asked for)")]
PlanOnly = Annotated[bool, typer.Option("--plan", "--dry-run", help="Show the plan and stop")]
Discard = Annotated[bool, typer.Option("--discard-unmerged", help="Of the named runs: lose commits that nothing else reaches")]
DiscardCorrupt = Annotated[
    bool, typer.Option("--discard-corrupt", help="Of the named runs: delete folders that hold no readable run (their refs stay)")
]

_COLUMNS = (
    Column("plan", fixed=True),
    Column("run", fixed=True),
    Column("status", fixed=True),
    Column("size", right=True, order=1),
    Column("refs", right=True, order=2),
    Column("why", least=24),
)


class GcDeclined(RefusedError):
    """The person said no."""

    code = "gc.declined"


def command(
    runs: Runs = None,
    older_than: OlderThan = None,
    merged: Merged = False,
    finished: Finished = False,
    plan: PlanOnly = False,
    yes: options.Yes = False,
    confirm: options.Confirm = None,
    discard_unmerged: Discard = False,
    discard_corrupt: DiscardCorrupt = False,
) -> int | None:
    """Delete what runs left behind: folder, worktree, branches and metadata

    The plan is shown first. A run stays, and the plan says why, if it is live, if its worktree has uncommitted work, or if its commits are
    reachable from nowhere else.

    \b
    Examples:
      arc run gc --plan
      arc run gc --merged --older-than 30d
      arc run gc 01JK --discard-unmerged
    """
    from arc.runs.gc import GcRequest, parse_age, plan_gc
    from arc.runs.history.lookup import find_named

    world = options.world()
    request = GcRequest(
        runs=tuple(find_named(world, run, Path.cwd()) for run in runs or ()),
        older_than=parse_age(older_than) if older_than is not None else None,
        merged=merged,
        finished=finished,
        discard_unmerged=discard_unmerged,
        discard_corrupt=discard_corrupt,
    )
    with ui.working("looking at what the runs hold"):
        planned = plan_gc(world, request)
    if plan and ui.state.json:
        ui.json(planned.document())
        return None
    if not ui.state.json and confirm is None:
        _show(planned)
    if plan or not planned.deletes:
        if ui.state.json:
            ui.json({"digest": planned.digest, "deleted": [], "skipped": [], "left": [], "plan": planned.document()})
        return ExitStatus.REFUSED if planned.items and not planned.deletes and runs and not plan else None
    if not yes and confirm is None:
        question = f"delete {count(len(planned.deletes), 'run')} ({size_text(sum(item.size for item in planned.deletes))})?"
        if not ui.confirm(question, remedy=f"--yes` or `--confirm {planned.digest}"):
            raise GcDeclined("nothing was deleted")
    return _apply(planned, request, confirm)


def _apply(planned: GcPlan, request: GcRequest, confirm: str | None) -> int | None:
    from arc.runs.gc import collect

    with ui.working(f"deleting {count(len(planned.deletes), 'run')}"):
        done = collect(options.world(), request, confirm=confirm, plan=planned)
    if ui.state.json:
        ui.json(
            {
                "digest": done.plan.digest,
                "deleted": list(done.deleted),
                "skipped": [{"run_id": run_id, "reason": reason} for run_id, reason in done.skipped],
                "left": list(done.left),
                "plan": done.plan.document(),
            }
        )
    else:
        size = sum(item.size for item in done.plan.items if item.run_id in done.deleted)
        ui.out(f"deleted {count(len(done.deleted), 'run')}, {size_text(size)}")
        for run_id, reason in done.skipped:
            ui.warn(f"run {run_id} was skipped: {reason}")
        for path in done.left:
            ui.note(f"left where it is, arc did not make it: {path}")
    return ExitStatus.FAILED if done.skipped else None


def _why(item: GcItem) -> str:
    """The reason without the status, which has a column of its own."""
    return item.reason.removeprefix(item.status.replace("_", " ")).removeprefix(", ")


def _show(planned: GcPlan) -> None:
    from arc.base.paths import tilde

    if not planned.items:
        ui.note("no run matches: nothing to delete")
        return
    rows, styles = [], []
    for item in planned.items:
        action = "keep" if item.refused else "delete"
        where = tilde(item.folder, os.environ) if item.folder else ""
        rows.append([action, item.run_id, item.status.replace("_", " "), size_text(item.size), str(len(item.refs)), _why(item) or where])
        styles.append(["red" if action == "delete" else "green", "bold", STATUS_STYLES.get(item.status, ""), "", "", "dim"])
    show_table(_COLUMNS, rows, styles)
    for item in planned.items:
        for reason in item.refused:
            ui.note(f"{item.run_id} is kept: {reason}")
        for name in item.lost:
            ui.warn(f"{item.run_id}: the commits of `{name}` are reachable from nowhere else and go for good")
    ui.note(ui.style(f"plan {planned.digest}", "dim"))
    if any(item.newer for item in planned.items):
        ui.hint("use the newer arc for what it wrote; nothing there is damaged")
    corrupt = [i.run_id for i in planned.items if i.status == "corrupt" and not i.newer and i.refused == (i.reason,)]
    if corrupt:
        ui.hint(f"to remove what cannot be read: `arc run gc {corrupt[0]} --discard-corrupt`")
    unmerged = [item.run_id for item in planned.items if any(reason.startswith("commits reachable") for reason in item.refused)]
    if unmerged:
        ui.hint(f"merge what you want to keep; to lose the rest: `arc run gc {unmerged[0]} --discard-unmerged`")
