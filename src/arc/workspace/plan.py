"""The plan: what a return to a state would do, as one value for every kind of workspace (DESIGN: "One model")."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

Action = Literal["restore", "delete", "mode", "kind"]
"""restore: content is written; delete: the path goes; mode: only permissions change; kind: file <-> link <-> directory."""


@dataclass(frozen=True)
class Step:
    """One path of a plan. `now` and `then` are content hashes (with mode) of the present and the wanted state; None = absent."""

    path: bytes
    action: Action
    now: str | None
    then: str | None


@dataclass(frozen=True)
class Conflict:
    """A path that is no longer what arc last saw; it is skipped unless the person says otherwise."""

    path: bytes
    reason: str


@dataclass(frozen=True)
class Gap:
    """Something that could not be captured and so cannot be brought back."""

    path: bytes
    reason: str


@dataclass(frozen=True)
class Plan:
    """Steps sorted by path, conflicts, coverage gaps. What is applied is the plan that was shown: compare `digest`."""

    target: str
    steps: tuple[Step, ...]
    conflicts: tuple[Conflict, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def digest(self) -> str:
        """32 hex digits over target, paths, actions and both hashes of every step, and over conflicts and gaps."""
        whole = hashlib.sha256()
        for part in (
            self.target.encode(),
            *(b"\0".join((s.path, s.action.encode(), (s.now or "-").encode(), (s.then or "-").encode())) for s in self.steps),
            *(b"conflict\0" + c.path + b"\0" + c.reason.encode() for c in self.conflicts),
            *(b"gap\0" + g.path + b"\0" + g.reason.encode() for g in self.gaps),
        ):
            whole.update(len(part).to_bytes(8, "big") + part)
        return whole.hexdigest()[:32]
