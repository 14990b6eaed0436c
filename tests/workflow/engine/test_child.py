"""Child workflows: walked in place with checkpoints of their own, cycles until a stop condition, resume inside the child."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from arc.workflow.engine.doors import NodeCall
from arc.workflow.outcome import Outcome
from arc.workflow.state import RunState

from .support import Bench, Crash, edit, fail, frame_of, ok, workflow

CHILD = 'digraph inner { goal="inner goal"; start [shape=Mdiamond]; exit [shape=Msquare]; x; y; start -> x -> y -> exit }'
PARENT = 'm [shape=house, stack.child_workflow="inner.dot"{}]; z; start -> m -> z -> exit'
CHILDREN = {"inner.dot": CHILD}


def bench_of(attributes: str, script: Mapping[str, object], child: str = CHILD) -> Bench:
    return Bench(workflow(PARENT.format(attributes), children={"inner.dot": child}), script)  # type: ignore[arg-type]


def test_the_child_is_walked_in_the_same_files_with_checkpoints_of_its_own() -> None:
    bench = bench_of("", {"x": edit("x", "1"), "y": edit("y", "2"), "z": edit("z", "3")})
    state = bench.run()
    assert state.status == "success"
    assert bench.executed == ["start", "m/start", "m/x", "m/y", "m/exit", "z", "exit"]
    assert [c.path for c in bench.checkpoints.completed] == ["start", "m/start", "m/x", "m/y", "m/exit", "m", "z", "exit"]
    assert [c.frame for c in bench.checkpoints.completed][1:5] == ["m/"] * 4
    assert bench.files() == {"x": "1", "y": "2", "z": "3"}
    assert state.root.completed_nodes == ("start", "m", "z", "exit")
    assert bench.store.refs.keys() == {"arc/run/test"}


def test_the_context_goes_in_and_the_childs_changes_come_back() -> None:
    def x(call: NodeCall) -> Outcome:
        assert call.context["given"] == "by parent"
        assert call.context["graph.goal"] == "inner goal"
        return ok(context_updates={"found": "by child"}, preferred_label="inner")

    flow = workflow(PARENT.format("").replace("start -> m", "a; start -> a -> m"), children=CHILDREN, goal="outer goal")
    bench = Bench(flow, {"a": ok(context_updates={"given": "by parent"}), "x": x})
    state = bench.run()
    assert state.status == "success"
    at_z = next(call for call in bench.calls if call.path == "z").context
    assert (at_z["found"], at_z["graph.goal"], at_z["last_stage"], at_z["preferred_label"]) == ("by child", "outer goal", "m", "")


def test_a_failing_child_fails_its_node_with_the_childs_reason_and_class() -> None:
    bench = bench_of("", {"x": fail("net down", "transient_infra")})
    state = bench.run()
    failure = state.root.node_outcomes["m"].failure
    assert failure is not None
    assert failure.failure_class == "transient_infra"
    assert "the child workflow of `m` failed" in failure.message
    assert "net down" in failure.message


def test_cycles_are_repeated_until_the_stop_condition_holds() -> None:
    script = {"x": lambda call: ok(context_updates={"n": int(str(call.context.get("n", 0))) + 1})}
    bench = bench_of(', manager.stop_condition="context.n=3", manager.poll_interval=45s', script)
    state = bench.run()
    assert state.status == "success"
    assert bench.executed.count("m/x") == 3
    assert bench.clock.slept == [45.0, 45.0]
    assert state.root.context_values["n"] == 3
    assert [told["cycle"] for told in bench.told("child.completed")] == [1, 2, 3]


def test_a_stop_condition_may_ask_for_the_childs_outcome() -> None:
    outcomes = [fail(), fail(), ok()]
    bench = bench_of(', manager.stop_condition="outcome=success"', {"y": lambda call: outcomes.pop(0)})
    assert bench.run().status == "success"
    assert bench.executed.count("m/y") == 3


def test_max_cycles_is_a_failure() -> None:
    bench = bench_of(', manager.stop_condition="context.never=1", manager.max_cycles=2', {})
    state = bench.run()
    assert bench.executed.count("m/x") == 2
    assert "was not met in 2 cycles (`manager.max_cycles=2`)" in (state.failure or "")


def test_a_goal_gate_of_the_child_counts_in_the_child() -> None:
    child = CHILD.replace("x; y;", "x [goal_gate=true]; y; d [shape=diamond];").replace(
        "start -> x -> y -> exit", "start -> x -> d -> y -> exit"
    )
    state = bench_of("", {"x": fail()}, child).run()
    assert "unsatisfied goal gates: `x` (fail)" in (state.failure or "")


def stop_after(bench: Bench, path: str, count: int = 1) -> RunState:
    """Run until the checkpoint after the node's `count`-th completion, die, give the state."""
    done = [0]
    original = bench.checkpoints.save

    async def save(state: RunState, completed: object) -> object:
        receipt = await original(state, completed)  # type: ignore[arg-type]
        done[0] += getattr(completed, "path", "") == path
        if done[0] == count:
            raise Crash
        return receipt

    bench.checkpoints.save = save  # type: ignore[method-assign, assignment]
    with pytest.raises(Crash):
        bench.run()
    bench.checkpoints.save = original  # type: ignore[method-assign]
    return bench.checkpoints.state()


@pytest.mark.parametrize("path", ["m/start", "m/x", "m/y", "m/exit"])
def test_a_crash_in_the_child_resumes_in_the_child(path: str) -> None:
    bench = bench_of("", {"x": edit("x", "1"), "y": edit("y", "2")})
    saved = stop_after(bench, path)
    assert frame_of(saved, "m/").current_node == path.removeprefix("m/")
    assert saved.root.git_commit_sha == frame_of(saved, "m/").git_commit_sha
    state = bench.run(saved)
    assert state.status == "success"
    assert bench.executed == ["start", "m/start", "m/x", "m/y", "m/exit", "z", "exit"]
    assert [c.ordinal for c in bench.checkpoints.completed if c.path == "m"] == [2]


def test_a_crash_in_a_later_cycle_resumes_in_that_cycle() -> None:
    script = {"x": lambda call: ok(context_updates={"n": int(str(call.context.get("n", 0))) + 1})}
    bench = bench_of(', manager.stop_condition="context.n=3", manager.max_cycles=3', script)
    saved = stop_after(bench, "m/x", 2)
    assert saved.root.open_block is not None
    assert saved.root.open_block.cycle == 2
    state = bench.run(saved)
    assert state.status == "success"
    assert bench.executed.count("m/x") == 3


BLOCK = """digraph inner { start [shape=Mdiamond]; exit [shape=Msquare]; p [shape=component]; f [shape=tripleoctagon]; a; b
    start -> p; p -> a -> f; p -> b -> f; f -> exit }"""


def test_a_parallel_block_in_a_child_and_a_crash_in_it() -> None:
    bench = bench_of("", {"a": edit("a", "1"), "b": edit("b", "2")}, BLOCK)
    saved = stop_after(bench, "m/p:a/a")
    state = bench.run(saved)
    assert state.status == "success"
    assert bench.files() == {"a": "1", "b": "2"}
    assert bench.executed.count("m/p:a/a") == 1


def test_a_child_in_a_branch_and_a_crash_in_it() -> None:
    text = 'p [shape=component]; f [shape=tripleoctagon]; m [shape=house, stack.child_workflow="inner.dot"]; b; '
    text += "start -> p; p -> m -> f; p -> b -> f; f -> exit"
    bench = Bench(workflow(text, children=CHILDREN), {"x": edit("x", "1"), "y": edit("y", "2"), "b": edit("b", "3")})
    saved = stop_after(bench, "p:m/m/x")
    state = bench.run(saved)
    assert state.status == "success"
    assert bench.files() == {"x": "1", "y": "2", "b": "3"}
    assert bench.executed.count("p:m/m/x") == 1
    assert "p:m/m/y" in bench.executed
