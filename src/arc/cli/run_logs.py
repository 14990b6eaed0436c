"""`arc run logs`: the events of a run as they happened, or what one execution of a node printed."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from arc.base.errors import UsageError
from arc.cli import options, ui
from arc.cli.completion import complete_target
from arc.cli.findings import nearby
from arc.cli.run_view import open_run

if TYPE_CHECKING:
    from arc.runs.events import EventRecord
    from arc.runs.history.lookup import KnownRun

Node = Annotated[
    str | None, typer.Argument(metavar="[NODE|@N]", help="Show this execution's output instead", autocompletion=complete_target)
]
Stdout = Annotated[bool, typer.Option("--stdout", help="Of an execution: its standard output only")]
Stderr = Annotated[bool, typer.Option("--stderr", help="Of an execution: its error output only")]
Raw = Annotated[bool, typer.Option("--raw", help="The lines as they stand in events.jsonl")]

_POLL = 0.2


def command(
    run: options.Run, node: Node = None, follow: options.Follow = False, stdout: Stdout = False, stderr: Stderr = False, raw: Raw = False
) -> None:
    """Show a run's events, or what one node printed

    With `-f` new events are shown until the run ends, or its process does. `-v` shows all that an event says. With `--json` each event is
    one line.

    \b
    Examples:
      arc run logs 01JK
      arc run logs 01JK -f
      arc run logs 01JK build --stderr
      arc run logs 01JK @4
    """
    known = open_run(run)
    if node is not None:
        if follow:
            raise UsageError("`-f` follows a run's events; the output of one node is shown as it is", hints=(f"arc run logs {run} -f",))
        _show_output(known, node, stdout=stdout, stderr=stderr)
        return
    if stdout or stderr:
        raise UsageError("`--stdout` and `--stderr` are about one execution", hints=(f"arc run logs {run} NODE --stderr",))
    _show_events(known, follow=follow, raw=raw)


def _show_events(known: KnownRun, *, follow: bool, raw: bool) -> None:
    from arc.runs.history.tail import Tail
    from arc.runs.history.tail import follow as follow_run

    tail = Tail(known.need_folder("reading events").events_file)
    if not follow:
        for line in tail.lines():
            _show_line(line, raw=raw)
        if tail.unfinished:
            ui.note("the last line is not finished: it is being written, or a crash tore it")
        return
    for piece in follow_run(known, tail, wait=lambda: time.sleep(_POLL)):
        if isinstance(piece, list):
            for line in piece:
                _show_line(line, raw=raw)
        elif piece == "finished":
            ui.note(f"run {known.run_id} has ended: {_final_status(known)}")
        else:
            ui.warn(f"the process of run {known.run_id} has gone; the run is interrupted")
            ui.hint(f"arc run resume {known.run_id}")


def _final_status(known: KnownRun) -> str:
    assert known.folder is not None
    return known.folder.read_record().status.replace("_", " ")


def _show_line(line: bytes, *, raw: bool) -> None:
    from arc.runs.events import TORN
    from arc.runs.history.tail import decode_line

    if not line:
        return
    if raw:
        ui.raw(line + b"\n")
        return
    record = decode_line(line)
    if ui.state.json:
        if record.event == TORN:
            ui.json_line({"event": record.event, "properties": record.properties})
        else:
            ui.raw(line + b"\n")
    else:
        ui.out(_readable(record))


def _readable(record: EventRecord) -> str:
    """`19:54:12  node.completed  @3 build  success after 0.4s`."""
    from datetime import datetime

    from arc.cli.event_text import event_text, pairs_text
    from arc.cli.width import pad

    moment = datetime.fromisoformat(record.ts).astimezone().strftime("%H:%M:%S") if record.ts else "--:--:--"
    place = f"@{record.ordinal} {record.node}" if record.ordinal is not None and record.node else record.node or ""
    text = pairs_text(record.properties) if ui.state.verbose else nearby(event_text(record.event, record.properties))
    color = "red" if record.event.endswith((".failed", ".torn")) else "green" if record.event.endswith(".completed") else "cyan"
    name = ui.style(record.event.ljust(18), color)
    return f"{ui.style(moment, 'dim')}  {name}  {pad(ui.visible(place, newlines=False), 16)}  {text}".rstrip()


def _show_output(known: KnownRun, text: str, *, stdout: bool, stderr: bool) -> None:
    from arc.runs.history.output import NoOutputError, execution_folder, output_files

    folder = execution_folder(known, text)
    wanted = [name for name, on in (("stdout", stdout), ("stderr", stderr)) if on]
    files = output_files(folder, wanted)
    if ui.state.json:
        ui.json(
            {
                "run_id": known.run_id,
                "node_folder": str(folder),
                "files": {path.name: path.read_bytes().decode(errors="replace") for path in files},
            }
        )
        return
    if not files:
        raise NoOutputError(f"`{folder.name}` of run {known.run_id} left no {' or '.join(wanted) or 'output'}")
    for path in files:
        if len(files) > 1:
            ui.note(ui.style(f"==> {path.name} <==", "bold", stream=sys.stderr))
        data = path.read_bytes()
        ui.raw(data if data.endswith(b"\n") or not data else data + b"\n")
