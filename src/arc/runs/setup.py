"""`[setup]`: shell commands that prepare a fresh worktree before the first node.

They run once per worktree: a resume repeats them only where a new worktree had to be made, since what they prepare (`.venv`,
`node_modules`) is mostly ignored by Git and went with the old one. Output goes to `nodes/0000-setup/`.
"""

from __future__ import annotations

from arc.base.atomic import write_atomic
from arc.base.faults import declare_faults, fault
from arc.base.json import JsonObject, encode
from arc.runs.errors import SetupError
from arc.runs.live import LiveRun
from arc.runs.nodelogs import FolderNodeLogs
from arc.sandbox.protocol import Command
from arc.workflow.engine.doors import Event
from arc.workspace.protocol import Workspace

declare_faults(
    {
        "setup.begin": "the worktree is there, no setup command has run",
        "setup.command": "a setup command has ended",
        "setup.done": "all setup commands have ended well and that is noted",
    }
)


def setup_needed(live: LiveRun, *, fresh: bool) -> bool:
    """Whether setup commands must run: some are configured, and they have not all ended in this worktree."""
    marker = live.folder.setup_file
    if fresh:
        marker.unlink(missing_ok=True)
    return bool(live.config.setup.commands) and live.record.mode != "dry_run" and not marker.exists()


async def run_setup(live: LiveRun, workspace: Workspace) -> None:
    """Run them in order, stopping at the first that fails.

    Raises:
        SetupError: names the command and how it ended.
    """
    fault("setup.begin")
    sandbox = await workspace.sandbox()
    log = FolderNodeLogs(live.folder, live.redactor, live.events).open(0, "setup")
    try:
        for number, text in enumerate(live.config.setup.commands, 1):
            live.events.emit(Event("setup.started", properties={"number": number, "command": text}))
            timeout = live.config.setup.timeout_ms / 1000
            result = await sandbox.run(Command(("/bin/sh", "-c", text), timeout=timeout), log.output)
            ended: JsonObject = {"number": number, "command": text, "exit_code": result.exit_code, "duration_ms": result.duration_ms}
            live.events.emit(Event("setup.completed", properties={**ended, "timed_out": result.timed_out}))
            fault("setup.command")
            if not result.ok:
                how = (
                    f"did not end within {timeout:g} s"
                    if result.timed_out
                    else f"was killed by signal {result.signal}"
                    if result.signal is not None
                    else f"ended with status {result.exit_code}"
                )
                raise SetupError(
                    f"the setup command `{live.redactor.text(text)}` {how}; no node has run",
                    hints=(f"its output is in `{log.directory}`", f"when it is mended: `arc run resume {live.run_id}`"),
                )
    finally:
        log.close()
    write_atomic(live.folder.setup_file, encode({"schema": 1, "commands": len(live.config.setup.commands)}))
    fault("setup.done")
