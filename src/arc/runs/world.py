"""What the faces hand to this room: home, clock, ids, environment, and the doors to the person. Built once by the CLI."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from arc.base.clock import Clock, Ids, SystemClock, SystemIds
from arc.base.json import JsonObject
from arc.runs.config import ModelConfig
from arc.workflow.state import RunStatus

if TYPE_CHECKING:
    from arc.workflow.engine.doors import Interviewer

EventObserver = Callable[[JsonObject], None]
"""Receives each line of events.jsonl as it is written (with ts, run_id, sequence, event, node, ordinal, properties)."""


@dataclass(frozen=True)
class World:
    """`home` is `~/.arc` or `$ARC_HOME`; `environ` the process environment that commands inherit from."""

    home: Path
    environ: Mapping[str, str]
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=SystemIds)
    observer: EventObserver | None = None
    console: Interviewer | None = None
    """Asks at the terminal; None where there is none (answers then come through `arc run answer`)."""

    @property
    def runs(self) -> Path:
        """The folder of all run folders."""
        return self.home / "runs"


@dataclass(frozen=True)
class StartRequest:
    """`arc run start`. `source` is a `.dot` file or a run TOML; the rest overrides what configuration files say (None = not given)."""

    source: Path
    directory: Path
    goal: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    model: ModelConfig = field(default_factory=ModelConfig)
    logs_dir: Path | None = None
    dry_run: bool = False
    auto_approve: bool = False
    snapshot_dirty: bool = False


@dataclass(frozen=True)
class RunResult:
    """How `start`, `resume` ended: the run's status and where to look."""

    run_id: str
    status: RunStatus
    logs_dir: Path
    run_branch: str | None
    failure: str | None
    kept_worktree: Path | None = None
    notices: tuple[str, ...] = ()
    executed: bool = True
    """False: there was nothing to resume, the run had finished before; `notices` say so."""
