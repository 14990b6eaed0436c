"""The `agent` and `prompt` nodes: one prompt to a backend, its reply into the context, its routing object into the outcome.

An `agent` may change files; a `prompt` node is one question without tools. Nothing is ever simulated: without a backend the node fails
(and `models_needed` lets a run refuse to start); only `--dry-run` answers by `DryRunBackend`.
"""

from __future__ import annotations

import asyncio

from arc.agent.dry_run import DryRunBackend
from arc.agent.protocol import AgentEventSink, AgentReply, AgentRequest, Backend, Exchange, Usage
from arc.base.json import JsonObject, JsonValue
from arc.workflow.engine.doors import NodeCall
from arc.workflow.failures import HandlerError
from arc.workflow.handlers.command import node_environment
from arc.workflow.handlers.event_names import AGENT_OUTPUT, AGENT_PROMPT, AGENT_REPLY, AGENT_ROUTING_IGNORED
from arc.workflow.handlers.routing import Routing, routing_in_text
from arc.workflow.model import Node, Workflow
from arc.workflow.outcome import Failure, Outcome, Status
from arc.workflow.shorten import shortened

LAST_RESPONSE_LENGTH = 200
"""Characters of the reply in the context key `last_response`; `response.<node>` has all of it."""

_EVENT_TEXT = 4_000
_LARGE_REPLY = 20_000


class AgentHandler:
    """Handler of `agent` nodes (`tools=True`) and `prompt` nodes (`tools=False`)."""

    def __init__(self, *, tools: bool) -> None:
        self._tools = tools

    async def run(self, call: NodeCall) -> Outcome:
        backend = _backend(call)
        request = _request(call, tools=self._tools)
        call.log.prompt(_asked(request))
        call.emit(
            AGENT_PROMPT,
            {
                "backend": backend.name,
                "model": request.choice.model,
                "thread": request.thread,
                "attempt": request.attempt,
                "bytes": len(request.prompt.encode("utf-8", "replace")),
            },
        )
        started = call.services.clock.monotonic()
        reply = await backend.run(request, call.sandbox, _event_sink(call))
        call.log.response(reply.text)
        call.emit(
            AGENT_REPLY,
            {
                "backend": backend.name,
                "bytes": len(reply.text.encode("utf-8", "replace")),
                "duration_ms": round((call.services.clock.monotonic() - started) * 1000),
                "usage": _shown_usage(reply.usage),
            },
        )
        _remember(call, request, reply)
        if len(reply.text) > _LARGE_REPLY:
            routing = await asyncio.to_thread(routing_in_text, reply.text)
        else:
            routing = routing_in_text(reply.text)
        for problem in routing.problems:
            call.emit(AGENT_ROUTING_IGNORED, {"reason": problem})
        return _outcome(call.node, reply, routing)


def models_needed(workflow: Workflow) -> tuple[Node, ...]:
    """The nodes that ask a backend, those of child workflows included: a run without one must not start."""
    found: list[Node] = []
    for node in workflow.nodes.values():
        if node.asks_model:
            found.append(node)
        if node.child is not None:
            found.extend(models_needed(node.child))
    return tuple(found)


def _backend(call: NodeCall) -> Backend:
    services = call.services
    if services.dry_run:
        return DryRunBackend()
    name = call.node.choice.backend or services.default_backend
    if name is None:
        raise HandlerError(
            f"the node `{call.node.id}` needs a model, but no backend is configured",
            failure_class="structural",
            hints=('configure one in arc.toml: [model] backend = "cli", command = ["claude", "-p"]',),
        )
    if name not in services.backends:
        known = ", ".join(f"`{name}`" for name in sorted(services.backends)) or "none"
        raise HandlerError(f"the node `{call.node.id}` asks for the backend `{name}`; configured: {known}", failure_class="structural")
    return services.backends[name]


def _request(call: NodeCall, *, tools: bool) -> AgentRequest:
    continued = call.thread if call.context.get("internal.fidelity") == "full" else None
    node = call.node
    return AgentRequest(
        node=call.path,
        ordinal=call.ordinal,
        visit=call.visit,
        attempt=call.attempt,
        prompt=node.prompt or node.label or node.id,
        preamble=call.preamble,
        thread=continued,
        history=call.threads.history(continued),
        tools=tools,
        choice=node.choice,
        timeout=None if node.timeout_ms is None else node.timeout_ms / 1000,
        environment=node_environment(call),
    )


def _asked(request: AgentRequest) -> str:
    return "\n\n".join(part for part in (request.preamble, request.prompt) if part)


def _remember(call: NodeCall, request: AgentRequest, reply: AgentReply) -> None:
    """Add the exchange, with all that was told, to the node's thread, and to the thread named after the node, which the next node continues
    if no other is named."""
    exchange = Exchange(call.node.id, _asked(request), reply.text)
    if call.thread is not None:
        call.threads.append(call.thread, exchange)
    if call.thread != call.node.id:
        known = call.threads.history(call.node.id)
        for earlier in (*request.history, exchange):
            if earlier not in known:
                call.threads.append(call.node.id, earlier)


def _event_sink(call: NodeCall) -> AgentEventSink:
    """What a backend tells: output goes to the node's log in full, and shortened to the events."""

    def emit(name: str, properties: JsonObject) -> None:
        stream, text = properties.get("stream"), properties.get("text")
        if name == AGENT_OUTPUT and isinstance(text, str):
            if not text:
                return
            call.log.output("stderr" if stream == "stderr" else "stdout", text.encode("utf-8", "replace"))
            properties = {**properties, "text": shortened(text, _EVENT_TEXT)}
        call.emit(name, properties)

    return emit


def _outcome(node: Node, reply: AgentReply, routing: Routing) -> Outcome:
    status: Status = routing.status or "success"
    updates: JsonObject = {
        **routing.context_updates,
        f"response.{node.id}": reply.text,
        "last_response": reply.text[:LAST_RESPONSE_LENGTH],
    }
    return Outcome(
        status,
        preferred_label=routing.preferred_label,
        suggested_next_ids=routing.suggested_next_ids,
        context_updates=updates,
        notes=routing.notes,
        failure=Failure(routing.notes or f"the agent of `{node.id}` says that it failed") if status == "fail" else None,
        usage=reply.usage,
    )


def _shown_usage(usage: Usage | None) -> JsonValue:
    if usage is None:
        return None
    return {
        "model": usage.model,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost": usage.cost,
    }
