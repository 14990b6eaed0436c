"""`arc run diff`: what changed between two checkpoints of a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from arc.base.errors import UsageError
from arc.cli import options, ui
from arc.cli.completion import complete_target
from arc.cli.run_view import change_document, open_run

if TYPE_CHECKING:
    from arc.runs.history.details import DiffForm

From = Annotated[
    str | None, typer.Argument(metavar="[A]", help="Checkpoint to compare from [default: the start]", autocompletion=complete_target)
]
To = Annotated[
    str | None, typer.Argument(metavar="[B]", help="Checkpoint to compare with [default: the latest]", autocompletion=complete_target)
]
Paths = Annotated[list[str] | None, typer.Argument(metavar="[-- PATH...]", help="Only these files or folders, from the repository's top")]
Stat = Annotated[bool, typer.Option("--stat", help="How many lines in which files")]
NameOnly = Annotated[bool, typer.Option("--name-only", help="Names of files only")]
Patch = Annotated[bool, typer.Option("-p", "--patch", help="The changes themselves (the default)")]


def command(
    run: options.Run,
    a: From = None,
    b: To = None,
    paths: Paths = None,
    stat: Stat = False,
    name_only: NameOnly = False,
    patch: Patch = False,
) -> None:
    """Show what changed between two checkpoints

    Without targets: all that the run has changed. With one: what that checkpoint's node changed. With two: from the first to the second.

    \b
    Examples:
      arc run diff 01JK
      arc run diff 01JK @3
      arc run diff 01JK @2 @5 --stat
      arc run diff 01JK @0 @last -- src/app.py
    """
    from arc.runs.history.details import changes_between, diff_ends, need_commit, read_timeline, render_diff

    if stat and name_only:
        raise UsageError("`--stat` and `--name-only` exclude each other")
    known = open_run(run)
    old, new = diff_ends(read_timeline(known), a, b)
    if ui.state.json:
        files = [change_document(change) for change in changes_between(known, old, new, paths or ())]
        ui.json({"run_id": known.run_id, "from": need_commit(known, old), "to": need_commit(known, new), "files": files})
        return
    form: DiffForm = "stat" if stat else "name-only" if name_only else "patch"
    data = render_diff(known, old, new, form=form, paths=tuple(paths or ()), color=ui.has_color(sys.stdout))
    if data:
        ui.raw(data)
    else:
        ui.note("no differences")
