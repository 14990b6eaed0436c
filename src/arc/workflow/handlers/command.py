"""The `command` node: runs a script in the workspace and reports its end.

`language=shell` runs `sh -c SCRIPT` (POSIX), `language=python` runs `python3 -c SCRIPT`; both programs are found through the `PATH`
that the commands of the run have, so a virtual environment that is active there is used.

A script may choose the way and set context values by writing a routing object (`arc.workflow.handlers.routing`) to the file
`$ARC_OUTCOME_FILE`. Its output is never searched for anything.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from arc.base.json import JsonObject
from arc.sandbox.errors import SandboxError, SandboxPathError
from arc.sandbox.protocol import Command, CommandResult, Stream
from arc.workflow.engine.doors import NodeCall
from arc.workflow.failures import HandlerError, classify_command
from arc.workflow.handlers.capture import CONTEXT_LIMIT, Capture
from arc.workflow.handlers.event_names import COMMAND_COMPLETED, COMMAND_LEFTOVERS, COMMAND_STARTED, COMMAND_TRUNCATED
from arc.workflow.handlers.routing import Routing, read_routing
from arc.workflow.outcome import Failure, Outcome, Status

SCRIPT_LIMIT = 120_000
"""Bytes of a script: the kernel takes no longer argument (128 KiB on Linux)."""

_OUTCOME_LIMIT = 1_000_000


class CommandHandler:
    """Handler of `command` nodes. `limit` bytes of each output go into the context."""

    def __init__(self, *, limit: int = CONTEXT_LIMIT) -> None:
        self._limit = limit

    async def run(self, call: NodeCall) -> Outcome:
        node = call.node
        if not node.script.strip():
            raise HandlerError(f"the command node `{node.id}` has no `script`", failure_class="structural")
        if len(node.script.encode()) > SCRIPT_LIMIT:
            raise HandlerError(
                f"the script of `{node.id}` is longer than {SCRIPT_LIMIT} bytes",
                failure_class="structural",
                hints=("put it into a file of the repository and call that",),
            )
        if call.services.dry_run:
            return Outcome("success", notes="dry run: not executed")
        outcome_file = call.log.directory / f"outcome.{call.attempt}.json"
        command = Command(
            argv=interpreter(node.language, node.script),
            cwd=node.working_directory,
            environment={**node_environment(call), "ARC_OUTCOME_FILE": str(outcome_file), **node.environment},
            timeout=None if node.timeout_ms is None else node.timeout_ms / 1000,
        )
        captured: dict[Stream, Capture] = {"stdout": Capture(self._limit), "stderr": Capture(self._limit)}
        call.emit(COMMAND_STARTED, {"language": node.language, "working_directory": node.working_directory, "timeout_ms": node.timeout_ms})
        result = await call.sandbox.run(command, _recorder(call, captured))
        _report(call, result, captured)
        routing, broken = await _outcome_file(call, outcome_file)
        return _outcome(call, result, captured, routing, broken)


def interpreter(language: Literal["shell", "python"], script: str) -> tuple[str, ...]:
    """The argv that runs a script."""
    return ("sh", "-c", script) if language == "shell" else ("python3", "-c", script)


def node_environment(call: NodeCall) -> dict[str, str]:
    """What a program started for a node learns about the run. (`ARC_INPUT_<NAME>`, for each input, is in the run's own environment.)"""
    return {
        "ARC_RUN_ID": call.services.run_id,
        "ARC_GOAL": call.workflow.goal.replace("\0", ""),
        "ARC_NODE_ID": call.node.id,
        "ARC_NODE_PATH": call.path,
        "ARC_ORDINAL": str(call.ordinal),
        "ARC_VISIT": str(call.visit),
        "ARC_ATTEMPT": str(call.attempt),
    }


def _recorder(call: NodeCall, captured: dict[Stream, Capture]) -> Callable[[Stream, bytes], None]:
    def record(stream: Stream, data: bytes) -> None:
        call.log.output(stream, data)
        captured[stream].add(data)

    return record


def _report(call: NodeCall, result: CommandResult, captured: dict[Stream, Capture]) -> None:
    for stream, capture in captured.items():
        if capture.truncated:
            call.emit(COMMAND_TRUNCATED, {"stream": stream, "bytes": capture.total, "kept": capture.kept})
    if result.leftovers:
        call.emit(COMMAND_LEFTOVERS, {"processes": list(result.leftovers)})
    call.emit(
        COMMAND_COMPLETED,
        {"exit_code": result.exit_code, "signal": result.signal, "timed_out": result.timed_out, "duration_ms": result.duration_ms},
    )


async def _outcome_file(call: NodeCall, path: Path) -> tuple[Routing, Failure | None]:
    """What the script wrote to its outcome file. The file is removed: what counts of it is in the outcome, redacted."""
    try:
        data = await call.sandbox.read(str(path))
    except SandboxPathError:
        return Routing(), None
    except SandboxError as error:
        return Routing(), Failure(f"the outcome file cannot be read: {error.message}", "transient_infra")
    await asyncio.to_thread(path.unlink, missing_ok=True)
    if not data.strip():
        return Routing(), None
    if len(data) > _OUTCOME_LIMIT:
        return Routing(), Failure(f"the outcome file has {len(data)} bytes; at most {_OUTCOME_LIMIT} are read")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        return Routing(), Failure(f"the outcome file is not valid JSON: {error}")
    if not isinstance(value, dict):
        return Routing(), Failure("the outcome file does not hold a JSON object")
    routing = read_routing(value)
    return routing, Failure(f"the outcome file cannot be used: {'; '.join(routing.problems)}") if routing.problems else None


def _outcome(call: NodeCall, result: CommandResult, captured: dict[Stream, Capture], routing: Routing, broken: Failure | None) -> Outcome:
    stdout = captured["stdout"].text()
    updates: JsonObject = {
        **routing.context_updates,
        "command.output": stdout,
        "command.stderr": captured["stderr"].text(),
        "command.exit_code": result.exit_code,
        f"response.{call.node.id}": stdout,
    }
    failure = classify_command(result) or broken
    status: Status = "fail" if failure is not None else routing.status or "success"
    if status == "fail" and failure is None:
        failure = Failure(routing.notes or "the script says so in its outcome file")
    return Outcome(
        status,
        preferred_label=routing.preferred_label,
        suggested_next_ids=routing.suggested_next_ids,
        context_updates=updates,
        notes=routing.notes,
        failure=failure,
    )
