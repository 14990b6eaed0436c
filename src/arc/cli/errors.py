"""How an error looks: lines on stderr, or one JSON object there in `--json` mode; and what a bug leaves behind.

    error: no run begins with `01JX`
      details, one line each

    hint: arc run list

In `--json` mode stdout stays empty and stderr is `{"error": {"code", "message", "details", "hints", "status"}}`, also for a wrong
command line.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import arc
from arc.base.errors import ArcError, ExitStatus, UsageError
from arc.cli import ui
from arc.cli.commands import COMMANDS, RUN_COMMANDS
from arc.cli.findings import finding_document, finding_lines, near, nearby

if TYPE_CHECKING:
    from typer import TyperException

    from arc.base.redact import Redactor
    from arc.workflow.values import Diagnostic


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` was given, also on a command line that could not be parsed."""
    words = list(arguments)
    return ui.state.json or "--json" in (words[: words.index("--")] if "--" in words else words)


def error_document(error: ArcError) -> dict[str, object]:
    """The JSON form of an error; that of a workflow has its findings too."""
    inner: dict[str, object] = {
        "code": error.code,
        "message": error.message,
        "details": list(error.details),
        "hints": list(error.hints),
        "status": int(error.status),
    }
    found = _findings(error)
    if found:
        inner["diagnostics"] = [finding_document(finding) for finding in found]
    return {"error": inner}


def show_error(error: ArcError, arguments: Sequence[str]) -> int:
    """Show an error on stderr; returns its exit status."""
    if wants_json(arguments):
        _talk_json(error_document(error))
        return int(error.status)
    found = _findings(error)
    if found:
        _show_findings(found)
    else:
        _talk("error:", "red", nearby(error.message))
        for detail in error.details:
            for line in detail.splitlines() or [""]:
                ui.talk(f"  {nearby(line)}")
        if error.hints:
            ui.talk("")
        for hint in error.hints:
            _talk("hint:", "cyan", hint)
    if ui.state.debug:
        import traceback

        ui.talk("")
        ui.talk("".join(traceback.format_exception(error)).rstrip())
    return int(error.status)


def _talk_json(document: dict[str, object]) -> None:
    import json

    ui.talk(json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _talk(word: str, color: str, text: str) -> None:
    ui.say(word, (color, "bold") if word == "error:" else (color,), text)


def _findings(error: ArcError) -> list[Diagnostic]:
    """The errors of a workflow (a `WorkflowError`, whose module is not imported to ask)."""
    found: tuple[Diagnostic, ...] = getattr(error, "diagnostics", ())
    return [finding for finding in found if finding.severity == "error"] or list(found)


def _show_findings(found: Sequence[Diagnostic]) -> None:
    """One finding is the error itself; several are told with their number first, each with its own excerpt and hint."""
    blocks = [finding_lines(finding, stream=sys.stderr) for finding in found]
    if len(blocks) == 1:
        first, *rest = blocks[0]
        _talk("error:", "red", first)
        hints = [line for line in rest if line.startswith("hint: ")]
        for line in rest:
            if line not in hints:
                ui.talk(line)
        for line in hints:
            ui.talk("")
            _talk("hint:", "cyan", line.removeprefix("hint: "))
        return
    _talk("error:", "red", f"`{near(found[0].position.file)}` has {len(found)} errors")
    for lines in blocks:
        ui.talk("")
        for line in lines:
            if line.startswith("hint: "):
                _talk("hint:", "cyan", line.removeprefix("hint: "))
            else:
                ui.talk(line)


def show_usage(error: TyperException, arguments: Sequence[str]) -> int:
    """Show a wrong command line in the same form; exit status 2. A group without a command shows its help."""
    context = getattr(error, "ctx", None)
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError" and not wants_json(arguments):
        ui.talk(message)
        return ExitStatus.USAGE
    if type(error).__name__ == "NoArgsIsHelpError":
        message = "a command is missing"
    path = context.command_path if context is not None else _command_path(arguments)
    message, _, suggestion = message.rstrip(".?").partition(". Did you mean ")
    message, options = _possible_options(message)
    suggestion = suggestion.replace("'", "`") or options
    hints = [f"did you mean {suggestion}?"] if suggestion else []
    hints.append(f"`{path} --help` shows how to use it")
    text = " ".join(message.replace("'", "`").split())
    if type(error).__name__ == "MissingParameter" and getattr(getattr(error, "param", None), "name", "") == "run":
        from arc.cli.which_run import WANTED, meant

        if path in WANTED:
            text, hints = WANTED[path][0], [*meant(path), *hints]
    for pattern, plain in _PLAINER:
        text = pattern.sub(plain, text)
    return show_error(UsageError(text[:1].lower() + text[1:], hints=tuple(hints)), arguments)


_PLAINER = (
    (re.compile(r"^Got unexpected extra argument(?:\(s\)|s)? \((.*)\)$"), r"unexpected argument `\1`"),
    (re.compile(r"^No such option: (\S+)$"), r"no such option `\1`"),
)
"""typer's sentences -> ours, where they are not one."""


def _command_path(arguments: Sequence[str]) -> str:
    """The command that the words name, where typer does not say: `arc run start`."""
    words = [word for word in arguments if not word.startswith("-")]
    if words[:1] == ["run"]:
        return " ".join(("arc run", *(word for word in words[1:2] if word in RUN_COMMANDS)))
    return " ".join(("arc", *(word for word in words[:1] if word in COMMANDS)))


def _possible_options(message: str) -> tuple[str, str]:
    """(message, suggestion): typer puts the close options into the sentence."""
    found = re.fullmatch(r"(.*) \((?:Did you mean|Possible options:) ([^)]*)\)", message, re.DOTALL)
    if found is None:
        return message, ""
    return found.group(1), " or ".join(f"`{word.strip()}`" for word in found.group(2).split(","))


def show_bug(error: BaseException, arguments: Sequence[str]) -> int:
    """Write a report of an unexpected exception and name it in one line; the traceback itself only with `--debug`."""
    import traceback

    redactor, words = _without_secrets(arguments)
    text = redactor.text("".join(traceback.format_exception(error)))
    report = _write_report(text, redactor.text(" ".join(words)))
    where = f"a report is in `{report}`" if report else "the report could not be written; `--debug` shows it"
    bug = ArcError(
        redactor.text(f"arc met a bug: {type(error).__name__}: {error}".rstrip(": ")),
        details=(where,),
        hints=("run it again with `--debug` to see the traceback",),
    )
    if ui.state.debug:
        bug.hints = ()
        ui.talk(text.rstrip())
    if wants_json(arguments):
        _talk_json({"error": {**_inner(bug), "code": "internal", "status": int(ExitStatus.INTERNAL)}})
    else:
        show_error(bug, arguments) if not ui.state.debug else ui.talk(f"{bug.message}\n  {where}")
    return ExitStatus.INTERNAL


def _inner(error: ArcError) -> dict[str, object]:
    inner = error_document(error)["error"]
    assert isinstance(inner, dict)
    return inner


def _without_secrets(arguments: Sequence[str]) -> tuple[Redactor, list[str]]:
    """What knows the secrets of the environment and of the command line's `KEY=VALUE`, and the words without the latter, however short."""
    from arc.base.redact import Redactor, names_a_secret

    found: dict[str, str] = {}
    words = []
    for word in arguments:
        head, equals, value = word.partition("=")
        if head.startswith("--") and "=" in value:  # --input=KEY=VALUE
            option, (head, equals, value) = f"{head}=", value.partition("=")
        elif head.startswith("-i") and len(head) > 2:  # -iKEY=VALUE
            option, head = "-i", head[2:]
        else:
            option = ""
        if equals and names_a_secret(head.lstrip("-")):
            found[head] = value
            word = f"{option}{head}=«redacted:{head}»"
        words.append(word)
    return Redactor.from_environment({**found, **os.environ}), words


def _write_report(text: str, words: str) -> Path | None:
    """The report: versions, the command's words, the traceback without locals; both texts come redacted."""
    import platform
    from datetime import UTC, datetime

    folder = Path(os.environ.get("ARC_HOME") or Path.home() / ".arc") / "reports"
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    about = f"arc {arc.__version__}, Python {platform.python_version()}, {platform.platform()}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"{moment}-{os.getpid()}.txt"
        path.write_text(f"{about}\ncommand: arc {words}\n\n{text}", "utf-8", errors="backslashreplace")
    except OSError:
        return None
    return path
