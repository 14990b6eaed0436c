"""Events as sentences: what `arc run logs` says behind the time, the name and the place of each event of docs/events.md.

An event that is not known here (a newer arc wrote it) is shown by its properties; `-v` shows all of them so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from arc.base.json import JsonValue
from arc.cli.progress import first_line, seconds

Properties = Mapping[str, JsonValue]


def event_text(event: str, properties: Properties) -> str:
    """One line about an event, without control characters; empty if its name says all."""
    tell = TEXTS.get(event)
    if tell is None:
        return pairs_text(properties)
    return first_line(tell(properties), 160)


def pairs_text(properties: Properties) -> str:
    """All properties as `key=value`; those without a value are left out."""
    return " ".join(f"{key}={_value(value, 80)}" for key, value in properties.items() if value not in (None, "", [], {}))


def _value(value: JsonValue, limit: int = 100) -> str:
    if isinstance(value, str):
        return first_line(value, limit)
    import msgspec

    return first_line(msgspec.json.encode(value).decode(), limit)


def _get(properties: Properties, key: str) -> str:
    value = properties.get(key)
    return "" if value is None else _value(value)


def _time(properties: Properties, key: str = "duration_ms") -> str:
    value = properties.get(key)
    return seconds(value / 1000) if isinstance(value, int | float) else "?"


def _names(properties: Properties, key: str) -> str:
    value = properties.get(key)
    return ", ".join(_name(item) for item in value) if isinstance(value, list) else _get(properties, key)


def _name(item: JsonValue) -> str:
    if isinstance(item, dict):
        return f"[{item.get('key', '')}] {item.get('label', '')}"
    return _value(item)


def _status(properties: Properties) -> str:
    return _get(properties, "status").replace("_", " ")


def _some(words: str, value: str) -> str:
    """`words` with the value in place of `{}`, nothing where there is no value."""
    return words.replace("{}", value) if value else ""


def _attempts(properties: Properties) -> str:
    value = properties.get("attempts")
    return f" in {value} attempts" if isinstance(value, int) and value > 1 else ""


def _node_started(p: Properties) -> str:
    visit = p.get("visit")
    again = f", visit {visit}" if isinstance(visit, int) and visit > 1 else ""
    return f"{_get(p, 'type')}{again}{_some(', fidelity {}', _get(p, 'fidelity') if p.get('type') in ('agent', 'prompt') else '')}"


def _node_completed(p: Properties) -> str:
    usage = p.get("usage")
    tokens = f", {usage.get('input_tokens', 0)} + {usage.get('output_tokens', 0)} tokens" if isinstance(usage, dict) else ""
    return f"{_status(p)} after {_time(p)}{_attempts(p)}{_some(', → {}', _get(p, 'preferred_label'))}{tokens}"


def _node_failed(p: Properties) -> str:
    kind = _some(" ({})", _get(p, "failure_class"))
    return f"{_get(p, 'message') or 'failed'}{kind} after {_time(p)}{_attempts(p)}"


def _edge_selected(p: Properties) -> str:
    condition = _get(p, "condition")
    label = _get(p, "label")
    return f"→ {_get(p, 'target')}{_some(' [{}]', label)} ({_get(p, 'why').replace('_', ' ')}{_some(': {}', condition)})"


def _parallel_started(p: Properties) -> str:
    return f"branches {_names(p, 'branches')}; at most {_get(p, 'max_parallel')} at a time, {_get(p, 'join_policy')} at {_get(p, 'join')}"


def _parallel_completed(p: Properties) -> str:
    parts = [f"{key} {names}" for key in ("succeeded", "failed", "canceled") if (names := _names(p, key))]
    return f"{_status(p)}{_some(': {}', '; '.join(parts))}"


def _branch_completed(p: Properties) -> str:
    return f"{_get(p, 'branch')}: {_status(p)}{_some(', commit {}', _get(p, 'commit')[:8])}{_some(': {}', _get(p, 'reason'))}"


def _fan_in_merged(p: Properties) -> str:
    return f"merged {_names(p, 'merged') or 'nothing'}{_some('; set by several: {}', _names(p, 'overwritten'))}"


def _child_completed(p: Properties) -> str:
    return f"{_get(p, 'workflow')}, cycle {_get(p, 'cycle')}: {_status(p)}{_some(': {}', _get(p, 'reason'))}"


def _command_started(p: Properties) -> str:
    where = _get(p, "working_directory")
    limit = f", at most {_time(p, 'timeout_ms')}" if p.get("timeout_ms") is not None else ""
    return f"{_get(p, 'language')} script{_some(' in {}', where if where != '.' else '')}{limit}"


def _command_completed(p: Properties) -> str:
    if p.get("timed_out"):
        return f"timed out after {_time(p)}"
    signal = _get(p, "signal")
    ended = f"ended by {signal}" if signal else f"exit code {_get(p, 'exit_code')}"
    return f"{ended} after {_time(p)}"


def _agent_prompt(p: Properties) -> str:
    attempt = p.get("attempt")
    again = f", attempt {attempt}" if isinstance(attempt, int) and attempt > 1 else ""
    model, thread = _some(" ({})", _get(p, "model")), _some(", thread {}", _get(p, "thread"))
    return f"asks {_get(p, 'backend')}{model}, {_get(p, 'bytes')} bytes{thread}{again}"


def _human_asked(p: Properties) -> str:
    limit = f"; {_get(p, 'default') or 'no answer'} in {_time(p, 'timeout_ms')}" if p.get("timeout_ms") is not None else ""
    return f"{_get(p, 'question')} {_names(p, 'choices')}{' or any text' if p.get('freeform') else ''}{limit}"


def _human_answered(p: Properties) -> str:
    return f"`{_get(p, 'text')}` by {_get(p, 'source')}{_some(' is {}', _get(p, 'label'))}{_some(' → {}', _get(p, 'target'))}"


def _setup_completed(p: Properties) -> str:
    ended = f"timed out after {_time(p)}" if p.get("timed_out") else f"exit code {_get(p, 'exit_code')} after {_time(p)}"
    return f"{_get(p, 'number')}: {_get(p, 'command')}: {ended}"


def _checkpoint_saved(p: Properties) -> str:
    commit, metadata = _get(p, "commit"), _get(p, "metadata")
    return f"commit {commit[:8]}, state {metadata[:8]}" if commit else "on the disk"


TEXTS: Mapping[str, Callable[[Properties], str]] = {
    "run.started": lambda p: f"{_get(p, 'workflow')}{_some(': {}', _get(p, 'goal'))}{' (dry run)' if p.get('dry_run') else ''}",
    "run.resumed": lambda p: f"at {_get(p, 'next_node')} after checkpoint @{_get(p, 'checkpoint')}{_some(', it was {}', _get(p, 'was'))}",
    "run.completed": lambda p: f"{_status(p)} after {_time(p)}",
    "run.failed": lambda p: f"{_get(p, 'reason')}; after {_time(p)}",
    "run.canceled": lambda p: f"after {_time(p)}; it can be resumed",
    "run.notice": lambda p: f"{_get(p, 'level')}: {_get(p, 'message')}",
    "run.closed": _status,
    "node.started": _node_started,
    "node.completed": _node_completed,
    "node.failed": _node_failed,
    "node.retrying": lambda p: (
        f"attempt {_get(p, 'attempt')} of {_get(p, 'of')} failed: {_get(p, 'message')}; again in {_time(p, 'delay_ms')}"
    ),
    "edge.selected": _edge_selected,
    "loop.restarted": lambda p: f"starts afresh at {_get(p, 'target')}",
    "parallel.started": _parallel_started,
    "parallel.completed": _parallel_completed,
    "branch.started": lambda p: f"{_get(p, 'branch')} begins at {_get(p, 'target')}",
    "branch.completed": _branch_completed,
    "fan_in.merged": _fan_in_merged,
    "fan_in.conflict": lambda p: f"{_get(p, 'branch')} conflicts in {_names(p, 'paths')}; its work is in {_get(p, 'ref')}",
    "child.started": lambda p: f"{_get(p, 'workflow')}, cycle {_get(p, 'cycle')}",
    "child.completed": _child_completed,
    "stall.timeout": lambda p: f"nothing happened for {_time(p, 'idle_ms')} (at most {_time(p, 'limit_ms')})",
    "command.started": _command_started,
    "command.completed": _command_completed,
    "command.leftovers": lambda p: f"ended what the script left running: {_names(p, 'processes')}",
    "command.truncated": lambda p: f"{_get(p, 'stream')} has {_get(p, 'bytes')} bytes, the context keeps {_get(p, 'kept')}",
    "agent.prompt": _agent_prompt,
    "agent.reply": lambda p: f"{_get(p, 'backend')} answered after {_time(p)}, {_get(p, 'bytes')} bytes",
    "agent.output": lambda p: _get(p, "text") or pairs_text(p),
    "agent.edit": lambda p: _get(p, "path"),
    "agent.routing_ignored": lambda p: _get(p, "reason"),
    "human.asked": _human_asked,
    "human.answered": _human_answered,
    "human.rejected": lambda p: f"`{_get(p, 'text')}` by {_get(p, 'source')}: {_get(p, 'reason')}",
    "human.timeout": lambda p: f"nobody answered{_some('; {} is taken', _get(p, 'default'))}",
    "human.waiting": lambda p: f"{_get(p, 'text')} ({_names(p, 'choices')}); {_get(p, 'answer_with')}",
    "wait.started": lambda p: f"for {_time(p)}",
    "checkpoint.saved": _checkpoint_saved,
    "checkpoint.failed": lambda p: f"Git could not take it, the disk has it: {_get(p, 'cause')}",
    "setup.started": lambda p: f"{_get(p, 'number')}: {_get(p, 'command')}",
    "setup.completed": _setup_completed,
    "hook.completed": lambda p: f"{_get(p, 'hook')}: {_get(p, 'command')}: {_get(p, 'ended')}",
    "log.torn": lambda p: f"{_get(p, 'bytes')} bytes that are no event: {_get(p, 'begins')}",
}
"""Event -> what its properties say. tests/cli/test_event_text.py holds it against docs/events.md."""
