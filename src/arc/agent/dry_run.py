"""The backend of `--dry-run`: answers every prompt with a sentence that says that nothing was asked. Used for nothing else."""

from __future__ import annotations

from arc.agent.protocol import AgentEventSink, AgentReply, AgentRequest
from arc.sandbox.protocol import Sandbox


class DryRunBackend:
    """Calls no model and changes no file."""

    name = "dry-run"

    async def run(self, request: AgentRequest, sandbox: Sandbox, emit: AgentEventSink) -> AgentReply:
        return AgentReply(f"[dry run] `{request.node}` was not asked: no model was called and no file was changed.")

    async def close(self) -> None:
        """Nothing to end."""
