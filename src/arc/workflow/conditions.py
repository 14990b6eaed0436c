"""The condition language of edges: parse once, before the run starts; evaluate against outcome and context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from arc.base.json import JsonValue


@dataclass(frozen=True)
class Facts:
    """What a condition may ask about."""

    outcome: str
    preferred_label: str
    context: Mapping[str, JsonValue]


@dataclass(frozen=True)
class Condition:
    """A parsed condition; `text` as written."""

    text: str

    def evaluate(self, facts: Facts) -> bool:
        raise NotImplementedError
