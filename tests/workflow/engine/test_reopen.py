"""A run that failed inside a block and is resumed: what succeeded in the block stays, what did not goes on where it failed."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from arc.workflow.engine.doors import NodeCall
from arc.workflow.outcome import Outcome
from arc.workflow.state import RunState
from tests.workflow.engine.support import Bench, Crash, Step, edit, fail, frame_of, ok, workflow

BLOCK = """
 p [shape=component{options}]
 a [shape=parallelogram, script="x"]
 a2 [shape=parallelogram, script="x"]
 b [shape=parallelogram, script="x"]
 f [shape=tripleoctagon]
 start -> p
 p -> a -> a2 -> f
 p -> b -> f
 f -> exit
"""

PARENT = """
 c [shape=house, stack.child_workflow="child.dot"{options}]
 start -> c -> exit
"""
CHILD = """digraph child {
 start [shape=Mdiamond]; exit [shape=Msquare]
 m [shape=parallelogram, script="x"]
 n [shape=parallelogram, script="x"]
 start -> m -> n -> exit
}"""


def once_broken(path: str = "mended", text: str = "1") -> tuple[Step, list[bool]]:
    """A step that fails until `mended` holds something."""
    mended: list[bool] = []

    def step(call: NodeCall) -> Outcome:
        if not mended:
            return fail("red")
        done = edit(path, text)(call)
        assert isinstance(done, Outcome)
        return done

    return step, mended


def again(bench: Bench) -> RunState:
    """Resume from what was saved last; what ran before is forgotten."""
    bench.executed.clear()
    return bench.run(bench.checkpoints.state())


def completed_once(bench: Bench, state: RunState) -> None:
    """No node is in the list of completed ones more often than it was executed, and no ordinal stands for two executions."""
    ordinals = Counter(done.ordinal for done in bench.checkpoints.completed)
    assert set(ordinals.values()) == {1}
    assert state.root.open_block is None


def test_a_failed_branch_goes_on_at_its_failed_node_and_the_others_stay_as_they_are() -> None:
    step, mended = once_broken("a2", "3")
    bench = Bench(workflow(BLOCK.format(options=', join_policy="k_of_n(2)"')), {"a": edit("a", "1"), "a2": step, "b": edit("b", "2")})
    assert bench.run().status == "fail"
    mended.append(True)
    state = again(bench)
    assert state.status == "success"
    assert bench.executed == ["p:a/a2", "exit"]
    assert bench.files() == {"a": "1", "a2": "3", "b": "2"}
    assert state.root.node_visits == {"start": 1, "a": 1, "a2": 1, "b": 1, "p": 1, "f": 1, "exit": 1}
    assert [result["status"] for result in state.root.context_values["parallel.results"]] == ["success", "success"]  # type: ignore[index, union-attr, call-overload]
    completed_once(bench, state)


def test_the_failed_state_names_what_its_branches_did() -> None:
    bench = Bench(workflow(BLOCK.format(options=', join_policy="k_of_n(2)"')), {"a2": fail("red")})
    state = bench.run()
    assert frame_of(state, "p:a/").completed_nodes == ("a", "a2")
    assert frame_of(state, "p:b/").completed_nodes == ("b",)
    assert state.root.completed_nodes == ("start", "p")
    assert "red" in str(state.failure)


def test_a_branch_that_was_cancelled_by_the_failure_goes_on_too() -> None:
    bench = Bench(workflow(BLOCK.format(options=", error_policy=fail_fast")))
    step, mended = once_broken("b", "2")

    async def slow(call: NodeCall) -> Outcome:
        await bench.clock.sleep(10)
        return ok()

    bench.script = {"a": edit("a", "1"), "a2": slow, "b": step}
    assert bench.run().status == "fail"
    assert bench.executed == ["start", "p:a/a", "p:b/b", "p:a/a2"]
    mended.append(True)
    state = again(bench)
    assert state.status == "success"
    assert sorted(bench.executed) == ["exit", "p:a/a2", "p:b/b"]
    assert bench.files() == {"a": "1", "b": "2"}
    completed_once(bench, state)


def test_the_taken_up_block_is_a_new_execution_in_the_same_visit_and_its_branches_keep_their_refs() -> None:
    step, mended = once_broken()
    bench = Bench(workflow(BLOCK.format(options=', join_policy="k_of_n(2)"')), {"a2": step})
    bench.run()
    mended.append(True)
    again(bench)
    blocks = [event for event in bench.events if event.name == "node.started" and event.node == "p"]
    assert [event.properties["visit"] for event in blocks] == [1, 1]
    assert len({event.ordinal for event in blocks}) == 2
    refs = [event.properties["ref"] for event in bench.events if event.name == "branch.started" and event.properties["branch"] == "a"]
    assert len(refs) == 2
    assert len(set(refs)) == 1


def test_a_crash_while_a_failed_block_is_taken_up_loses_nothing() -> None:
    flow = workflow(BLOCK.format(options=', join_policy="k_of_n(2)"').replace("a2 -> f", "a2 -> a3 -> f\n a3 [shape=diamond]"))
    step, mended = once_broken("a2", "3")
    bench = Bench(flow, {"a2": step, "b": edit("b", "2")})
    bench.run()
    mended.append(True)
    bench.checkpoints.crash_after = len(bench.checkpoints.saved)
    with pytest.raises(Crash):
        again(bench)
    assert bench.executed == ["p:a/a2"]
    bench.checkpoints.crash_after = None
    state = again(bench)
    assert state.status == "success"
    assert bench.executed == ["p:a/a3", "exit"]
    assert state.root.node_visits["p"] == 1
    assert bench.files() == {"a2": "3", "b": "2"}
    completed_once(bench, state)


def test_a_block_can_fail_and_be_taken_up_many_times() -> None:
    step, mended = once_broken()
    bench = Bench(workflow(BLOCK.format(options=', join_policy="k_of_n(2)"')), {"a2": step})
    bench.run()
    for _ in range(3):
        assert again(bench).status == "fail"
        assert bench.executed == ["p:a/a2"]
    mended.append(True)
    state = again(bench)
    assert state.status == "success"
    assert state.root.node_visits == {"start": 1, "a": 1, "a2": 1, "b": 1, "p": 1, "f": 1, "exit": 1}
    completed_once(bench, state)


def test_a_block_that_failed_at_its_own_merge_is_executed_as_a_whole() -> None:
    text = "p [shape=component]; node [shape=parallelogram, script=x]; a; b\n start -> p -> a -> exit; p -> b -> exit"
    bench = Bench(workflow(text), {"a": edit("same", "1"), "b": edit("same", "2")})
    state = bench.run()
    assert state.status == "fail"
    assert "merge conflict" in str(state.failure)
    again(bench)
    assert bench.executed[:2] == ["p:a/a", "p:b/b"]


def test_a_failed_child_goes_on_at_its_failed_node() -> None:
    step, mended = once_broken("n", "2")
    bench = Bench(workflow(PARENT.format(options=""), children={"child.dot": CHILD}), {"c/m": edit("m", "1"), "c/n": step})
    assert bench.run().status == "fail"
    mended.append(True)
    state = again(bench)
    assert state.status == "success"
    assert bench.executed == ["c/n", "c/exit", "exit"]
    assert bench.files() == {"m": "1", "n": "2"}
    assert state.root.node_visits["c"] == 1
    completed_once(bench, state)


def test_a_child_that_used_up_its_cycles_begins_its_cycles_again() -> None:
    options = ', manager.stop_condition="context.done=yes", manager.max_cycles=2, manager.poll_interval=0s'
    bench = Bench(workflow(PARENT.format(options=options), children={"child.dot": CHILD}))
    assert bench.run().status == "fail"
    bench.script = {"c/m": ok(context_updates={"done": "yes"})}
    state = again(bench)
    assert state.status == "success"
    assert bench.executed == ["c/start", "c/m", "c/n", "c/exit", "exit"]


def test_a_block_in_a_child_in_a_block_is_taken_up_at_the_innermost_failed_node() -> None:
    inner = CHILD.replace(
        "start -> m -> n -> exit",
        'q [shape=component, join_policy="k_of_n(2)"]; k [shape=tripleoctagon]\n start -> q; q -> m -> k; q -> n -> k; k -> exit',
    )
    text = """
 p [shape=component, join_policy="k_of_n(2)"]; f [shape=tripleoctagon]
 c [shape=house, stack.child_workflow="child.dot"]
 b [shape=parallelogram, script="x"]
 start -> p; p -> c -> f; p -> b -> f; f -> exit
"""
    step, mended = once_broken("n", "2")
    bench = Bench(workflow(text, children={"child.dot": inner}), {"m": edit("m", "1"), "n": step, "b": edit("b", "3")})
    assert bench.run().status == "fail"
    mended.append(True)
    state = again(bench)
    assert state.status == "success"
    assert bench.executed == ["p:c/c/q:n/n", "p:c/c/exit", "exit"]
    assert bench.files() == {"m": "1", "n": "2", "b": "3"}
    assert state.root.node_visits["c"] == 1
    completed_once(bench, state)


def test_a_block_whose_time_was_up_goes_on_where_it_was() -> None:
    bench = Bench(workflow(BLOCK.format(options=", timeout=10ms")), {"a": edit("a", "1")})

    async def stuck(call: NodeCall) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    bench.script = {**bench.script, "a2": stuck, "b": edit("b", "2")}
    assert bench.run().status == "fail"
    bench.script = {}
    state = again(bench)
    assert state.status == "success"
    assert bench.executed == ["p:a/a2", "exit"]
    assert bench.files() == {"a": "1", "b": "2"}


def test_a_block_that_a_retry_target_follows_is_not_kept() -> None:
    text = BLOCK.format(options=', join_policy="k_of_n(2)", retry_target=w') + "\n w [shape=parallelogram, script=x]; w -> exit"
    state = Bench(workflow(text), {"a2": fail("red")}).run()
    assert state.status == "success"
    assert state.root.open_block is None
    assert state.root.completed_nodes == ("start", "a", "a2", "b", "p", "w", "exit")


def test_a_branch_that_failed_before_a_diamond_goes_on_at_the_node_that_failed() -> None:
    text = BLOCK.format(options=', join_policy="k_of_n(2)"').replace("a2 -> f", "a2 -> d -> f\n d [shape=diamond]")
    step, mended = once_broken("a2", "3")
    bench = Bench(workflow(text), {"a2": step})
    assert bench.run().status == "fail"
    mended.append(True)
    state = again(bench)
    assert state.status == "success"
    assert bench.executed == ["p:a/a2", "p:a/d", "exit"]
    assert state.root.node_visits["a2"] == 1


def test_the_edge_into_the_failed_node_still_decides_its_fidelity_and_thread() -> None:
    step, mended = once_broken()
    text = """
 a [shape=box, prompt="x"]; b [shape=box, prompt="y"]
 start -> a
 a -> b [fidelity="summary:low", thread_id="main"]
 b -> exit
"""
    bench = Bench(workflow(text), {"b": step})
    assert bench.run().status == "fail"
    mended.append(True)
    assert again(bench).status == "success"
    started = [event.properties for event in bench.events if event.name == "node.started" and event.node == "b"]
    assert [(each["fidelity"], each["thread"]) for each in started] == [("summary:low", "main")] * 2
