"""Agent and prompt nodes: what is asked, what is logged, how a reply routes, and that nothing is ever simulated."""

from __future__ import annotations

import pytest

from arc.agent.protocol import AgentEventSink, AgentReply, AgentRequest, Usage
from arc.agent.scripted_backend import ScriptedBackend
from arc.sandbox.protocol import Sandbox
from arc.workflow.failures import HandlerError
from arc.workflow.handlers.agent import models_needed
from tests.workflow.engine.support import workflow
from tests.workflow.handlers.support import Bench

AGENT = 'start -> n -> exit\n n [prompt="Plan it"]'


class Echo:
    """Answers with a fixed text and keeps the requests."""

    name = "echo"

    def __init__(self, reply: str = "done", usage: Usage | None = None) -> None:
        self.reply = AgentReply(reply, usage)
        self.requests: list[AgentRequest] = []

    async def run(self, request: AgentRequest, sandbox: Sandbox, emit: AgentEventSink) -> AgentReply:
        self.requests.append(request)
        emit("agent.output", {"stream": "stderr", "text": "thinking\n"})
        return self.reply

    async def close(self) -> None: ...


def asked(bench: Bench, backend: Echo) -> Bench:
    bench.backends, bench.default_backend = {backend.name: backend}, backend.name
    return bench


def test_the_request_and_what_is_kept_of_the_reply(bench: Bench) -> None:
    backend = Echo("x" * 300, Usage(model="m", input_tokens=5, cost=0.25))
    outcome = asked(bench, backend).run(AGENT, preamble="Goal: g", visit=2, attempt=3)
    (request,) = backend.requests
    assert (request.node, request.ordinal, request.visit, request.attempt) == ("n", 7, 2, 3)
    assert (request.prompt, request.preamble, request.tools, request.thread) == ("Plan it", "Goal: g", True, None)
    assert request.environment["ARC_NODE_ID"] == "n"
    assert outcome.status == "success"
    assert outcome.context_updates == {"response.n": "x" * 300, "last_response": "x" * 200}
    assert outcome.usage == Usage(model="m", input_tokens=5, cost=0.25)
    assert bench.log.prompts == ["Goal: g\n\nPlan it"]
    assert bench.log.responses == ["x" * 300]
    assert bench.log.streams["stderr"] == b"thinking\n"
    assert [event.name for event in bench.events] == ["agent.prompt", "agent.output", "agent.reply"]


def test_a_prompt_node_has_no_tools(bench: Bench) -> None:
    backend = Echo()
    asked(bench, backend).run('start -> n -> exit\n n [shape=tab, prompt="Why?"]')
    assert backend.requests[0].tools is False


def test_a_reply_can_route(bench: Bench) -> None:
    reply = 'Fine.\n```json\n{"preferred_next_label": "Ship", "context_updates": {"risk": "low"}}\n```\n'
    outcome = asked(bench, Echo(reply)).run(AGENT)
    assert (outcome.status, outcome.preferred_label, outcome.context_updates["risk"]) == ("success", "Ship", "low")


def test_a_reply_can_say_that_it_failed(bench: Bench) -> None:
    outcome = asked(bench, Echo('{"outcome": "failed", "failure_reason": "no access"}')).run(AGENT)
    assert outcome.status == "fail"
    assert outcome.failure is not None
    assert (outcome.failure.message, outcome.failure.failure_class) == ("no access", "deterministic")


def test_broken_routing_is_a_notice_not_a_failure(bench: Bench) -> None:
    outcome = asked(bench, Echo('{"outcome": "fail",, }')).run(AGENT)
    assert outcome.status == "success"
    assert bench.named("agent.routing_ignored") == [{"reason": "the reply has a routing object that is not valid JSON"}]


def test_without_a_backend_it_fails_and_simulates_nothing(bench: Bench) -> None:
    with pytest.raises(HandlerError, match="needs a model, but no backend is configured") as caught:
        bench.run(AGENT)
    assert caught.value.failure_class == "structural"
    assert bench.log.responses == []


def test_an_unknown_backend_is_named(bench: Bench) -> None:
    with pytest.raises(HandlerError, match="asks for the backend `api`; configured: `echo`"):
        asked(bench, Echo()).run('start -> n -> exit\n n [prompt="x", backend="api"]')


def test_a_dry_run_says_so_in_the_reply(bench: Bench) -> None:
    bench.dry_run = True
    backend = Echo()
    outcome = asked(bench, backend).run(AGENT)
    assert backend.requests == []
    assert str(outcome.context_updates["response.n"]).startswith("[dry run] `n` was not asked")


def test_full_fidelity_continues_the_conversation_of_its_thread(bench: Bench) -> None:
    backend = Echo("first reply")
    flow = 'start -> n -> m -> exit\n n [prompt="one"]\n m [prompt="two"]'
    asked(bench, backend).run(flow, "n", thread="t", context={"internal.fidelity": "full"})
    bench.run(flow, "m", thread="t", context={"internal.fidelity": "full"})
    assert [exchange.prompt for exchange in backend.requests[1].history] == ["one"]
    assert backend.requests[1].thread == "t"
    bench.run(flow, "m", thread="t", context={"internal.fidelity": "compact"})
    assert (backend.requests[2].thread, backend.requests[2].history) == (None, ())


def test_a_thread_named_after_the_previous_node_continues_what_that_node_said(bench: Bench) -> None:
    backend = Echo("reply")
    flow = 'start -> a -> b -> c -> exit\n a [prompt="one"]\n b [prompt="two"]\n c [prompt="three"]'
    full = {"internal.fidelity": "full"}
    asked(bench, backend).run(flow, "a", thread="start", context=full)
    bench.run(flow, "b", thread="a", context=full)
    bench.run(flow, "c", thread="b", context=full)
    assert [[exchange.prompt for exchange in request.history] for request in backend.requests] == [[], ["one"], ["one", "two"]]


def test_the_scripted_backend_works_in_the_workspace(bench: Bench) -> None:
    script = 'schema = 1\n[[reply]]\nnode = "n"\ntext = "written"\n[[reply.edit]]\npath = "a/b.txt"\nwrite = "hi"\n'
    bench.backends, bench.default_backend = {"scripted": ScriptedBackend.load(script, "s.toml")}, "scripted"
    outcome = bench.run(AGENT)
    assert outcome.context_updates["response.n"] == "written"
    assert (bench.directory / "a" / "b.txt").read_text() == "hi"
    assert bench.named("agent.edit") == [{"path": "a/b.txt"}]


def test_nodes_that_need_a_model() -> None:
    child = "digraph c { start [shape=Mdiamond] exit [shape=Msquare] inner [prompt=x] start -> inner -> exit }"
    flow = workflow(
        'start -> a -> b -> c -> exit\n a [prompt="x"]\n b [shape=parallelogram, script="true"]\n'
        ' c [shape=house, stack.child_workflow="c.dot"]',
        children={"c.dot": child},
    )
    assert [node.id for node in models_needed(flow)] == ["a", "inner"]
