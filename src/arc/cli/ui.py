"""What a person sees: the one module that writes to stdout and stderr.

stdout carries the answer of a command and nothing else; notes, warnings, progress, questions and errors go to stderr. `state` holds
the common options (`--json --quiet --verbose --color --debug`), which are accepted before and after the command (`arc.cli.frame`).
It is the process's command line, so it is the one piece of module state in arc; a process has one command line.
rich is imported only for the moving line of a run.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO

from arc.base.errors import RefusedError
from arc.cli.width import wrap

if TYPE_CHECKING:
    from rich.console import Console

    from arc.workspace.plan import Plan

Color = Literal["auto", "always", "never"]

CLOSED_PIPE_STATUS = 141
"""128 + SIGPIPE: what a shell reports for a program whose reader went away."""

_PATIENCE = 1.0
"""Seconds before a command that is not done says what it does."""

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36"}


@dataclass
class Options:
    """The common options of this process."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    color: Color = "auto"


state = Options()


def has_color(stream: TextIO) -> bool:
    """Whether `stream` gets colours: `--color`, else a terminal that is not dumb, and NO_COLOR not set."""
    if state.color != "auto":
        return state.color == "always"
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def style(text: str, *names: str, stream: TextIO | None = None) -> str:
    """`text` in the named styles (bold, dim, red, green, yellow, blue, magenta, cyan).

    Unchanged where `stream` (default: stdout) has no colours.
    """
    if not names or not has_color(stream or sys.stdout):
        return text
    return f"\033[{';'.join(_CODES[name] for name in names)}m{text}\033[0m"


@contextmanager
def _quiet_pipe(stream: TextIO) -> Iterator[None]:
    """End quietly when the reader of `stream` has gone (`arc run list | head`)."""
    try:
        yield
    except BrokenPipeError:
        # the interpreter flushes at exit and would complain about the same pipe again
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise SystemExit(CLOSED_PIPE_STATUS) from None


_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys: all controls but tab and newline, and those that turn the direction of the text."""
_STYLES = re.compile("\033\\[[0-9;]*m")
_REST = re.compile(rf"({_STYLES.pattern})|{_UNSEEN.pattern}")


def visible(text: str, *, newlines: bool = True) -> str:
    """`text` with every character that a terminal would obey shown as U+FFFD; with `newlines` false, line ends and tabs as a space."""
    if not newlines:
        text = re.sub(r"\r?\n|\r|\t", " ", text)
    return _UNSEEN.sub("\ufffd", text) if _UNSEEN.search(text) else text


def _styled(text: str) -> str:
    """`text` with nothing a terminal would obey but colours, which end where the text ends."""
    if not _UNSEEN.search(text):
        return text
    shown = _REST.sub(lambda match: match[1] or "\ufffd", text)
    colors = _STYLES.findall(shown)
    return shown + "\033[0m" if colors and colors[-1] != "\033[0m" else shown


def clean(text: str, stream: TextIO) -> str:
    """`text` as it may go to `stream`: colours where it has them, nothing else that a terminal would obey."""
    return _styled(text) if has_color(stream) else visible(text)


def _write(stream: TextIO, text: str) -> None:
    text = clean(text, stream)
    # names that are not UTF-8 arrive surrogate-escaped; they leave as the bytes they were
    data = (text + "\n").encode("utf-8", "surrogateescape")
    with _quiet_pipe(stream):
        buffer = getattr(stream, "buffer", None)
        if buffer is None:  # a test's StringIO
            stream.write(data.decode("utf-8", "replace"))
        else:
            stream.flush()
            buffer.write(data)
        stream.flush()


def out(text: str) -> None:
    """A line (or lines) of the answer, on stdout."""
    _write(sys.stdout, text)


def raw(data: bytes) -> None:
    """Bytes of the answer as they are (a picture, a log), on stdout; at a terminal without what it would obey, colours aside."""
    if sys.stdout.isatty():
        text = data.replace(b"\r\n", b"\n").decode("utf-8", "replace")
        data = (_styled(text) if has_color(sys.stdout) else visible(_STYLES.sub("", text))).encode()
    with _quiet_pipe(sys.stdout):
        sys.stdout.buffer.write(data)
        sys.stdout.flush()


def value(text: str) -> None:
    """A stored text as the answer: its exact characters and a line end; at a terminal as `raw`."""
    raw(text.encode("utf-8", "surrogateescape") + b"\n")


def json(value: object) -> None:
    """The answer of a `--json` command: exactly one document."""
    from arc.base.json import encode

    out(_encoded(value, encode))


def json_line(value: object) -> None:
    """One object of a streaming `--json` command."""
    from arc.base.json import encode_line

    out(_encoded(value, encode_line))


def _encoded(value: object, encode: Callable[[object], bytes]) -> str:
    try:
        return encode(value).decode().rstrip("\n")
    except UnicodeEncodeError:  # a path of this machine that is not UTF-8
        return encode(_utf8(value)).decode().rstrip("\n")


def _utf8(value: object) -> object:
    """A document with U+FFFD for what is not UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {_utf8(key): _utf8(item) for key, item in value.items()}
    return [_utf8(item) for item in value] if isinstance(value, list | tuple) else value


def talk(text: str) -> None:
    """A line on stderr, whatever the options say (errors, questions)."""
    _write(sys.stderr, text)


def note(text: str) -> None:
    """What happened besides the answer, on stderr; nothing with `-q`."""
    if not state.quiet:
        talk(text)


def step(text: str) -> None:
    """A detail for `-v`, on stderr."""
    if state.verbose:
        talk(style(text, "dim", stream=sys.stderr))


def warn(text: str, *details: str) -> None:
    """A warning that a person can act on, on stderr, also with `-q`."""
    say("warning:", ("yellow", "bold"), text)
    for line in details:
        talk(f"  {line}")


def say(word: str, styles: Sequence[str], text: str) -> None:
    """`word text` on stderr, as errors, warnings and hints are told."""
    first, *rest = wrapped(text, indent=2, before=len(word) + 1, stream=sys.stderr)
    talk("\n".join((f"{style(word, *styles, stream=sys.stderr)} {first}", *rest)))


def hint(text: str) -> None:
    """A command or remedy that can be pasted, on stderr; nothing with `-q`."""
    if not state.quiet:
        say("hint:", ("cyan",), text)


def wrapped(text: str, *, indent: int = 0, before: int = 0, stream: TextIO | None = None) -> list[str]:
    """`text` as lines that break between words where `stream` (default: stdout) is a terminal, else as one; all but a first line that has
    `before` cells in front of it are indented."""
    margin = " " * indent
    first = "" if before else margin
    if not (stream or sys.stdout).isatty():
        return [first + text]
    head, *rest = wrap(text, max(30, terminal_width()) - indent, before=max(0, before - indent))
    return [first + head, *(margin + line for line in rest)]


def terminal_width() -> int:
    """Cells in a line of the terminal; 80 where nobody says."""
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


@contextmanager
def working(what: str) -> Iterator[None]:
    """Says at the terminal what is being done, if that takes more than a second; the line goes when it is done."""
    if not shows_live_progress():
        yield
        return
    import threading

    shown = threading.Event()

    def show() -> None:
        shown.set()
        sys.stderr.write(style(f"{what}…", "dim", stream=sys.stderr))
        sys.stderr.flush()

    timer = threading.Timer(_PATIENCE, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if shown.is_set():
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def is_interactive() -> bool:
    """Whether a person can be asked: stdin and stderr are terminals and no `--json` was given."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not state.json


def shows_live_progress() -> bool:
    """Whether a moving line may be drawn on stderr."""
    return (
        sys.stderr.isatty()
        and not (state.quiet or state.json)
        and os.environ.get("TERM") != "dumb"
        and not os.environ.get("ARC_NO_PROGRESS")
    )


def console(stream: TextIO) -> Console:
    """A rich console that obeys the common options."""
    from rich.console import Console

    color = has_color(stream)
    return Console(file=stream, force_terminal=color or None, no_color=not color, highlight=False, markup=False, soft_wrap=False)


def confirm(question: str, *, remedy: str = "--yes") -> bool:
    """Ask yes or no (default no) at the terminal.

    Raises:
        RefusedError: nobody can be asked; names `remedy`, the option that answers beforehand.
    """
    if not is_interactive():
        raise RefusedError(
            "this needs a confirmation and there is no terminal to ask at; nothing was changed", hints=(f"run it again with `{remedy}`",)
        )
    return ask_line(f"{question} [y/N] ").lower() in {"y", "yes"}


def ask_line(prompt: str) -> str:
    """One line typed at the terminal (ask `is_interactive` first), without the white space around it."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    try:
        return sys.stdin.readline().strip()
    except KeyboardInterrupt:
        talk("")
        raise


_ACTIONS = {"restore": "write", "delete": "delete", "mode": "chmod", "kind": "replace"}


def show_plan(plan: Plan, *, limit: int = 40) -> None:
    """A plan in the form every command shows: steps, conflicts, gaps, digest; on stderr (it precedes a question)."""
    lines = [(_ACTIONS[step.action], step.path) for step in plan.steps]
    show_steps([(action, os.fsdecode(path)) for action, path in lines], digest=plan.digest, limit=limit)
    for conflict in plan.conflicts:
        warn(f"`{os.fsdecode(conflict.path)}` is skipped: {conflict.reason}")
    for gap in plan.gaps:
        warn(f"`{os.fsdecode(gap.path)}` cannot be brought back: {gap.reason}")


def show_steps(steps: Sequence[tuple[str, str]], *, digest: str | None = None, limit: int = 40) -> None:
    """Planned steps as (action, thing), and the digest to confirm them with; on stderr."""
    width = max((len(action) for action, _ in steps), default=0)
    for action, thing in steps[: limit if not state.verbose else None]:
        talk(f"  {style(action.ljust(width), 'red' if action == 'delete' else 'yellow', stream=sys.stderr)}  {thing}")
    hidden = len(steps) - limit
    if hidden > 0 and not state.verbose:
        talk(f"  … and {hidden} more (`-v` shows all)")
    if digest is not None:
        talk(style(f"plan {digest}", "dim", stream=sys.stderr))
