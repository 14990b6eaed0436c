"""`[[hooks]]`: shell commands of the run configuration around nodes, run in the node's sandbox.

A hook gets `ARC_RUN_ID`, `ARC_NODE`, `ARC_NODE_PATH`, `ARC_NODE_TYPE`, `ARC_ORDINAL`, `ARC_HOOK` in its environment and a JSON object on
stdin (before: node and context; after: node and outcome). Exit statuses of a `before_node` hook: 0 the node runs, 2 it is blocked and
fails with the hook's stderr as reason, 3 it is skipped (it gets a checkpoint as skipped). Any other end is a notice and the node runs.
An `after_node` hook can change nothing; an end other than 0 is a notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from arc.base.json import JsonObject, JsonValue, encode_line
from arc.runs.config import HookConfig
from arc.runs.events import notice
from arc.sandbox.protocol import Command, CommandResult, Sandbox, Stream
from arc.workflow.engine.doors import Event, EventSink, HookVerdict
from arc.workflow.model import Node
from arc.workflow.outcome import Outcome

BLOCK = 2
SKIP = 3
_OUTPUT_LIMIT = 16_384


class ConfiguredHooks:
    """Runs the configured hooks in the order of the configuration (the engine's `Hooks`)."""

    def __init__(self, hooks: Sequence[HookConfig], *, run_id: str, events: EventSink) -> None:
        self._hooks = tuple(hooks)
        self._run_id = run_id
        self._events = events

    async def before_node(self, node: Node, path: str, ordinal: int, sandbox: Sandbox, context: Mapping[str, JsonValue]) -> HookVerdict:
        """The first hook that blocks or skips decides; the rest is not run."""
        facts: JsonObject = {"node": node.id, "path": path, "ordinal": ordinal, "type": node.type, "context": dict(context)}
        for hook in self._matching("before_node", node):
            result, said = await self._run(hook, node, path, ordinal, sandbox, facts)
            if result.exit_code == BLOCK and not result.timed_out:
                return HookVerdict(
                    "block", f"the hook `{hook.command}` blocked it: {said}" if said else f"the hook `{hook.command}` blocked it"
                )
            if result.exit_code == SKIP and not result.timed_out:
                return HookVerdict(
                    "skip", f"the hook `{hook.command}` skipped it: {said}" if said else f"the hook `{hook.command}` skipped it"
                )
        return HookVerdict()

    async def after_node(self, node: Node, path: str, ordinal: int, sandbox: Sandbox, outcome: Outcome) -> None:
        """Run them all; none can change the outcome."""
        built: JsonValue = msgspec.to_builtins(outcome)
        facts: JsonObject = {"node": node.id, "path": path, "ordinal": ordinal, "type": node.type, "outcome": built}
        for hook in self._matching("after_node", node):
            await self._run(hook, node, path, ordinal, sandbox, facts)

    def _matching(self, event: str, node: Node) -> tuple[HookConfig, ...]:
        return tuple(hook for hook in self._hooks if hook.event == event and (not hook.nodes or node.id in hook.nodes))

    async def _run(
        self, hook: HookConfig, node: Node, path: str, ordinal: int, sandbox: Sandbox, facts: JsonObject
    ) -> tuple[CommandResult, str]:
        """Run one hook; returns how it ended and the end of what it wrote to stderr."""
        said = bytearray()

        def output(stream: Stream, data: bytes) -> None:
            if stream == "stderr":
                said.extend(data)
                del said[:-_OUTPUT_LIMIT]

        result = await sandbox.run(
            Command(
                ("/bin/sh", "-c", hook.command),
                environment={
                    "ARC_RUN_ID": self._run_id,
                    "ARC_HOOK": hook.event,
                    "ARC_NODE": node.id,
                    "ARC_NODE_PATH": path,
                    "ARC_NODE_TYPE": node.type,
                    "ARC_ORDINAL": str(ordinal),
                },
                stdin=encode_line(facts),
                timeout=hook.timeout_ms / 1000,
            ),
            output,
        )
        text = said.decode("utf-8", "replace").strip()
        ending = _ending(result)
        self._events.emit(Event("hook.completed", path, ordinal, {"hook": hook.event, "command": hook.command, "ended": ending}))
        if not result.ok and not (hook.event == "before_node" and result.exit_code in (BLOCK, SKIP) and not result.timed_out):
            message = f"the {hook.event} hook `{hook.command}` {ending}; the run goes on"
            self._events.emit(notice("warning", "hook.failed", message, tuple(text.splitlines()[-5:]), node=path))
        return result, text


def _ending(result: CommandResult) -> str:
    if result.timed_out:
        return "did not end in time and was killed"
    if result.signal is not None:
        return f"was killed by signal {result.signal}"
    return f"ended with status {result.exit_code}"
