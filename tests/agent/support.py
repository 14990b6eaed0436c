"""What the backends' tests share: one call of a backend in a real sandbox."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from arc.agent.protocol import AgentReply, AgentRequest, Backend
from arc.base.json import JsonObject
from arc.sandbox.local import LocalSandboxes

REQUEST = AgentRequest(node="plan", ordinal=1, visit=1, attempt=1, prompt="Plan it")


def ask(backend: Backend, directory: Path, told: list[tuple[str, JsonObject]] | None = None, **changes: Any) -> AgentReply:
    """Ask the backend in `directory`; `told` collects what it emits."""

    async def scenario() -> AgentReply:
        sandbox = await LocalSandboxes(os.environ).open(directory)
        events = [] if told is None else told
        try:
            return await backend.run(replace(REQUEST, **changes), sandbox, lambda name, properties: events.append((name, properties)))
        finally:
            await sandbox.close()
            await backend.close()

    return asyncio.run(scenario(), debug=True)
