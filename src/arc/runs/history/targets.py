"""Targets: how a person names a checkpoint of a run (`@7`, `@last`, `build`, `build@2`, `fan:left/build`).

Grammar (a target is one command-line word):

    target := "@" digits | "@last" | path | path "@" digits | path "@last"

`@N` is the ordinal of an execution; `@0` is the state the run started from. A path is a node's path: its id, with the frames it lies in
before it (`review/lint`, `fan:left/build`). Without a visit the latest one is meant. Parsing knows nothing of any run; finding does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from arc.base.errors import NotFoundError, UsageError
from arc.runs.history.timeline import Timeline, TimelineEntry

_MAX_LISTED = 20


class TargetSyntaxError(UsageError):
    """The text is no target."""

    code = "target.syntax"


class TargetAmbiguous(UsageError):
    """A bare node id that exists in several frames."""

    code = "target.ambiguous"


class TargetNotFound(NotFoundError):
    """The run has no such checkpoint."""

    code = "target.not_found"


@dataclass(frozen=True)
class OrdinalTarget:
    """`@N`: the checkpoint taken after the execution with this ordinal; 0 is the start."""

    ordinal: int

    def __str__(self) -> str:
        return f"@{self.ordinal}"


@dataclass(frozen=True)
class LastTarget:
    """`@last`: the newest checkpoint (the start if there is none yet)."""

    def __str__(self) -> str:
        return "@last"


@dataclass(frozen=True)
class NodeTarget:
    """`PATH` or `PATH@VISIT`: a node's latest visit (`visit` None), or its visit of that number, counted from 1."""

    path: str
    visit: int | None = None

    def __str__(self) -> str:
        return self.path if self.visit is None else f"{self.path}@{self.visit}"


Target: TypeAlias = OrdinalTarget | LastTarget | NodeTarget

_FORMS = ("a target is `@N` (an ordinal), `@last`, `NODE` or `NODE@VISIT`",)


def parse_target(text: str) -> Target:
    """Read a target.

    Raises:
        TargetSyntaxError: empty, control characters, `@` followed by something else than a number or `last`, a visit of 0.
    """
    if not text or text != text.strip() or any(ord(character) < 32 for character in text):
        raise TargetSyntaxError(f"`{text}` is not a target", hints=_FORMS)
    path, at, suffix = text.rpartition("@")
    if not at:
        return NodeTarget(text)
    number = int(suffix) if re.fullmatch(r"[0-9]{1,9}", suffix) else None
    if not path:
        if suffix == "last":
            return LastTarget()
        if number is None:
            raise TargetSyntaxError(f"`{text}` is not a target: `@` is followed by a number or `last`", hints=_FORMS)
        return OrdinalTarget(number)
    if suffix == "last":
        return NodeTarget(path)
    if number is None:
        return NodeTarget(text) if suffix else _bad_visit(text)
    if number == 0:
        raise TargetSyntaxError(f"`{text}` names visit 0, but visits count from 1", hints=_FORMS)
    return NodeTarget(path, number)


def _bad_visit(text: str) -> NodeTarget:
    raise TargetSyntaxError(f"`{text}` ends with `@` but names no visit", hints=_FORMS)


def find_entry(timeline: Timeline, target: Target) -> TimelineEntry:
    """The checkpoint that a target means in this run.

    Raises:
        TargetNotFound: no such checkpoint; says what is nearest and what exists.
        TargetAmbiguous: a bare id that lies in several frames; lists their paths.
    """
    if isinstance(target, LastTarget):
        return timeline.entries[-1] if timeline.entries else timeline.start
    if isinstance(target, OrdinalTarget):
        if target.ordinal == 0:
            return timeline.start
        for entry in timeline.entries:
            if entry.ordinal == target.ordinal:
                return entry
        raise TargetNotFound(
            f"run {timeline.run_id} has no checkpoint `{target}`",
            details=_what_exists(timeline),
            hints=_see_all(timeline),
        )
    return _find_node(timeline, target)


def find_text(timeline: Timeline, text: str) -> TimelineEntry:
    """`parse_target`, then `find_entry`."""
    return find_entry(timeline, parse_target(text))


def _find_node(timeline: Timeline, target: NodeTarget) -> TimelineEntry:
    matches = [entry for entry in timeline.entries if entry.path == target.path]
    if not matches:
        matches = [entry for entry in timeline.entries if entry.node == target.path]
        paths = sorted({entry.path for entry in matches})
        if len(paths) > 1:
            raise TargetAmbiguous(f"`{target.path}` ran in several frames of run {timeline.run_id}", details=tuple(paths))
    if not matches:
        raise TargetNotFound(
            f"run {timeline.run_id} has no checkpoint of a node `{target.path}`",
            details=_what_exists(timeline),
            hints=(*_nearest(target.path, timeline.entries), *_see_all(timeline)),
        )
    if target.visit is None:
        return matches[-1]
    visits = [entry for entry in matches if entry.visit == target.visit]
    if not visits:
        known = ", ".join(str(visit) for visit in sorted({entry.visit for entry in matches}))
        raise TargetNotFound(
            f"run {timeline.run_id} has no visit {target.visit} of `{matches[0].path}` (it has {known})",
            hints=_see_all(timeline),
        )
    return visits[-1]


def _nearest(path: str, entries: Sequence[TimelineEntry]) -> tuple[str, ...]:
    return closest(path, {entry.path for entry in entries} | {entry.node for entry in entries})


def closest(word: str, names: Iterable[str]) -> tuple[str, ...]:
    """A hint that names the (at most three) names most like a word; none if nothing is like it."""
    from rapidfuzz import fuzz, process  # for this message only

    found = process.extract(word, sorted(names), scorer=fuzz.ratio, limit=3, score_cutoff=55)
    return ("did you mean " + " or ".join(f"`{name}`" for name, _, _ in found) + "?",) if found else ()


def _what_exists(timeline: Timeline) -> tuple[str, ...]:
    shown = timeline.entries[-_MAX_LISTED:]
    skipped = len(timeline.entries) - len(shown)
    lines = ["@0 (start)", *(f"@{entry.ordinal} {entry.path}" + (f"@{entry.visit}" if entry.visit > 1 else "") for entry in shown)]
    if skipped:
        lines.insert(1, f"... {skipped} more")
    return tuple(lines)


def _see_all(timeline: Timeline) -> tuple[str, ...]:
    return (f"arc run show {timeline.run_id}",)
