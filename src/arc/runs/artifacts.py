"""Context values that are too large for `checkpoint.json`: kept once per content in `artifacts/`, referred to by hash, loaded back.

A reference is `{"$artifact": "artifacts/<sha256>.json", "bytes": N}`, relative to the run folder and to the root of the metadata
branch alike, so it means the same in every clone. The hash is that of the file's bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from arc.base.atomic import make_private_directory, sync_directory, write_atomic
from arc.base.faults import declare_faults, fault
from arc.base.json import JsonObject, JsonValue
from arc.runs.errors import ArtifactMissingError
from arc.workflow.outcome import Outcome
from arc.workflow.state import BranchState, FrameState, OpenBlock

LIMIT = 100 * 1024
"""A value whose JSON is longer than this many bytes is kept as an artifact."""

_REFERENCE = re.compile(r"artifacts/([0-9a-f]{64})\.json")

declare_faults({"artifacts.written": "an artifact's file is on the disk, no checkpoint refers to it yet"})

ValueMap = Callable[[JsonValue], JsonValue]


class ArtifactStore:
    """The `artifacts/` of one run folder. Blocks; used from one thread at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, value: JsonValue) -> JsonValue:
        """The value itself if it is small, else a reference to its (durably written) artifact.

        A small object that looks like a reference is kept as an artifact too, so that every `$artifact` in a checkpoint is one.
        """
        data = msgspec.json.encode(value)
        if len(data) <= LIMIT and not (isinstance(value, dict) and "$artifact" in value):
            return value
        name = f"{hashlib.sha256(data).hexdigest()}.json"
        path = self._directory / name
        if not path.exists():
            make_private_directory(self._directory)
            write_atomic(path, data)
            fault("artifacts.written")
        return {"$artifact": f"artifacts/{name}", "bytes": len(data)}

    def read(self, name: str) -> bytes | None:
        """The bytes of `artifacts/<sha256>.json`, None if it is not here."""
        try:
            return (self._directory.parent / name).read_bytes()
        except FileNotFoundError:
            return None

    def restore(self, files: dict[str, bytes]) -> None:
        """Write artifacts that came from Git (by name `artifacts/...`), those that are missing here."""
        for name, data in files.items():
            path = self._directory.parent / name
            if not path.exists():
                make_private_directory(self._directory)
                write_atomic(path, data, durable=False)
        if files:
            sync_directory(self._directory)


def references(frame: FrameState) -> frozenset[str]:
    """Names of all artifacts that a frame (stored form) refers to, those of its open block included."""
    found: set[str] = set()

    def note(value: JsonValue) -> JsonValue:
        if isinstance(value, dict) and isinstance(name := value.get("$artifact"), str):
            found.add(name)
        return value

    map_values(frame, note)
    return frozenset(found)


def load(frame: FrameState, read: Callable[[str], bytes | None]) -> FrameState:
    """The frame with every reference replaced by its value. Raises `ArtifactMissingError` (gone, or not what its name says)."""

    def value_of(value: JsonValue) -> JsonValue:
        if not (isinstance(value, dict) and "$artifact" in value):
            return value
        name = value["$artifact"]
        match = _REFERENCE.fullmatch(name) if isinstance(name, str) else None
        if match is None:
            raise ArtifactMissingError(f"`{name}` is not the name of an artifact")
        data = read(match[0])
        if data is None:
            raise ArtifactMissingError(
                f"`{match[0]}` holds a value of the context and is missing, in the run folder and in Git",
                hints=("fetch the metadata ref of the run from where it ran",),
            )
        if hashlib.sha256(data).hexdigest() != match[1]:
            raise ArtifactMissingError(f"`{match[0]}` is damaged: its content has another hash")
        loaded: JsonValue = msgspec.json.decode(data)
        return loaded

    return map_values(frame, value_of)


def map_values(frame: FrameState, change: ValueMap) -> FrameState:
    """The frame with `change` applied to each context value and each context update of its outcomes, in all frames inside it."""
    return replace(
        frame,
        context_values=_values(frame.context_values, change),
        node_outcomes={node: _outcome(outcome, change) for node, outcome in frame.node_outcomes.items()},
        open_block=None if frame.open_block is None else _block(frame.open_block, change),
    )


def _values(values: JsonObject, change: ValueMap) -> JsonObject:
    return {key: change(value) for key, value in values.items()}


def _outcome(outcome: Outcome, change: ValueMap) -> Outcome:
    return replace(outcome, context_updates=_values(outcome.context_updates, change))


def _block(block: OpenBlock, change: ValueMap) -> OpenBlock:
    branches: tuple[BranchState, ...] = tuple(replace(branch, frame=map_values(branch.frame, change)) for branch in block.branches)
    return replace(block, branches=branches, child=None if block.child is None else map_values(block.child, change))
