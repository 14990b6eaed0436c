"""Arguments and options that several commands share, as `Annotated` aliases.

The common options (`--json -q -v --color --debug`) are not here: every command has them by itself (`arc.cli.frame`); commands read
`ui.state`. A command module holds a function `command` whose docstring is its help: an imperative first line without a full stop (the
same as in the table of `arc.cli.main`), a paragraph, then examples:

    \\b
    Examples:
      arc run show 01JK
      arc run show 01JK @3 --json

It returns None or an exit status (`ExitStatus`), raises `ArcError` for what a person can meet, and writes through `arc.cli.ui` only.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arc.cli.completion import complete_run, complete_target

if TYPE_CHECKING:
    from arc.runs.world import World

Run = Annotated[str, typer.Argument(metavar="RUN", help="Run id, or enough of its beginning to be unique", autocompletion=complete_run)]
Target = Annotated[str, typer.Argument(metavar="TARGET", help="`@N`, a node, or `node@VISIT`", autocompletion=complete_target)]
OptionalTarget = Annotated[
    str | None,
    typer.Argument(metavar="[TARGET]", help="`@N`, a node, or `node@VISIT` [default: the latest]", autocompletion=complete_target),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask")]
Confirm = Annotated[str | None, typer.Option("--confirm", metavar="DIGEST", help="Do exactly the plan with this digest, without asking")]
Force = Annotated[bool, typer.Option("--force", help="Go on where it would be refused")]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Wait for more until the run ends")]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write here instead of to stdout")]


def home() -> Path:
    """`$ARC_HOME`, else `~/.arc`."""
    from arc.base.paths import arc_home

    return arc_home(os.environ)


def world() -> World:
    """The world of this process, without a console and an observer (commands that only read or move refs)."""
    from arc.runs.world import World

    return World(home=home(), environ=dict(os.environ))
