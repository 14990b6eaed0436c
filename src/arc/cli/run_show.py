"""`arc run show`: a run and its checkpoints, or the whole state at one of them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from arc.base.errors import NotFoundError
from arc.cli import options, ui
from arc.cli.run_view import (
    CHECKPOINT_COLUMNS,
    change_document,
    change_line,
    checkpoint_rows,
    count,
    duration_text,
    entry_document,
    local_time,
    open_run,
    show_fields,
    status_text,
)
from arc.cli.table import show_table
from arc.cli.width import cut

if TYPE_CHECKING:
    from arc.base.json import JsonObject, JsonValue
    from arc.runs.history.details import CheckpointDetails
    from arc.runs.history.lookup import KnownRun
    from arc.runs.history.timeline import Timeline

Context = Annotated[str | None, typer.Option("--context", metavar="KEY", help="Print this value of the context whole, as JSON")]
_VALUE_WIDTH = 100


class ContextKeyNotFound(NotFoundError):
    """The context has no such key."""

    code = "context.not_found"


def command(run: options.Run, target: options.OptionalTarget = None, context: Context = None) -> None:
    """Show a run, or one of its checkpoints

    Without TARGET: what the run is, how to go on, and its checkpoints. With one: the outcome, the context, the files that changed and
    where the node's output is. Only the two refs of a run are needed, so it works in a clone that fetched them.

    \b
    Examples:
      arc run show 01JK
      arc run show 01JK @3
      arc run show 01JK build@2 --context command.output
      arc run show 01JK --json
    """
    from arc.runs.history.details import describe_checkpoint, read_timeline
    from arc.runs.history.targets import find_text

    known = open_run(run)
    timeline = read_timeline(known)
    if target is None and context is None:
        _show_run(known, timeline)
        return
    details = describe_checkpoint(known, timeline, find_text(timeline, target or "@last"))
    if context is not None:
        _show_value(known, details, context)
    elif ui.state.json:
        ui.json(_checkpoint_document(known, details))
    else:
        _show_checkpoint(known, details)


def _show_run(known: KnownRun, timeline: Timeline) -> None:
    from arc.runs.history.details import count_changed, next_command

    repository = known.repository
    files = {} if repository is None else {entry.ordinal: count_changed(repository, entry) for entry in timeline.entries}
    if ui.state.json:
        ui.json(_run_document(known, timeline, files))
        return
    show_fields(_header(known, timeline))
    ui.out("")
    rows, styles = checkpoint_rows(timeline, files)
    show_table(CHECKPOINT_COLUMNS, rows, styles)
    ui.out("")
    ui.out(f"{ui.style('next:', 'cyan')} {next_command(known)}")


def _header(known: KnownRun, timeline: Timeline) -> list[tuple[str, str]]:
    from arc.base.paths import tilde
    from arc.runs.history.details import side_refs

    record = known.record
    last = timeline.last
    lines = [("run", ui.style(known.run_id, "bold")), ("status", status_text(known.status))]
    if record.failure:
        lines.append(("failure", record.failure))
    lines.append(("workflow", f"{record.workflow}  ({record.workflow_file})" if record.workflow_file else record.workflow))
    if record.goal:
        lines.append(("goal", " ".join(record.goal.split())))
    lines.append(("started", local_time(record.created_at)))
    if record.run_branch:
        lines.append(("branch", f"{record.run_branch}  from {(record.base_sha or '')[:9]}"))
        lines.append(("metadata", record.metadata_ref or ""))
    else:
        lines.append(("mode", {"in_place": "in place, checkpoints on disk only", "dry_run": "dry run"}.get(record.mode, record.mode)))
    if record.forked_from:
        lines.append(("forked", f"from {record.forked_from}"))
    if record.superseded_by:
        lines.append(("superseded", f"by {record.superseded_by}"))
    for key, value in record.labels.items():
        lines.append(("label", f"{key}={value}"))
    lines.append(("folder", tilde(known.folder.path, os.environ) if known.folder else "(none here: known by its refs)"))
    if known.folder is not None and known.folder.worktree.is_dir():
        lines.append(("worktree", tilde(known.folder.worktree, os.environ)))
    if known.folder is not None and (owner := known.folder.holder()) is not None:
        lines.append(("process", str(owner)))
    for name in side_refs(known):
        lines.append(("set aside" if name.startswith("refs/arc-aside/") else "unmerged", name.removeprefix("refs/heads/")))
    if last.next_node and known.status not in ("success", "partial_success"):
        lines.append(("next node", last.next_node))
    return lines


def _run_document(known: KnownRun, timeline: Timeline, files: dict[int, int]) -> JsonObject:
    import msgspec

    from arc.base.json import encode
    from arc.runs.history.details import next_command, side_refs

    record: JsonObject = msgspec.json.decode(encode(known.record))
    return {
        **record,
        "status": known.status,
        "logs_dir": str(known.folder.path) if known.folder else None,
        "next_command": next_command(known),
        "side_refs": list(side_refs(known)),
        "start": entry_document(timeline.start),
        "checkpoints": [entry_document(entry, files.get(entry.ordinal, 0)) for entry in timeline.entries],
    }


def _show_checkpoint(known: KnownRun, details: CheckpointDetails) -> None:
    from arc.base.paths import tilde
    from arc.runs.history.states import frame_of

    entry, state = details.entry, details.state
    lines = [
        ("run", known.run_id if entry.run_id == known.run_id else f"{known.run_id}  (taken by {entry.run_id})"),
        ("checkpoint", ui.style(f"@{entry.ordinal}", "bold") + (f"  {entry.path}" if entry.path else "  (start)")),
        ("taken", local_time(entry.timestamp)),
    ]
    frame = frame_of(state, entry.frame)
    if entry.path:
        visit = f"visit {entry.visit}, {count(entry.attempts, 'attempt')}, {duration_text(entry.duration_ms) or 'time unknown'}"
        lines.append(("outcome", f"{status_text(entry.status)}  ({visit})"))
        outcome = frame.node_outcomes.get(entry.node) if frame else None
        if outcome is not None and outcome.failure is not None:
            lines.append(("failure", outcome.failure.message))
        if outcome is not None and outcome.preferred_label:
            lines.append(("label", outcome.preferred_label))
        if outcome is not None and outcome.notes:
            lines.append(("notes", " ".join(outcome.notes.split())[:_VALUE_WIDTH]))
    next_node = frame.next_node_id if frame else state.next_node_id
    lines.append(("next node", f"{entry.frame}{next_node}" if next_node else "(none)"))
    lines.append(("commit", entry.commit or "(none)"))
    lines.append(("metadata", entry.metadata or "(none)"))
    if details.node_folder is not None:
        lines.append(("output", tilde(details.node_folder, os.environ)))
    show_fields(lines)
    _show_context(frame.context_values if frame else state.context_values)
    if details.changes:
        ui.out(f"\n{ui.style('files', 'bold')}")
        for change in details.changes:
            ui.out(f"  {change_line(change)}")
    ui.out(f"\n{ui.style('next:', 'cyan')} arc run fork {known.run_id} @{entry.ordinal}{'' if entry.commit else ' --state-only'}")


def _show_context(values: JsonObject) -> None:
    keys = sorted(key for key in values if ui.state.verbose or not key.startswith("internal."))
    if not keys:
        return
    ui.out(f"\n{ui.style('context', 'bold')}")
    width = min(max(map(len, keys)), 32)
    for key in keys:
        room = max(20, ui.terminal_width() - max(width, len(key)) - 4) if sys.stdout.isatty() else _VALUE_WIDTH
        ui.out(f"  {key.ljust(width)}  {_cut(values[key], room)}".rstrip())
    if len(keys) < len(values):
        ui.out(ui.style(f"  and {len(values) - len(keys)} of arc's own (`-v` shows them)", "dim"))


def _cut(value: JsonValue, room: int) -> str:
    import msgspec

    if isinstance(value, dict) and "$artifact" in value:
        return f"({value['$artifact']}, {value.get('bytes')} bytes)"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    line = " ".join(text.split())
    return cut(line, room)


def _checkpoint_document(known: KnownRun, details: CheckpointDetails) -> JsonObject:
    import msgspec

    from arc.base.json import encode

    state: JsonObject = msgspec.json.decode(encode(details.state))
    return {
        "run_id": known.run_id,
        **entry_document(details.entry, len(details.changes)),
        "files": [change_document(change) for change in details.changes],
        "node_folder": str(details.node_folder) if details.node_folder else None,
        "checkpoint": state,
    }


def _show_value(known: KnownRun, details: CheckpointDetails, key: str) -> None:
    import msgspec

    from arc.runs.history.states import frame_of, whole_value

    frame = frame_of(details.state, details.entry.frame)
    values = frame.context_values if frame else details.state.context_values
    if key not in values:
        from arc.runs.history.targets import closest

        raise ContextKeyNotFound(f"the context of @{details.entry.ordinal} has no `{key}`", hints=closest(key, values))
    value = whole_value(known, details.entry, values[key])
    if ui.state.json or not isinstance(value, str):
        ui.out(msgspec.json.format(msgspec.json.encode(value), indent=1).decode())
    else:
        ui.value(value)
