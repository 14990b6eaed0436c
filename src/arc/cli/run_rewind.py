"""`arc run rewind`: go back to a checkpoint by a fork that supersedes its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from arc.base.errors import RefusedError
from arc.cli import options, ui
from arc.cli.run_fork import Input, Start, StateOnly, fork_document, resume_new, show_fork
from arc.cli.run_start import pairs
from arc.cli.run_view import count, open_run

if TYPE_CHECKING:
    from arc.runs.rewind import RewindPlan

PlanOnly = Annotated[bool, typer.Option("--plan", help="Show the plan and stop")]


class RewindDeclined(RefusedError):
    """The person said no."""

    code = "rewind.declined"


def command(
    run: options.Run,
    target: options.Target,
    plan: PlanOnly = False,
    yes: options.Yes = False,
    confirm: options.Confirm = None,
    inputs: Input = None,
    start: Start = False,
    state_only: StateOnly = False,
) -> int | None:
    """Go back to a checkpoint: a fork that supersedes its source

    The source keeps all it has and is shown as superseded; what was done after the checkpoint stays reachable there. The source must not
    be running. The plan is shown first and asked about.

    \b
    Examples:
      arc run rewind 01JK build
      arc run rewind 01JK @3 --yes --start
      arc run rewind 01JK @3 --plan --json
    """
    from arc.runs.fork import ForkRequest
    from arc.runs.rewind import plan_rewind, rewind_document, rewind_run

    known = open_run(run)
    with ui.working(f"planning the rewind of run {known.run_id}"):
        planned = plan_rewind(known, target, state_only=state_only)
    if plan and ui.state.json:
        ui.json(rewind_document(planned))
        return None
    if not ui.state.json and confirm is None:
        _show(planned)
    if plan:
        return None
    if not yes and confirm is None and not ui.confirm("rewind?", remedy=f"--yes` or `--confirm {planned.digest}"):
        raise RewindDeclined("not rewound; nothing was changed")
    request = ForkRequest(target, pairs(inputs, "--input"), state_only)
    done = rewind_run(known, request, options.world(), confirm=confirm or planned.digest)
    if start:
        ui.note(f"run {done.forked.run_id} supersedes {known.run_id}")
        return resume_new(done.forked)
    if ui.state.json:
        ui.json({**fork_document(done.forked), "supersedes": known.run_id, "digest": done.plan.digest})
        return None
    show_fork(done.forked)
    ui.out(f"supersedes {known.run_id}, which keeps everything it has")
    ui.out(f"{ui.style('start it:', 'cyan')} arc run resume {done.forked.run_id}")
    return None


def _show(planned: RewindPlan) -> None:
    name = f" ({planned.entry.path})" if planned.entry.path else " (the start)"
    ui.talk(f"rewind run {planned.run_id} to @{planned.entry.ordinal}{name}: a new run starts there")
    if planned.left_behind:
        names = ", ".join(f"@{entry.ordinal} {entry.path}" for entry in planned.left_behind[:8])
        more = f" and {len(planned.left_behind) - 8} more" if len(planned.left_behind) > 8 else ""
        ui.talk(f"{count(len(planned.left_behind), 'checkpoint')} left behind in the source: {names}{more}")
    if planned.files.steps:
        ui.talk(f"files of the new run's branch against the source's ({count(len(planned.files.steps), 'file')}):")
        ui.show_plan(planned.files)
    ui.talk(ui.style(f"confirm with {planned.digest}", "dim"))
