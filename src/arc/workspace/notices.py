"""Notices: what a workspace has to tell the person, as values; the room above writes them to stderr and to the events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Notice:
    """One thing to say. `code` is stable and dotted (`workspace.nested_repository`), `message` one sentence, `details` lines below it."""

    level: Literal["info", "warning"]
    code: str
    message: str
    details: tuple[str, ...] = ()


NoticeSink = Callable[[Notice], None]
"""Receives notices from any thread; must neither block nor raise."""
