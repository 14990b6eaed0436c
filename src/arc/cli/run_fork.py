"""`arc run fork`: a new run from a checkpoint of another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arc.cli import options, ui
from arc.cli.run_start import pairs
from arc.cli.run_view import open_run

if TYPE_CHECKING:
    from arc.base.json import JsonObject
    from arc.runs.fork import Forked

Input = Annotated[list[str] | None, typer.Option("-i", "--input", metavar="KEY=VALUE", help="Another value of an input (can be repeated)")]
Start = Annotated[bool, typer.Option("--start/--no-start", help="Start it at once [default: no]")]
StateOnly = Annotated[bool, typer.Option("--state-only", help="Go on with the files as they are, where those of then are not in Git")]
LogsDir = Annotated[Path | None, typer.Option("--logs-dir", metavar="DIR", help="Folder of the new run [default: ~/.arc/runs/ID]")]


def command(
    run: options.Run,
    target: options.Target,
    inputs: Input = None,
    start: Start = False,
    state_only: StateOnly = False,
    logs_dir: LogsDir = None,
) -> int | None:
    """Make a new run that stands where another one stood

    The new run has its own id, folder and refs, the files and the whole state of that checkpoint, also inside a parallel block. The source
    is not touched and may be deleted later. `@0` is the start.

    \b
    Examples:
      arc run fork 01JK @3
      arc run fork 01JK plan -i style=terse --start
    """
    from arc.runs.fork import ForkRequest, fork_run

    request = ForkRequest(target, pairs(inputs, "--input"), state_only, logs_dir)
    known = open_run(run)
    with ui.working(f"forking run {known.run_id}"):
        forked = fork_run(known, request, options.world())
    if start:
        ui.note(f"forked {forked.forked_from} as {forked.run_id}")
        return resume_new(forked)
    if ui.state.json:
        ui.json(fork_document(forked))
        return None
    show_fork(forked)
    ui.out(f"{ui.style('start it:', 'cyan')} arc run resume {forked.run_id}")
    return None


def resume_new(forked: Forked) -> int:
    """Start the new run here and now."""
    from arc.cli.run_resume import command as resume

    return resume(forked.run_id)


def show_fork(forked: Forked) -> None:
    """The new run in three lines."""
    place = f" ({forked.entry.path})" if forked.entry.path else " (the start)"
    ui.out(f"{ui.style(forked.run_id, 'bold')}  forked from {forked.forked_from}{place}")
    if forked.run_branch:
        ui.out(f"branch    {forked.run_branch} at {(forked.commit or '')[:9]}")
    if forked.branches:
        ui.out(f"          and {len(forked.branches)} branches of parallel blocks")


def fork_document(forked: Forked) -> JsonObject:
    """The new run as `--json` prints it."""
    return {
        "run_id": forked.run_id,
        "forked_from": forked.forked_from,
        "ordinal": forked.entry.ordinal,
        "node": forked.entry.path or None,
        "next_node": forked.next_node,
        "run_branch": forked.run_branch,
        "commit": forked.commit,
        "branches": list(forked.branches),
        "logs_dir": str(forked.logs_dir),
        "next_command": f"arc run resume {forked.run_id}",
    }
