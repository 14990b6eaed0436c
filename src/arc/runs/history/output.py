"""What executions of nodes printed: the folder of an execution, also of one that is running or was interrupted, and the files in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from arc.base.errors import NotFoundError
from arc.runs.events import read_events
from arc.runs.history.details import read_timeline
from arc.runs.history.lookup import KnownRun
from arc.runs.history.targets import NodeTarget, OrdinalTarget, Target, find_entry, parse_target
from arc.runs.store import RunFolder

KINDS = ("prompt", "response", "stdout", "stderr")


class NoOutputError(NotFoundError):
    """That execution left no output."""

    code = "logs.no_output"


@dataclass(frozen=True)
class _Execution:
    ordinal: int
    path: str
    visit: int


def execution_folder(run: KnownRun, text: str) -> Path:
    """The folder of the execution that a target means: `@N`, `NODE`, `NODE@VISIT`; it needs no checkpoint.

    Raises:
        TargetSyntaxError, TargetAmbiguous, TargetNotFound: as for any target. NoOutputError: it has no folder here. NoFolderError.
    """
    folder = run.need_folder("reading a node's output")
    target = parse_target(text)
    found = _begun(folder, target)
    if found is None:
        entry = find_entry(read_timeline(run), target)
        found = _Execution(entry.ordinal, entry.path, entry.visit)
    place = folder.node_folder(found.ordinal, found.path)
    if not place.is_dir():
        raise NoOutputError(f"@{found.ordinal} of run {run.run_id} has no folder in `{folder.nodes}`")
    return place


def output_files(folder: Path, kinds: Sequence[str] = ()) -> list[Path]:
    """The files of these kinds (default: all), in the order of `KINDS`, earlier attempts first; empty ones only if asked for by kind."""
    found = [path for kind in kinds or KINDS for path in sorted(folder.glob(f"{kind}*")) if path.is_file()]
    return [path for path in found if kinds or path.stat().st_size]


def _begun(folder: RunFolder, target: Target) -> _Execution | None:
    """The newest execution begun that fits; None where the timeline has to say (nothing fits, or several frames have that node)."""
    if not isinstance(target, OrdinalTarget | NodeTarget):
        return None
    begun = [
        _Execution(event.ordinal, event.node, visit if isinstance(visit := event.properties.get("visit"), int) else 0)
        for event in read_events(folder.events_file)
        if event.event == "node.started" and event.ordinal is not None and event.node is not None
    ]
    if isinstance(target, OrdinalTarget):
        return next((one for one in begun if one.ordinal == target.ordinal), None)
    fitting = [one for one in begun if one.path == target.path]
    if not fitting:
        fitting = [one for one in begun if one.path.rpartition("/")[2] == target.path]
        if len({one.path for one in fitting}) > 1:
            return None
    fitting = [one for one in fitting if target.visit in (None, one.visit)]
    return fitting[-1] if fitting else None
