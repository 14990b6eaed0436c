"""The backend protocol: one prompt in, one reply out, working in a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from arc.base.json import JsonObject
from arc.sandbox.protocol import Sandbox


@dataclass(frozen=True)
class ModelChoice:
    """Which model a node asks for; None = the backend's own default. `reasoning_effort` is low, medium or high."""

    model: str | None = None
    provider: str | None = None
    reasoning_effort: str = "high"
    max_tokens: int | None = None
    backend: str | None = None


@dataclass(frozen=True)
class Exchange:
    """One finished prompt and reply of a thread."""

    node: str
    prompt: str
    response: str


@dataclass(frozen=True)
class AgentRequest:
    """One call of a backend.

    `node` is the node's path, `visit` and `attempt` count from 1. `tools` is False for `prompt` nodes (one model call,
    nothing may be changed). `preamble` is what the fidelity mode carries over from earlier nodes (may be empty).
    `thread` names the conversation to continue when fidelity is `full`, `history` is what was said in it in this process
    (a backend that keeps threads itself may ignore it). `ordinal` is the execution's ordinal.
    """

    node: str
    ordinal: int
    visit: int
    attempt: int
    prompt: str
    preamble: str = ""
    thread: str | None = None
    history: tuple[Exchange, ...] = ()
    tools: bool = True
    choice: ModelChoice = field(default_factory=ModelChoice)
    timeout: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Set for every program that is started to answer (`ARC_RUN_ID`, `ARC_NODE_ID`, ...)."""


@dataclass(frozen=True)
class Usage:
    """Tokens and cost of one call; fields as in the outcome JSON. `cost` in US dollars, None if unknown."""

    model: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None


@dataclass(frozen=True)
class AgentReply:
    """The reply's full text, and what it cost where the backend says so."""

    text: str
    usage: Usage | None = None


AgentEventSink = Callable[[str, JsonObject], None]
"""Receives (event name such as `agent.output`, properties); must not block."""


class Backend(Protocol):
    """Something that answers prompts. Raises `BackendError` (with a failure class) when it cannot."""

    @property
    def name(self) -> str: ...

    async def run(self, request: AgentRequest, sandbox: Sandbox, emit: AgentEventSink) -> AgentReply: ...
    async def close(self) -> None: ...
