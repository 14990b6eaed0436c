"""The routing object: JSON by which an agent's reply or a command's outcome file chooses the way and changes the context.

    {"outcome": "success", "preferred_next_label": "Approve", "suggested_next_ids": ["deploy"], "context_updates": {"risk": "low"}}

All keys are optional; `preferred_label` and `notes` (or `failure_reason`) are accepted too. Status words of both vocabularies are read.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from arc.base.json import JsonObject, JsonValue
from arc.workflow.outcome import STATUS_WORDS, Status

ROUTING_KEYS = frozenset({"preferred_next_label", "preferred_label", "suggested_next_ids", "context_updates", "outcome"})
RESERVED_PREFIXES = ("internal.", "graph.")
"""Context keys that belong to the engine; a routing object cannot set them."""

_LOOKED_AT = 262_144
_ATTEMPTS = 1_000
_MENTION = re.compile(r"""\{[^{}]*"(?:preferred_next_label|preferred_label|suggested_next_ids|context_updates|outcome)"\s*:""")


@dataclass(frozen=True)
class Routing:
    """What a routing object says. `problems`: parts of it that could not be used, one sentence each."""

    status: Status | None = None
    preferred_label: str | None = None
    suggested_next_ids: tuple[str, ...] = ()
    context_updates: JsonObject = field(default_factory=dict)
    notes: str = ""
    problems: tuple[str, ...] = ()


def routing_in_text(text: str) -> Routing:
    """The last JSON object in a text (bare or in a code fence) that has a routing key; an empty `Routing` if there is none.

    Only the last 256 KiB are looked at. A problem is reported only where the text plainly meant one.
    """
    tail = text[-_LOOKED_AT:]
    if not any(f'"{key}"' in tail for key in ROUTING_KEYS):
        return Routing()
    found: dict[str, JsonValue] | None = None
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    position, attempts = tail.find("{"), 0
    while position >= 0 and attempts < _ATTEMPTS:
        try:
            value, end = decoder.raw_decode(tail, position)
        except (ValueError, RecursionError):
            attempts += 1
            position = tail.find("{", position + 1)
            continue
        if isinstance(value, dict) and not ROUTING_KEYS.isdisjoint(value):
            found = value
        position = tail.find("{", end)
    if found is not None:
        return read_routing(found)
    if _MENTION.search(tail):
        return Routing(problems=("the reply has a routing object that is not valid JSON",))
    return Routing()


def read_routing(value: dict[str, JsonValue]) -> Routing:
    """Read the keys of a routing object; what has the wrong type is left out and reported in `problems`."""
    problems: list[str] = []
    label = value.get("preferred_next_label", value.get("preferred_label"))
    if label is not None and not isinstance(label, str):
        problems.append("`preferred_next_label` is not a string")
        label = None
    suggested = value.get("suggested_next_ids") or []
    if isinstance(suggested, str):
        suggested = [suggested]
    if not isinstance(suggested, list) or not all(isinstance(item, str) for item in suggested):
        problems.append("`suggested_next_ids` is not a list of strings")
        suggested = []
    notes = value.get("notes", value.get("failure_reason"))
    return Routing(
        status=_status(value.get("outcome"), problems),
        preferred_label=clean_text(label) if isinstance(label, str) and label.strip() else None,
        suggested_next_ids=tuple(str(item) for item in suggested),
        context_updates=_updates(value.get("context_updates"), problems),
        notes=clean_text(notes) if isinstance(notes, str) else "",
        problems=tuple(problems),
    )


def clean(value: JsonValue) -> JsonValue:
    """The value as state files can hold it: no lone surrogates, integers beyond 64 bits as text."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    return {clean_text(key): clean(item) for key, item in value.items()}


def clean_text(text: str) -> str:
    """Lone surrogates (from JSON escapes) replaced by U+FFFD: no file could hold them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if not text.isascii() else text


def _status(word: JsonValue, problems: list[str]) -> Status | None:
    if word is None:
        return None
    status = STATUS_WORDS.get(word.strip().lower()) if isinstance(word, str) else None
    if status is None:
        problems.append(f"`outcome` is {json.dumps(word)[:80]}, not one of {', '.join(sorted(STATUS_WORDS))}")
    return status


def _updates(value: JsonValue, problems: list[str]) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        problems.append("`context_updates` is not an object")
        return {}
    updates: JsonObject = {}
    for key, item in value.items():
        if key.startswith(RESERVED_PREFIXES):
            problems.append(f"the context key `{clean_text(key)}` belongs to the engine")
        else:
            updates[clean_text(key)] = clean(item)
    return updates


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is not JSON")
