"""Values that the shell completes: runs with age and workflow, targets of a run. Read from local files only, in milliseconds.

Only the standard library is used, and whatever is unreadable is left out: a completion never fails on the terminal.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import typer

LIMIT = 100
"""Most runs offered, and most executions of one, the newest."""


def _runs() -> Path:
    return Path(os.environ.get("ARC_HOME") or Path.home() / ".arc") / "runs"


def _read(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def folder_of(run_id: str) -> Path:
    """The run's folder; a run started with `--logs-dir` is registered by a file that points there."""
    folder = _runs() / run_id
    pointer = _read(folder / "location.json").get("logs_dir")
    return Path(pointer) if isinstance(pointer, str) else folder


def age(since: str, now: datetime) -> str:
    """How long ago, in one unit: `5s`, `12m`, `3h`, `4d`."""
    try:
        seconds = (now - datetime.fromisoformat(since)).total_seconds()
    except ValueError:
        return ""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def _run_ids() -> list[str]:
    try:
        return sorted((entry.name for entry in os.scandir(_runs()) if entry.is_dir()), reverse=True)
    except OSError:
        return []


def complete_run(incomplete: str) -> Iterator[tuple[str, str]]:
    """Run ids that begin like this, newest first, with age, workflow and status."""
    now = datetime.now(UTC)
    for run_id in [name for name in _run_ids() if name.startswith(incomplete)][:LIMIT]:
        record = _read(folder_of(run_id) / "run.json")
        words = [age(str(record.get("created_at", "")), now), record.get("workflow", ""), record.get("status", "")]
        yield run_id, " ".join(str(word) for word in words if word)


def complete_target(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """`@N` and nodes of the run named before, from its node folders."""
    prefix = str(ctx.params.get("run") or "").upper()
    matching = [name for name in _run_ids() if name.startswith(prefix)] if prefix else []
    if len(matching) != 1:
        return
    offered = set()
    for ordinal, node in _executions(folder_of(matching[0])):
        for target, help_text in ((f"@{ordinal}", node), (node, f"@{ordinal}")):
            if target and target not in offered and target.startswith(incomplete):
                offered.add(target)
                yield target, help_text


def _executions(folder: Path) -> list[tuple[int, str]]:
    """(ordinal, node's path) in order; a folder's name is not the path, its `status.json` says it (empty where there is none yet)."""
    try:
        names = os.listdir(folder / "nodes")
    except OSError:
        return []
    numbered = sorted((int(number), name) for name in names if (number := name.partition("-")[0]).isdigit())
    return [(ordinal, str(_read(folder / "nodes" / name / "status.json").get("node") or "")) for ordinal, name in numbered[-LIMIT:]]


def complete_words(*words: str) -> Callable[[str], list[str]]:
    """Completes one of a few fixed words."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]
