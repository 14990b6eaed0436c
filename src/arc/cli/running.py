"""Runs the engine for a command: progress, questions, signals, and the exit status of how it ended.

Signals: the first Ctrl-C (or SIGTERM) cancels the run, which stops its commands, keeps what is saved and can be resumed; the second one
skips the grace that commands get to stop; the third ends the process at once. Exit status 130 or 143 then.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from arc.base.errors import ExitStatus
from arc.cli import options, ui
from arc.cli.progress import Progress
from arc.cli.result import GOOD, show_result

if TYPE_CHECKING:
    from arc.runs.world import RunResult, World


class _Stop:
    """Counts the signals and acts on each."""

    def __init__(self, task: asyncio.Task[RunResult], progress: Progress) -> None:
        self.task = task
        self.progress = progress
        self.number: int | None = None
        self._count = 0

    def __call__(self, number: int) -> None:
        self._count += 1
        self.number = number
        with self.progress.suspended():
            if self._count == 1:
                ui.talk("stopping after the checkpoint… (once more: now)")
            elif self._count == 2:
                ui.talk("stopping now")
            else:
                os._exit(128 + number)
        self.task.cancel()


def execute(start: Callable[[World], Awaitable[RunResult]]) -> int:
    """Run `start` in an event loop with progress and signals, then tell how it ended; returns the exit status."""
    progress = Progress()
    world = replace(options.world(), observer=progress.observe)
    if ui.is_interactive():
        from arc.cli.console import Console

        world = replace(world, console=Console(progress))
    before = world.clock.monotonic()
    try:
        result, stopped = asyncio.run(_supervise(start, world, progress))
    finally:
        progress.close()
    if result is None and progress.run_id is not None:
        result = _canceled(progress.run_id, world)
    if result is not None:
        show_result(result, world.clock.monotonic() - before)
    if stopped is not None:
        return 128 + stopped
    return ExitStatus.OK if result is not None and result.status in GOOD else ExitStatus.FAILED


def _canceled(run_id: str, world: World) -> RunResult:
    """How a run that a signal stopped stands."""
    from arc.runs.store import find_run
    from arc.runs.world import RunResult

    folder = find_run(world, run_id)
    record = folder.read_record()
    return RunResult(run_id, "canceled", folder.path, record.run_branch, None)


async def _supervise(
    start: Callable[[World], Awaitable[RunResult]], world: World, progress: Progress
) -> tuple[RunResult | None, int | None]:
    async def main() -> RunResult:
        return await start(world)

    task = asyncio.create_task(main())
    stop = _Stop(task, progress)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task, stop.number
    except asyncio.CancelledError:
        if stop.number is None:
            raise
        return None, stop.number
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
