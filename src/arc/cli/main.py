"""The `arc` command: the table of commands, and how each way of ending becomes an exit status.

Nothing heavy is imported here (tests/cli/test_imports.py lists what is): `--version` does not even import typer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import arc
from arc.base.errors import ArcError, ExitStatus
from arc.cli.commands import COMMANDS, RUN_COMMANDS

if TYPE_CHECKING:
    from arc.cli.frame import LazyGroup

STATUSES = """\b
Exit status:
  0      done, or nothing to do
  1      failed; the message says what is done and what is untouched
  2      the command line is wrong
  3      refused; nothing was changed
  4      no such run, node, checkpoint or file
  5      busy: a live process owns the run
  70     a bug in arc; a report file is named
  128+N  ended by signal N (130: Ctrl-C, 143: SIGTERM)"""


_ROOT_HELP = """Make the work of coding agents reversible, resumable and forkable

\b
Examples:
  arc validate review.dot
  arc run start review.dot --goal "Fix the flaky test"
  arc run show 01JK"""

_RUN_HELP = """Start, resume, inspect, fork and tidy workflow runs

A run walks a workflow graph in a Git worktree of its own and takes a checkpoint after every node.

\b
Examples:
  arc run start review.dot --goal "Fix the flaky test"
  arc run list
  arc run resume 01JK"""


def build() -> LazyGroup:
    """The whole command line; no command's module is imported."""
    from arc.cli.frame import Entry, LazyGroup

    def entries(table: dict[str, tuple[str, str]]) -> dict[str, Entry]:
        return {name: Entry(*row) for name, row in table.items()}

    run = LazyGroup("run", help=_RUN_HELP, commands=entries(RUN_COMMANDS))
    return LazyGroup("arc", help=_ROOT_HELP, epilog=STATUSES, commands=entries(COMMANDS), groups=(run,), root=True)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status."""
    if list(arguments) in (["--version"], ["-V"]):
        from arc.cli import ui

        ui.out(f"arc {arc.__version__}")
        return ExitStatus.OK
    if "_ARC_COMPLETE" in os.environ:
        return _complete(arguments)
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        return 128 + 2
    except ArcError as error:
        from arc.cli.errors import show_error

        return show_error(error, arguments)
    except Exception as error:  # noqa: BLE001 - the last frame: a bug becomes a report, never a traceback by surprise
        if _was_interrupted(error):
            return 128 + 2
        from arc.cli.errors import show_bug

        return show_bug(error, arguments)


def _was_interrupted(error: BaseException) -> bool:
    """Whether a Ctrl-C is what began it: one that meets a class being made arrives as a RuntimeError."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__
    return cause is not None


def _dispatch(arguments: Sequence[str]) -> int:
    from typer import Abort, TyperException

    try:
        status = build().main(list(arguments), prog_name="arc", standalone_mode=False)
    except TyperException as error:
        from arc.cli.errors import show_usage

        return show_usage(error, arguments)
    except Abort:  # end of input at a question
        return 128 + 2
    return int(status) if isinstance(status, int) else ExitStatus.OK


def _complete(arguments: Sequence[str]) -> int:
    """Answer the shell's completion; whatever goes wrong, the terminal stays clean."""
    # typer renders help texts with rich if it is there, which takes 60 ms
    sys.modules["rich"] = None  # type: ignore[assignment]
    line = os.environ.get("_ARC_LINE")
    if line is not None:  # our script for bash: the command line up to the cursor
        words = len(line.split())
        os.environ |= {"COMP_WORDS": line, "COMP_CWORD": str(words if line[-1:].isspace() else max(0, words - 1))}
    try:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for the rest of this short process
        build().main(list(arguments), prog_name="arc", standalone_mode=False)
    except (Exception, SystemExit):  # noqa: BLE001, S110 - no completion is better than a traceback in the middle of a command line
        pass
    return ExitStatus.OK


def main() -> None:
    """Entry point of the `arc` program."""
    sys.exit(run(sys.argv[1:]))
