"""Parallel blocks: branches of any length in their own files, policies, cancellation, results, merges, conflicts, nesting, resume."""

from __future__ import annotations

import asyncio

import pytest

from arc.base.json import JsonObject, JsonValue
from arc.workflow.engine.doors import NodeCall
from arc.workflow.outcome import Outcome
from arc.workflow.state import RunState

from .support import Bench, Crash, MemoryWorkspace, edit, fail, forever, frame_of, ok, workflow

TWO = "p [shape=component{}]; f [shape=tripleoctagon]; a; a2; b; start -> p; p -> a -> a2 -> f; p -> b -> f; f -> exit"
THREE = "p [shape=component{}]; f [shape=tripleoctagon]; a; b; c; start -> p; p -> a -> f; p -> b -> f; p -> c -> f; f -> exit"


def results(state: RunState) -> list[JsonObject]:
    found = state.root.context_values["parallel.results"]
    assert isinstance(found, list)
    return [result for result in found if isinstance(result, dict)]


def by_id(state: RunState) -> dict[JsonValue, JsonObject]:
    return {result["id"]: result for result in results(state)}


def test_branches_of_any_length_run_up_to_the_fan_in_which_merges_their_files() -> None:
    bench = Bench(workflow(TWO.format("")), {"a": edit("left", "1"), "a2": edit("left2", "2"), "b": edit("right", "3")})
    state = bench.run()
    assert state.status == "success"
    assert set(bench.executed) == {"start", "p:a/a", "p:a/a2", "p:b/b", "exit"}
    assert bench.files() == {"left": "1", "left2": "2", "right": "3"}
    assert state.root.completed_nodes == ("start", "a", "a2", "b", "p", "f", "exit")
    assert state.root.node_visits == {"start": 1, "a": 1, "a2": 1, "b": 1, "p": 1, "f": 1, "exit": 1}
    assert state.root.node_outcomes["a2"].status == "success"


def test_every_node_of_a_branch_has_a_checkpoint_that_holds_the_whole_state() -> None:
    bench = Bench(workflow(TWO.format("")))
    bench.run()
    paths = [c.path for c in bench.checkpoints.completed]
    assert sorted(paths) == sorted(["start", "p:a/a", "p:a/a2", "p:b/b", "p", "f", "exit"])
    assert [c.frame for c in bench.checkpoints.completed if c.path.startswith("p:a/")] == ["p:a/", "p:a/"]
    inside = bench.checkpoints.state(paths.index("p:a/a"))
    block = inside.root.open_block
    assert block is not None
    assert (block.kind, block.node_id, block.ordinal) == ("parallel", "p", 2)
    assert [branch.key for branch in block.branches] == ["a", "b"]
    assert (inside.root.current_node, inside.root.next_node_id) == ("start", "p")
    assert frame_of(inside, "p:a/").next_node_id == "a2"
    assert bench.checkpoints.state().root.open_block is None


def test_branches_work_on_files_of_their_own() -> None:
    seen: dict[str, dict[str, str]] = {}

    def look(call: NodeCall) -> Outcome:
        assert isinstance(call.workspace, MemoryWorkspace)
        seen[call.path] = dict(call.workspace.files)
        call.workspace.files[call.node.id] = "x"
        return ok()

    bench = Bench(
        workflow("s; " + TWO.format("").replace("start -> p", "start -> s -> p")), {"s": edit("s", "0"), "a": look, "a2": look, "b": look}
    )
    bench.run()
    assert seen == {"p:a/a": {"s": "0"}, "p:a/a2": {"s": "0", "a": "x"}, "p:b/b": {"s": "0"}}


def test_results_tell_status_outputs_context_changes_and_commits() -> None:
    def a(call: NodeCall) -> Outcome:
        return ok(context_updates={"response.a": "text", "command.output": "out", "found": 1, "same": "s"})

    flow = workflow("s; " + TWO.format("").replace("start -> p", "start -> s -> p"))
    bench = Bench(flow, {"s": ok(context_updates={"same": "s"}), "a": a, "b": fail("red")})
    state = bench.run()
    left, right = by_id(state)["a"], by_id(state)["b"]
    assert (left["status"], left["target"], left["nodes"]) == ("success", "a", ["a", "a2"])
    assert left["outputs"] == {"response.a": "text", "command.output": "out"}
    assert left["context_updates"] == {"found": 1}
    assert left["ref"] == "arc/run/test/3-p/a"
    assert bench.store.refs["arc/run/test/3-p/a"] == left["commit"]
    assert left["base"] == "c2"
    assert (right["status"], "red" in str(right["reason"])) == ("fail", True)
    assert state.root.context_values["parallel.p.results"] == results(state)
    assert state.root.context_values["parallel.failed"] == ["b"]


def test_context_changes_are_merged_in_declared_order_and_clashes_are_named() -> None:
    async def slow(call: NodeCall) -> Outcome:
        await bench.clock.sleep(5)
        return ok(context_updates={"who": "a", "only_a": 1})

    bench = Bench(workflow(TWO.format("")), {"a": slow, "b": ok(context_updates={"who": "b", "only_b": 2})})
    context = bench.run().root.context_values
    assert (context["who"], context["only_a"], context["only_b"]) == ("b", 1, 2)
    assert context["parallel.overwritten"] == ["who"]
    assert bench.told("fan_in.merged") == [{"merged": ["a", "b"], "overwritten": ["who"]}]


def test_a_branchs_position_does_not_leak_into_the_run() -> None:
    bench = Bench(workflow(TWO.format("")), {"b": ok(preferred_label="x")})
    bench.run()
    at_exit = bench.calls[-1].context
    assert (at_exit["current_node"], at_exit["last_stage"], at_exit["preferred_label"]) == ("f", "f", "")
    assert "internal.branch" not in at_exit


def test_at_most_max_parallel_branches_run_at_once_in_declared_order() -> None:
    running: set[str] = set()
    most: list[int] = []
    order: list[str] = []

    async def step(call: NodeCall) -> Outcome:
        running.add(call.path)
        order.append(call.node.id)
        most.append(len(running))
        await bench.clock.sleep(1)
        running.discard(call.path)
        return ok()

    names = [f"n{index}" for index in range(6)]
    text = "p [shape=component, max_parallel=2]; f [shape=tripleoctagon]; start -> p; f -> exit; " + "; ".join(
        f"{name}; p -> {name} -> f" for name in names
    )
    bench = Bench(workflow(text), dict.fromkeys(names, step))
    assert bench.run().status == "success"
    assert max(most) == 2
    assert order == names


def test_two_edges_to_the_same_target_are_two_branches() -> None:
    text = 'p [shape=component]; f [shape=tripleoctagon]; a; start -> p; p -> a; p -> a [label="again"]; a -> f -> exit'
    bench = Bench(workflow(text))
    state = bench.run()
    assert [result["id"] for result in results(state)] == ["a", "a#2"]
    assert {"p:a/a", "p:a#2/a"} <= set(bench.executed)
    assert state.root.node_visits["a"] == 2


def test_a_branch_whose_edge_has_a_false_condition_is_not_started() -> None:
    text = "p [shape=component]; f [shape=tripleoctagon]; a; b; start -> p; p -> a -> f; b -> f; f -> exit"
    text += '; p -> b [condition="context.no=1"]'
    bench = Bench(workflow(text))
    assert bench.run().status == "success"
    assert "p:b/b" not in bench.executed


# --- policies ---------------------------------------------------------------------------------------------------------------------------


def test_wait_all_with_a_failed_branch_is_partial_and_merges_the_others() -> None:
    bench = Bench(workflow(THREE.format("")), {"a": edit("a", "1"), "b": fail("red"), "c": edit("c", "3")})
    state = bench.run()
    assert state.root.node_outcomes["p"].status == "partial_success"
    assert state.root.node_outcomes["f"].status == "partial_success"
    assert state.status == "partial_success"
    assert bench.files() == {"a": "1", "c": "3"}


def test_a_failed_branch_can_be_routed_on_after_the_fan_in() -> None:
    text = THREE.format("").replace(
        "f -> exit", 'r; f -> r [condition="outcome=partial_success"]; f -> exit [condition="outcome=success"]; r -> exit'
    )
    bench = Bench(workflow(text), {"b": fail()})
    bench.run()
    assert bench.executed[-2:] == ["r", "exit"]


def test_a_block_whose_branches_all_fail_fails_with_their_reasons() -> None:
    bench = Bench(workflow(TWO.format("")), {"a": fail("first"), "b": fail("second")})
    state = bench.run()
    assert state.status == "fail"
    assert "0 of 2 branches succeeded" in (state.failure or "")
    assert "first" in (state.failure or "")
    assert "second" in (state.failure or "")


def test_a_failed_block_goes_to_its_retry_target() -> None:
    text = "plan; " + TWO.format(", retry_target=plan").replace("start -> p", "start -> plan -> p")
    bench = Bench(workflow(text), {"a": [fail(), ok()], "b": [fail(), ok()]})
    state = bench.run()
    assert state.status == "success"
    assert bench.executed.count("plan") == 2
    assert state.root.node_visits["a"] == 2
    assert state.root.node_visits["p"] == 2


def test_first_success_really_cancels_the_others_and_sets_their_work_aside() -> None:
    canceled: list[str] = []

    async def hangs(call: NodeCall) -> Outcome:
        assert isinstance(call.workspace, MemoryWorkspace)
        call.workspace.files["half"] = "done"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            canceled.append(call.node.id)
            raise
        raise AssertionError("unreachable")

    async def wins(call: NodeCall) -> Outcome:
        await bench.clock.sleep(1)
        return await _result(edit("won", "1")(call))

    bench = Bench(workflow(THREE.format(", join_policy=first_success, max_parallel=2")), {"a": hangs, "b": wins, "c": forever})
    state = bench.run()
    assert state.status == "success"
    assert canceled == ["a"]
    assert "p:c/c" not in bench.executed  # it was still waiting for its turn
    assert [result["status"] for result in results(state)] == ["canceled", "success", "canceled"]
    assert bench.files() == {"won": "1"}
    assert bench.store.aside == [("arc/run/test/2-p/a", {"half": "done"})]


async def _result(outcome: object) -> Outcome:
    assert isinstance(outcome, Outcome)
    return outcome


@pytest.mark.parametrize(("policy", "succeeding"), [('"k_of_n(2)"', 2), ('"quorum(0.6)"', 2), ('"quorum(0.3)"', 1)])
def test_enough_successes_end_the_block(policy: str, succeeding: int) -> None:
    script = {name: ok() if index < succeeding else forever for index, name in enumerate("abc")}
    bench = Bench(workflow(THREE.format(f", join_policy={policy}")), script)
    state = bench.run()
    assert state.status == "success"
    assert [result["status"] for result in results(state)] == ["success"] * succeeding + ["canceled"] * (3 - succeeding)


def test_too_few_successes_fail_the_block() -> None:
    bench = Bench(workflow(THREE.format(', join_policy="k_of_n(2)"')), {"a": fail(), "b": fail()})
    state = bench.run()
    assert "1 of 3 branches succeeded, `k_of_n(2)` needs 2" in (state.failure or "")


def test_fail_fast_cancels_the_others_and_fails() -> None:
    bench = Bench(workflow(THREE.format(", error_policy=fail_fast")), {"a": forever, "b": fail("red"), "c": forever})
    state = bench.run()
    assert state.status == "fail"
    assert [result["status"] for result in results(state)] == ["canceled", "fail", "canceled"]
    assert "fail_fast" in (state.failure or "")


def test_ignored_failures_do_not_count() -> None:
    bench = Bench(workflow(THREE.format(", error_policy=ignore")), {"b": fail()})
    state = bench.run()
    assert state.status == "success"
    assert state.root.node_outcomes["p"].status == "success"


# --- merging ----------------------------------------------------------------------------------------------------------------------------


def test_a_conflict_is_an_outcome_with_the_paths_named_and_nothing_is_lost() -> None:
    bench = Bench(workflow(THREE.format("")), {"a": edit("same", "A"), "b": edit("same", "B"), "c": edit("c", "C")})
    state = bench.run()
    outcome = state.root.node_outcomes["f"]
    assert (outcome.status, outcome.preferred_label) == ("fail", "conflict")
    assert outcome.failure is not None
    assert outcome.failure.message == "merge conflict: branch `b` (kept at `arc/run/test/2-p/b`) in `same`"
    assert state.root.context_values["parallel.conflicts"] == [{"branch": "b", "ref": "arc/run/test/2-p/b", "paths": ["same"]}]
    assert state.root.context_values["parallel.merged"] == ["a", "c"]
    assert bench.files() == {"same": "A", "c": "C"}
    assert bench.store.commits[bench.store.refs["arc/run/test/2-p/b"]] == {"same": "B"}


@pytest.mark.parametrize("condition", ["outcome=fail", "preferred_label=conflict", "context.parallel.conflict=true"])
def test_a_conflict_can_be_routed_on(condition: str) -> None:
    text = TWO.format("").replace(
        "f -> exit", f'solve; f -> solve [condition="{condition}"]; f -> exit [condition="outcome=success"]; solve -> exit'
    )
    bench = Bench(workflow(text), {"a": edit("same", "A"), "b": edit("same", "B")})
    assert bench.run().status == "success"
    assert bench.executed[-2:] == ["solve", "exit"]


def test_a_block_without_a_fan_in_merges_by_itself() -> None:
    text = "p [shape=component]; a; b; m; start -> p; p -> a -> m; p -> b -> m; m -> exit"
    bench = Bench(workflow(text), {"a": edit("a", "1", context_updates={"k": 1}), "b": edit("b", "2")})
    state = bench.run()
    assert bench.files() == {"a": "1", "b": "2"}
    assert bench.executed.count("m") == 1
    assert state.root.context_values["k"] == 1


def test_a_conflict_without_a_fan_in_fails_the_block() -> None:
    text = "p [shape=component]; a; b; m; start -> p; p -> a -> m; p -> b -> m; m -> exit"
    state = Bench(workflow(text), {"a": edit("x", "1"), "b": edit("x", "2")}).run()
    assert state.status == "fail"
    assert "merge conflict" in (state.failure or "")


def test_a_branch_may_simply_end() -> None:
    bench = Bench(workflow("p [shape=component]; a; b; m; start -> p; p -> a -> m -> exit; p -> b"), {"b": edit("b", "2")})
    assert bench.run().status == "success"
    assert bench.files() == {"b": "2"}


def test_a_fan_in_with_a_prompt_merges_what_the_model_picks() -> None:
    text = TWO.format("").replace("f [shape=tripleoctagon]", 'f [shape=tripleoctagon, prompt="Which is best?"]')
    bench = Bench(workflow(text), {"a": edit("x", "1"), "b": edit("x", "2"), "f": ok(suggested_next_ids=("b",))})
    state = bench.run()
    assert state.status == "success"
    assert bench.files() == {"x": "2"}
    asked = next(call for call in bench.calls if call.path == "f").node.prompt
    assert asked.startswith("Which is best?")
    assert '"id": "a"' in asked


def test_a_model_that_picks_nothing_fails_the_fan_in() -> None:
    text = TWO.format("").replace("f [shape=tripleoctagon]", 'f [shape=tripleoctagon, prompt="Which?"]')
    state = Bench(workflow(text), {"f": ok()}).run()
    assert "names no branch" in (state.failure or "")


# --- inside branches ----------------------------------------------------------------------------------------------------------------------


def test_a_loop_inside_a_branch() -> None:
    text = (
        "p [shape=component]; f [shape=tripleoctagon]; t; d [shape=diamond]; fix; b; start -> p; p -> t -> d; "
        'd -> f [condition="outcome=success"]; d -> fix [condition="outcome=fail"]; fix -> t; p -> b -> f; f -> exit'
    )
    bench = Bench(workflow(text), {"t": [fail("1"), fail("2"), ok()]})
    state = bench.run()
    assert state.status == "success"
    assert state.root.node_visits["t"] == 3
    assert by_id(state)["t"]["nodes"] == ["t", "d", "fix", "t", "d", "fix", "t", "d"]


def test_visits_inside_branches_count_over_repeated_blocks() -> None:
    text = "p [shape=component]; f [shape=tripleoctagon]; a [max_visits=2]; b; start -> p; p -> a -> f; p -> b -> f"
    text += '; f -> p [condition="outcome=success"]; f -> exit [condition="outcome=partial_success"]'
    bench = Bench(workflow(text))
    state = bench.run()
    assert (state.root.node_visits["a"], state.root.node_visits["b"], state.root.node_visits["p"]) == (2, 3, 3)
    assert "`max_visits=2` allows no further visit" in str(by_id(state)["a"]["reason"])


def test_a_branch_must_not_lead_back_into_its_own_block() -> None:
    text = "p [shape=component]; f [shape=tripleoctagon]; a; b; start -> p; p -> a -> f; p -> b -> p; f -> exit"
    state = Bench(workflow(text)).run()
    assert "must not lead back into that block" in str(by_id(state)["b"]["reason"])


def test_a_retry_target_outside_the_block_is_not_jumped_to_from_a_branch() -> None:
    text = "retry_target=plan\n plan; " + TWO.format("").replace("start -> p", "start -> plan -> p")
    bench = Bench(workflow(text), {"b": fail("red")})
    state = bench.run()
    assert bench.executed.count("plan") == 1
    assert by_id(state)["b"]["status"] == "fail"


NESTED = """
    p [shape=component]; q [shape=component]; f [shape=tripleoctagon]; g [shape=tripleoctagon]; a; b; c; after
    start -> p
    p -> q; q -> a -> g; q -> b -> g; g -> after -> f
    p -> c -> f
    f -> exit
"""


def test_nested_blocks_merge_inside_out() -> None:
    seen: dict[str, str] = {}

    def after(call: NodeCall) -> Outcome:
        assert isinstance(call.workspace, MemoryWorkspace)
        seen.update(call.workspace.files)
        return ok()

    bench = Bench(workflow(NESTED), {"a": edit("a", "1"), "b": edit("b", "2"), "c": edit("c", "3"), "after": after})
    state = bench.run()
    assert state.status == "success"
    assert seen == {"a": "1", "b": "2"}
    assert bench.files() == {"a": "1", "b": "2", "c": "3"}
    assert {"p:q/q:a/a", "p:q/q:b/b", "p:q/after", "p:c/c"} <= set(bench.executed)
    assert set(state.root.completed_nodes) == {"start", "a", "b", "q", "g", "after", "c", "p", "f", "exit"}


def test_an_inner_block_without_a_fan_in_of_its_own_merges_by_itself() -> None:
    text = (
        "p [shape=component]; q [shape=component]; f [shape=tripleoctagon]; a; b; c; "
        "start -> p; p -> q; q -> a -> f; q -> b -> f; p -> c -> f; f -> exit"
    )
    bench = Bench(workflow(text), {"a": edit("a", "1"), "b": edit("b", "2"), "c": edit("c", "3")})
    assert bench.run().status == "success"
    assert bench.files() == {"a": "1", "b": "2", "c": "3"}


# --- coming back ------------------------------------------------------------------------------------------------------------------------


def crash_after(bench: Bench, path: str) -> None:
    """Run until the checkpoint after that node, and die."""
    original = bench.checkpoints.save

    async def save(state: RunState, completed: object) -> object:
        receipt = await original(state, completed)  # type: ignore[arg-type]
        if getattr(completed, "path", "") == path:
            raise Crash
        return receipt

    bench.checkpoints.save = save  # type: ignore[method-assign, assignment]
    with pytest.raises(Crash):
        bench.run()
    bench.checkpoints.save = original  # type: ignore[method-assign]
    bench.store.aside.clear()


def test_a_crash_inside_a_branch_resumes_right_there_and_ended_branches_do_not_run_again() -> None:
    async def slow(call: NodeCall) -> Outcome:
        await bench.clock.sleep(10)
        return await _result(edit("left", "1")(call))

    bench = Bench(workflow(TWO.format("")), {"a": slow, "a2": edit("left2", "2"), "b": edit("right", "3")})
    crash_after(bench, "p:a/a")
    state = bench.run(bench.checkpoints.state())
    assert state.status == "success"
    assert bench.executed == ["start", "p:a/a", "p:b/b", "p:a/a2", "exit"]
    assert bench.files() == {"left": "1", "left2": "2", "right": "3"}
    assert state.root.node_visits == {"start": 1, "a": 1, "a2": 1, "b": 1, "p": 1, "f": 1, "exit": 1}
    ordinals = [c.ordinal for c in bench.checkpoints.completed]
    assert len(set(ordinals)) == len(ordinals)
    assert [c.ordinal for c in bench.checkpoints.completed if c.path == "p"] == [2]


def test_a_crash_after_the_first_success_does_not_start_the_others_again() -> None:
    async def hangs(call: NodeCall) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    bench = Bench(workflow(THREE.format(", join_policy=first_success")), {"a": hangs, "c": hangs})
    crash_after(bench, "p:b/b")
    before = list(bench.executed)
    state = bench.run(bench.checkpoints.state())
    assert state.status == "success"
    assert bench.executed == [*before, "exit"]
    assert [result["status"] for result in results(state)] == ["canceled", "success", "canceled"]


def test_a_crash_inside_a_nested_block_resumes_in_the_nested_block() -> None:
    bench = Bench(workflow(NESTED), {"a": edit("a", "1"), "b": edit("b", "2"), "c": edit("c", "3")})
    crash_after(bench, "p:q/q:a/a")
    before = list(bench.executed)
    state = bench.run(bench.checkpoints.state())
    assert state.status == "success"
    assert bench.files() == {"a": "1", "b": "2", "c": "3"}
    assert "p:q/q:a/a" not in bench.executed[len(before) :]
    assert state.root.node_visits["a"] == 1


def test_a_branch_that_failed_before_the_crash_stays_failed() -> None:
    async def slow(call: NodeCall) -> Outcome:
        await bench.clock.sleep(10)
        return ok()

    bench = Bench(workflow(TWO.format("")), {"a": slow, "b": fail("red")})
    crash_after(bench, "p:a/a")
    state = bench.run(bench.checkpoints.state())
    assert by_id(state)["b"]["status"] == "fail"
    assert "red" in str(by_id(state)["b"]["reason"])
    assert bench.executed.count("p:b/b") == 1


def test_a_failing_checkpoint_inside_a_branch_stops_the_whole_run() -> None:
    bench = Bench(workflow(TWO.format("")), {"b": forever})
    original = bench.checkpoints.save

    async def save(state: RunState, completed: object) -> object:
        if getattr(completed, "path", "") == "p:a/a":
            raise OSError(28, "No space left on device")
        return await original(state, completed)  # type: ignore[arg-type]

    bench.checkpoints.save = save  # type: ignore[method-assign, assignment]
    with pytest.raises(OSError, match="No space left"):
        bench.run()
    assert bench.names()[-1] == "run.failed"
    assert bench.checkpoints.state().root.completed_nodes == ("start",)


def test_a_timeout_of_the_block_cancels_its_branches() -> None:
    bench = Bench(workflow(TWO.format(", timeout=20ms")), {"a": forever, "b": ok()})
    state = bench.run()
    assert state.status == "fail"
    assert "did not end within its timeout of 20 ms" in (state.failure or "")
