"""Conversations and fidelity: histories within a process, branches with their own copy, one downgraded hop after a resume."""

from __future__ import annotations

import pytest

from arc.agent.protocol import Exchange
from arc.workflow.engine.doors import NodeCall
from arc.workflow.engine.threads import ThreadStore
from arc.workflow.outcome import Outcome

from .support import Bench, Crash, Step, fail, ok, workflow

FULL = "default_fidelity=full\n default_thread=t\n a; b; c; start -> a -> b -> c -> exit"


def talk(call: NodeCall) -> Outcome:
    """Adds one exchange to the node's thread, as the agent's handler does."""
    assert call.thread is not None
    call.threads.append(call.thread, Exchange(call.path, "?", "!"))
    return ok()


def test_a_fork_goes_its_own_way() -> None:
    store = ThreadStore()
    store.append("t", Exchange("a", "p", "r"))
    copy = store.fork()
    copy.append("t", Exchange("b", "p", "r"))
    assert [exchange.node for exchange in store.history("t")] == ["a"]
    assert [exchange.node for exchange in copy.history("t")] == ["a", "b"]
    assert store.history(None) == store.history("other") == ()


def test_nodes_of_a_thread_see_what_was_said_before() -> None:
    heard: dict[str, list[str]] = {}

    def listen(call: NodeCall) -> Outcome:
        heard[call.path] = [exchange.node for exchange in call.threads.history(call.thread)]
        return talk(call)

    bench = Bench(workflow(FULL), {"a": listen, "b": listen, "c": listen})
    bench.run()
    assert heard == {"a": [], "b": ["a"], "c": ["a", "b"]}
    assert [call.preamble for call in bench.calls] == [""] * 5


def test_branches_do_not_hear_each_other() -> None:
    heard: dict[str, list[str]] = {}

    def listen(call: NodeCall) -> Outcome:
        heard[call.path] = [exchange.node for exchange in call.threads.history(call.thread)]
        return talk(call)

    text = "default_fidelity=full\n default_thread=t\n s; p [shape=component]; f [shape=tripleoctagon]; a; b; start -> s -> p; "
    Bench(workflow(text + "p -> a -> f; p -> b -> f; f -> exit"), {"s": listen, "a": listen, "b": listen}).run()
    assert heard == {"s": [], "p:a/a": ["s"], "p:b/b": ["s"]}


def test_the_first_node_after_a_resume_gets_a_summary_instead_of_its_lost_conversation() -> None:
    bench = Bench(workflow(FULL, goal="the goal"), {"a": talk, "b": talk, "c": talk})
    bench.checkpoints.crash_after = 1
    with pytest.raises(Crash):
        bench.run()
    bench.checkpoints.crash_after = None
    assert bench.checkpoints.state().root.current_fidelity == "full"
    bench.run(bench.checkpoints.state())
    started = {event.node: event.properties["fidelity"] for event in bench.events if event.name == "node.started"}
    assert started == {"start": "full", "a": "full", "b": "summary:high", "c": "full", "exit": "full"}
    assert "the goal" in next(call for call in bench.calls if call.path == "b").preamble


def test_the_edge_into_the_resumed_node_still_decides_its_fidelity_and_thread() -> None:
    text = "a; b; start -> a; a -> b [fidelity=truncate, thread_id=side]; b -> exit"
    bench = Bench(workflow(text))
    bench.run()
    bench.events.clear()
    bench.run(bench.checkpoints.state(1))
    (started,) = [event.properties for event in bench.events if event.name == "node.started" and event.node == "b"]
    assert (started["fidelity"], started["thread"]) == ("truncate", "side")


def test_the_first_agent_of_each_thread_after_a_resume_gets_a_summary_also_behind_other_nodes() -> None:
    text = """
 default_fidelity=full
 node [shape=box]
 a [thread_id=one]; b [thread_id=two]; c [thread_id=one]; d [thread_id=two]; e [thread_id=one]
 stop [shape=parallelogram, script="x"]
 start -> a -> b -> stop -> c -> d -> e -> exit
"""
    talking: dict[str, Step] = dict.fromkeys("abcde", talk)
    bench = Bench(workflow(text), {**talking, "stop": fail("red")})
    assert bench.run().status == "fail"
    bench.script = talking
    bench.events.clear()
    bench.run(bench.checkpoints.state())
    started = {event.node: event.properties["fidelity"] for event in bench.events if event.name == "node.started"}
    assert started == {"stop": "summary:high", "c": "summary:high", "d": "summary:high", "e": "full", "exit": "full"}
