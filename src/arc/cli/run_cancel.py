"""`arc run cancel`: stop a running run, or mark an interrupted one."""

from __future__ import annotations

from typing import Annotated

import typer

from arc.cli import options, ui
from arc.cli.run_view import open_run

Force = Annotated[bool, typer.Option("--force", help="Kill the process if it has not stopped in time")]
Grace = Annotated[float, typer.Option("--grace", metavar="SECONDS", help="How long it may take to stop")]


def command(run: options.Run, force: Force = False, grace: Grace = 10.0) -> None:
    """Stop a running run after its checkpoint, or mark an interrupted one as canceled

    The run's process gets SIGTERM, stops its nodes and writes down where it is; with `--force` it is killed when the grace is over. What
    has been done stays: a canceled run can be resumed.

    \b
    Examples:
      arc run cancel 01JK
      arc run cancel 01JK --force --grace 3
    """
    from arc.runs.cancel import cancel_run

    known = open_run(run)
    with ui.working(f"waiting for run {known.run_id} to stop"):
        done = cancel_run(known, options.world(), grace=grace, force=force)
    if ui.state.json:
        from dataclasses import asdict

        owner = asdict(done.owner) if done.owner else None
        ui.json({"run_id": done.run_id, "result": done.result, "status": done.status, "owner": owner})
        return
    sentences = {
        "stopped": f"stopped run {done.run_id} ({done.owner})",
        "killed": f"killed run {done.run_id} ({done.owner}); the node it was in is not finished",
        "marked": f"marked run {done.run_id} as canceled; no process was working on it",
        "requested": f"asked run {done.run_id} to stop: {done.owner} will read it",
        "finished": f"nothing to cancel: run {done.run_id} has ended ({done.status.replace('_', ' ')})",
    }
    ui.out(sentences[done.result])
    if done.status == "canceled":
        ui.note(f"go on:  arc run resume {done.run_id}")
