"""Replies of agent programs that print JSON: the text, and what the call cost.

Read are one object, a list of objects, or one object a line (of several, the last one that holds the part looked for):

| part | where it is looked for |
|---|---|
| text | `result` (Claude Code), `response` (Gemini CLI), `item.text` of an `agent_message` (Codex) |
| failure | `is_error` true, or an `error` (text, or an object with a `message`) |
| tokens | `usage`: `input_tokens`, `output_tokens`, `cache_read_input_tokens` or `cached_input_tokens`, `cache_creation_input_tokens` |
| cost | `total_cost_usd` |
| model | `model` |
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from arc.agent.errors import BackendError
from arc.agent.protocol import AgentReply, Usage
from arc.base.json import JsonObject, JsonValue

_SHOWN = 400


def read_json_reply(text: str, program: str) -> AgentReply:
    """The reply that `program` printed as JSON.

    Raises:
        BackendError: it is not JSON, holds no text, or says that the call failed.
    """
    found = list(_objects(text))
    reply: str | None = None
    failure: str | None = None
    for each in found:
        said = _text(each)
        reply = said if said is not None else reply
        wrong = _failure(each)
        failure = wrong if wrong is not None or said is not None else failure  # an answer after an error takes it back
    if failure is not None:
        raise BackendError(f"`{program}` says that it failed: {failure[:_SHOWN]}")
    if reply is None:
        what = "JSON without a reply in it" if found else "no JSON"
        raise BackendError(
            f"`{program}` printed {what}, but [model] reply is `json`",
            failure_class="structural",
            hints=('let the program print JSON (`claude -p --output-format json`), or set [model] reply = "text"',),
        )
    return AgentReply(reply, _usage(found))


def _objects(text: str) -> Iterator[JsonObject]:
    whole = _parsed(text)
    parts = whole if isinstance(whole, list) else [whole] if whole is not None else [_parsed(line) for line in text.splitlines()]
    return (part for part in parts if isinstance(part, dict))


def _parsed(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _text(each: JsonObject) -> str | None:
    for key in ("result", "response"):
        value = each.get(key)
        if isinstance(value, str):
            return value
    item = each.get("item")
    if isinstance(item, dict) and item.get("type") == "agent_message" and isinstance(item.get("text"), str):
        return str(item["text"])
    return None


def _failure(each: JsonObject) -> str | None:
    error = each.get("error")
    if isinstance(error, dict):
        error = error.get("message", json.dumps(error))
    if error is not None and error is not False and error != "":
        return str(error)
    return (_text(each) or str(each.get("subtype", "no reason is given"))) if each.get("is_error") is True else None


def _usage(found: list[JsonObject]) -> Usage | None:
    """Tokens and cost of the last objects that have them; None if nothing is said."""
    tokens = next((each["usage"] for each in reversed(found) if isinstance(each.get("usage"), dict)), None)
    cost = next((each["total_cost_usd"] for each in reversed(found) if _is_number(each.get("total_cost_usd"))), None)
    model = next((each["model"] for each in reversed(found) if isinstance(each.get("model"), str)), None)
    if tokens is None and cost is None:
        return None
    counts = tokens if isinstance(tokens, dict) else {}
    return Usage(
        model=model if isinstance(model, str) else None,
        input_tokens=_count(counts, "input_tokens"),
        output_tokens=_count(counts, "output_tokens"),
        cache_read_tokens=_count(counts, "cache_read_input_tokens", "cached_input_tokens"),
        cache_write_tokens=_count(counts, "cache_creation_input_tokens"),
        reasoning_tokens=_count(counts, "reasoning_output_tokens"),
        cost=float(cost) if isinstance(cost, int | float) else None,
    )


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(counts: JsonObject, *names: str) -> int:
    for name in names:
        value = counts.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return max(value, 0)
    return 0
