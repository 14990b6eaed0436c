"""Limits: visits, failure signatures, loop restarts, and the stall watchdog."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from arc.workflow.engine.doors import NodeCall, Question
from arc.workflow.outcome import Outcome

from .support import Bench, fail, forever, ok, workflow

LOOP = 'a{}; start -> a; a -> a [condition="context.go!=stop"]; a -> exit [condition="context.go=stop"]'


@pytest.mark.parametrize("allowed", [1, 2, 3])
def test_max_visits_allows_exactly_that_many_executions(allowed: int) -> None:
    bench = Bench(workflow(LOOP.format(f" [max_visits={allowed}]")))
    state = bench.run()
    assert bench.executed.count("a") == allowed
    assert state.failure == f"node `a` was executed {allowed} times and `max_visits={allowed}` allows no further visit"
    saved = bench.checkpoints.state()
    assert replace(saved, root=replace(saved.root, git_commit_sha=state.root.git_commit_sha)) == state
    assert state.root.next_node_id == "a"


def test_a_loop_within_its_visits_succeeds() -> None:
    bench = Bench(workflow(LOOP.format(" [max_visits=3]")), {"a": [ok(), ok(), ok(context_updates={"go": "stop"})]})
    assert bench.run().status == "success"


def test_max_node_visits_holds_for_every_node() -> None:
    bench = Bench(workflow("max_node_visits=2\n" + LOOP.format("")))
    state = bench.run()
    assert bench.executed.count("a") == 2
    assert "`max_node_visits=2`" in (state.failure or "")


def test_a_dry_run_has_a_limit_of_its_own() -> None:
    bench = Bench(workflow(LOOP.format("")), dry_run=True)
    assert bench.run().status == "fail"
    assert bench.executed.count("a") == 10


def test_a_run_at_its_limit_stays_there_when_resumed() -> None:
    bench = Bench(workflow(LOOP.format(" [max_visits=2]")))
    first = bench.run()
    again = bench.run(bench.checkpoints.state())
    assert (again.status, again.failure) == ("fail", first.failure)
    assert bench.executed.count("a") == 2


FIX = 'a; fix; start -> a; a -> fix [condition="outcome=fail"]; fix -> a; a -> exit [condition="outcome=success"]'


def test_the_same_failure_again_and_again_ends_the_run() -> None:
    bench = Bench(workflow(FIX), {"a": lambda call: fail(f"line {call.visit} is wrong")})
    state = bench.run()
    assert bench.executed.count("a") == 3
    assert state.failure == "node `a` failed 3 times in the same way (`loop_restart_signature_limit=3`): line 3 is wrong"
    assert state.root.loop_failure_signatures == {"a|deterministic|line <n> is wrong": 3}


def test_different_failures_are_counted_apart() -> None:
    words = ["red", "green", "blue", "white", "black"]
    bench = Bench(workflow(FIX), {"a": [*(fail(word) for word in words), ok()]})
    assert bench.run().status == "success"


def test_transient_failures_are_not_counted() -> None:
    bench = Bench(workflow(FIX), {"a": [*(fail("network", "transient_infra") for _ in range(6)), ok()]})
    assert bench.run().status == "success"


def test_a_success_of_the_node_forgets_its_failures() -> None:
    flow = workflow(
        'a; fix; start -> a; a -> fix [condition="outcome=fail"]; fix -> a'
        '\n a -> a [condition="outcome=success && context.go!=stop"]; a -> exit [condition="context.go=stop"]'
    )
    bench = Bench(flow, {"a": [fail(), fail(), ok(), fail(), fail(), ok(context_updates={"go": "stop"})]})
    state = bench.run()
    assert state.status == "success"
    assert state.root.loop_failure_signatures == {}


def test_the_limit_can_be_set_and_switched_off() -> None:
    bench = Bench(workflow("loop_restart_signature_limit=2\n" + FIX), {"a": fail()})
    bench.run()
    assert bench.executed.count("a") == 2
    off = Bench(workflow(FIX, loop_restart_signature_limit=0), {"a": [*(fail() for _ in range(9)), ok()]})
    assert off.run().status == "success"


RESTART = """
    a; b; start -> a -> b
    b -> start [condition="outcome=fail", loop_restart=true]
    b -> exit  [condition="outcome=success"]
"""


def test_a_loop_restart_begins_afresh_but_keeps_visits_and_the_graphs_values() -> None:
    def a(call: NodeCall) -> Outcome:
        return ok(context_updates={"seen": str(call.visit), f"only.{call.visit}": "x"})

    bench = Bench(workflow(RESTART, goal="G"), {"a": a, "b": [fail("net", "transient_infra"), ok()]})
    state = bench.run()
    assert state.status == "success"
    assert bench.executed == ["start", "a", "b", "start", "a", "b", "exit"]
    assert state.root.completed_nodes == ("start", "a", "b", "exit")
    assert state.root.node_visits == {"start": 2, "a": 2, "b": 2, "exit": 1}
    assert "only.1" not in state.root.context_values
    assert state.root.context_values["graph.goal"] == "G"
    assert state.root.restart_failure_signatures == {"b|transient_infra|net": 1}
    assert bench.told("loop.restarted") == [{"target": "start"}]


def test_a_deterministic_failure_does_not_restart_the_loop() -> None:
    bench = Bench(workflow(RESTART), {"b": fail("wrong")})
    state = bench.run()
    assert bench.executed == ["start", "a", "b"]
    assert "restarts the loop, which only a success or a `transient_infra` failure may" in (state.failure or "")


def test_restarts_after_the_same_failure_are_limited() -> None:
    bench = Bench(workflow(RESTART), {"b": fail("net", "transient_infra")})
    state = bench.run()
    assert state.status == "fail"
    assert bench.executed.count("b") == 3
    assert "restarted 2 times after the same failure" in (state.failure or "")


# --- the watchdog -----------------------------------------------------------------------------------------------------------------------


def test_a_run_in_which_nothing_happens_is_stopped_and_can_be_resumed() -> None:
    bench = Bench(workflow("a; start -> a -> exit", stall_timeout_ms=600_000), {"a": forever})
    state = bench.run()
    assert (state.status, state.failure) == ("fail", "nothing happened in any branch for 600 seconds (`stall_timeout`)")
    assert bench.names()[-2:] == ["stall.timeout", "run.failed"]
    assert bench.logs[-1].records[-1]["status"] == "canceled"
    assert state.root.next_node_id == "a"
    bench.script = {}
    again = bench.run(state)
    assert again.status == "success"
    assert bench.executed == ["start", "a", "a", "exit"]
    assert again.root.node_visits["a"] == 1


def test_output_of_any_branch_is_activity() -> None:
    bench = Bench(
        workflow(
            "p [shape=component]; a; b; f [shape=tripleoctagon]; start -> p; p -> a -> f; p -> b -> f; f -> exit", stall_timeout_ms=2000
        )
    )

    async def talks(call: NodeCall) -> Outcome:
        for _ in range(20):
            await bench.clock.sleep(1)
            call.log.output("stdout", b"still here\n")
        return ok()

    async def silent(call: NodeCall) -> Outcome:
        await bench.clock.sleep(19)
        return ok()

    bench.script = {"a": talks, "b": silent}
    assert bench.run().status == "success"


def test_a_human_may_take_longer_than_the_stall_timeout() -> None:
    async def asks(call: NodeCall) -> Outcome:
        await call.services.interviewer.ask(Question("1", call.path, "?", (), True, None, None))
        return ok()

    bench = Bench(workflow("a; start -> a -> exit", stall_timeout_ms=60_000), {"a": asks})
    assert bench.run().status == "success"
    assert bench.clock.monotonic() == 7200


def test_waits_that_are_meant_are_no_stall() -> None:
    flow = workflow("w [shape=insulator, duration=2h]; a [retry_policy=standard]; start -> w -> a -> exit", stall_timeout_ms=3_000)
    bench = Bench(flow)

    async def waits(call: NodeCall) -> Outcome:
        await call.services.clock.sleep(7200)
        return ok()

    bench.script = {"w": waits, "a": lambda call: ok() if call.attempt == 3 else fail("busy", "transient_infra")}
    assert bench.run().status == "success"


def test_no_watchdog_is_left_behind() -> None:
    async def scene() -> None:
        await Bench(workflow("a; start -> a -> exit", stall_timeout_ms=60_000)).go()
        assert {task for task in asyncio.all_tasks() if not _is_clock(task)} == {asyncio.current_task()}

    def _is_clock(task: asyncio.Task[object]) -> bool:
        return "_drive" in repr(task.get_coro())

    asyncio.run(scene())


def test_a_stall_inside_a_branch_keeps_the_finished_branch() -> None:
    text = "p [shape=component]; a; b; f [shape=tripleoctagon]; start -> p; p -> a -> f; p -> b -> f; f -> exit"
    bench = Bench(workflow(text, stall_timeout_ms=60_000), {"b": forever})
    state = bench.run()
    assert state.status == "fail"
    assert state.root.open_block is not None
    assert [branch.status for branch in state.root.open_block.branches] == ["success", "running"]
    bench.script = {}
    assert bench.run(state).status == "success"
    assert bench.executed.count("p:a/a") == 1
