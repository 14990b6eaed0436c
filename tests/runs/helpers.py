"""Worlds, folders and workflows for tests of the runs room."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from arc.base.json import JsonObject
from arc.runs.config import RunConfig
from arc.runs.records import RUN_SCHEMA, RunRecord
from arc.runs.resume import ResumeTarget, resume_run
from arc.runs.start import start_run
from arc.runs.store import RunFolder
from arc.runs.world import RunResult, StartRequest, World
from arc.workflow.engine.doors import Event

STEP = 'shape=parallelogram, script="'


def chain(**scripts: str) -> str:
    """A workflow of command nodes, one after the other."""
    nodes = "\n".join(f'  {name} [shape=parallelogram, script="{script}"]' for name, script in scripts.items())
    return f"digraph chain {{\n  start [shape=Mdiamond]\n  exit [shape=Msquare]\n{nodes}\n  start -> {' -> '.join(scripts)} -> exit\n}}\n"


def world_in(tmp_path: Path, environ: Mapping[str, str] | None = None) -> World:
    """A world with its home in the test's folder."""
    return World(home=tmp_path / "arc-home", environ={**os.environ, **(environ or {})})


def record(run_id: str, **changes: object) -> RunRecord:
    made = RunRecord(
        schema=RUN_SCHEMA,
        run_id=run_id,
        mode="in_place",
        status="running",
        workflow="w",
        workflow_file="w.dot",
        goal="",
        config=RunConfig(),
        start_directory="/",
        created_at="2026-01-01T00:00:00.000000Z",
        updated_at="2026-01-01T00:00:00.000000Z",
        arc_version="0",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@dataclass
class Events:
    """An event sink that keeps what it gets."""

    seen: list[Event] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        self.seen.append(event)

    def notices(self) -> list[str]:
        return [str(event.properties["code"]) for event in self.seen if event.name == "run.notice"]


@dataclass
class Told:
    """An observer of the lines of events.jsonl."""

    lines: list[JsonObject] = field(default_factory=list)

    def __call__(self, line: JsonObject) -> None:
        self.lines.append(line)

    def names(self) -> list[str]:
        return [str(line["event"]) for line in self.lines]

    def notices(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in self.lines:
            properties = line["properties"]
            if line["event"] == "run.notice" and isinstance(properties, dict):
                found[str(properties["code"])] = str(properties["message"])
        return found

    def ran(self) -> list[str]:
        return [str(line["node"]) for line in self.lines if line["event"] == "node.started"]


def start(source: Path, world: World, **changes: object) -> RunResult:
    request = replace(StartRequest(source=source, directory=source.parent), **changes)  # type: ignore[arg-type]
    return asyncio.run(start_run(request, world))


def resume(world: World, run: str | None = None, **target: object) -> RunResult:
    return asyncio.run(resume_run(ResumeTarget(run=run, **target), world))  # type: ignore[arg-type]


def folder_of(result: RunResult) -> RunFolder:
    return RunFolder(result.logs_dir, result.run_id)
