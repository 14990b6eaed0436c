"""The simple walk: nodes in order, one checkpoint after each, events, context, ordinals, and what a final state says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from arc.base.json import JsonValue
from arc.workflow.engine.doors import HookVerdict, NodeCall
from arc.workflow.failures import HandlerError
from arc.workflow.outcome import Outcome

from .support import Bench, Crash, Step, edit, fail, forever, ok, workflow

LINE = 'a [shape=parallelogram, script="true"]; b [shape=parallelogram, script="true"]; start -> a -> b -> exit'


def test_nodes_run_in_order_each_with_a_checkpoint() -> None:
    bench = Bench(workflow(LINE), {"a": edit("x", "1"), "b": edit("y", "2")})
    state = bench.run()
    assert bench.executed == ["start", "a", "b", "exit"]
    assert [(c.path, c.ordinal, c.status) for c in bench.checkpoints.completed] == [
        ("start", 1, "success"),
        ("a", 2, "success"),
        ("b", 3, "success"),
        ("exit", 4, "success"),
    ]
    assert (state.status, state.failure, state.ordinal, state.next_ordinal) == ("success", None, 4, 5)
    assert state.root.completed_nodes == ("start", "a", "b", "exit")
    assert state.root.node_visits == {"start": 1, "a": 1, "b": 1, "exit": 1}
    assert state.root.node_retries == {"start": 0, "a": 0, "b": 0, "exit": 0}
    assert (state.root.current_node, state.root.next_node_id) == ("exit", None)
    assert bench.files() == {"x": "1", "y": "2"}


def test_each_checkpoint_names_the_next_node_and_the_edge_into_it() -> None:
    bench = Bench(workflow(LINE))
    bench.run()
    states = [bench.checkpoints.state(index) for index in range(4)]
    assert [state.root.next_node_id for state in states] == ["a", "b", "exit", None]
    assert [state.root.incoming_edge for state in states] == [0, 1, 2, None]
    assert [state.status for state in states] == ["running", "running", "running", "success"]
    assert [state.root.git_commit_sha for state in states] == ["c1", "c2", "c3", "c4"]


def test_events_tell_the_run_in_order() -> None:
    bench = Bench(workflow("a; start -> a -> exit"))
    bench.run()
    assert bench.names() == [
        "run.started",
        *("node.started", "node.completed", "edge.selected") * 2,
        *("node.started", "node.completed"),
        "run.completed",
    ]
    assert [(e.node, e.ordinal) for e in bench.events if e.name == "node.completed"] == [("start", 1), ("a", 2), ("exit", 3)]


def test_the_context_tells_where_the_walk_stands() -> None:
    long = "x" * 500
    bench = Bench(
        workflow('label="L"\n a; b; start -> a -> b -> exit', goal="make it so"),
        {"a": ok(preferred_label="Fix", context_updates={"response.a": long, "answer": [1, {"deep": True}]})},
    )
    bench.run()
    before_b = bench.calls[2].context
    assert before_b["outcome"] == "success"
    assert before_b["preferred_label"] == "Fix"
    assert (before_b["current_node"], before_b["last_stage"]) == ("a", "a")
    assert before_b["last_response"] == "x" * 200
    assert before_b["answer"] == [1, {"deep": True}]
    assert (before_b["graph.goal"], before_b["graph.label"]) == ("make it so", "L")
    assert (before_b["internal.run_id"], before_b["internal.work_dir"]) == ("01TEST", "/nowhere")
    assert (before_b["internal.node_visit_count"], before_b["internal.retry_count.b"]) == (1, 0)
    stored = bench.checkpoints.state().root.context_values
    assert "internal.work_dir" not in stored


def test_the_runs_inputs_are_in_the_context_and_survive_a_loop_restart() -> None:
    text = 'a; start -> a; a -> start [condition="outcome=fail", loop_restart=true]; a -> exit [condition="outcome=success"]'
    bench = Bench(workflow(text, inputs={"branch": "main"}), {"a": [fail("net", "transient_infra"), ok()]})
    assert bench.run().root.context_values["input.branch"] == "main"


def test_retries_given_to_a_block_are_told_to_have_no_effect() -> None:
    bench = Bench(workflow("p [shape=component, max_retries=2]; f [shape=tripleoctagon]; a; start -> p -> a -> f -> exit"))
    bench.run()
    assert [(told["code"], told["level"]) for told in bench.told("run.notice")] == [("retries_ignored", "warning")]


def test_a_handler_cannot_change_the_engines_values_through_what_it_got_or_gave() -> None:
    given: list[JsonValue] = [1]

    def a(call: NodeCall) -> Outcome:
        return ok(context_updates={"list": given})

    def b(call: NodeCall) -> Outcome:
        given.append(2)
        held = call.context["list"]
        assert isinstance(held, list)
        held.append(3)
        return ok()

    bench = Bench(workflow("a; b; start -> a -> b -> exit"), {"a": a, "b": b})
    assert bench.run().root.context_values["list"] == [1]


def test_a_handlers_exception_is_a_failure_with_its_traceback_in_the_log() -> None:
    def broken(call: NodeCall) -> Outcome:
        raise ZeroDivisionError("one by none")

    bench = Bench(workflow("a; start -> a -> exit"), {"a": broken})
    state = bench.run()
    failure = state.root.node_outcomes["a"].failure
    assert failure is not None
    assert failure.failure_class == "structural"
    assert failure.message == "node `a` raised ZeroDivisionError: one by none"
    assert b"Traceback" in bench.logs[1].stderr
    assert bench.logs[1].records[-1]["status"] == "fail"
    assert bench.logs[1].closed


async def _finds_itself_cancelled(call: NodeCall) -> Outcome:
    raise asyncio.CancelledError


def _leaves(call: NodeCall) -> Outcome:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("step", "message"), [(_finds_itself_cancelled, "raised CancelledError although the run was not cancelled"), (_leaves, "sys.exit(3)")]
)
def test_a_handler_cannot_end_the_walk_or_the_process(step: Step, message: str) -> None:
    bench = Bench(workflow("a; start -> a -> exit"), {"a": step})
    assert message in str(bench.run().failure)
    block = Bench(
        workflow("p [shape=component]; f [shape=tripleoctagon]; a; b; start -> p; p -> a -> f; p -> b -> f; f -> exit"), {"a": step}
    )
    state = block.run()
    assert state.status == "partial_success"
    assert block.told("parallel.completed") == [{"status": "partial_success", "succeeded": ["b"], "failed": ["a"], "canceled": []}]


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("success", context_updates={"place": Path("/")}),  # type: ignore[dict-item]
        Outcome("success", context_updates={"text": "\ud800"}),
        Outcome("success", context_updates=["no object"]),  # type: ignore[arg-type]
        Outcome("done"),  # type: ignore[arg-type]
        Outcome("success", preferred_label=3),  # type: ignore[arg-type]
        Outcome("success", suggested_next_ids="exit"),  # type: ignore[arg-type]
    ],
)
def test_an_outcome_that_no_checkpoint_can_hold_fails_its_node(outcome: Outcome) -> None:
    bench = Bench(workflow("a; start -> a -> exit"), {"a": outcome})
    state = bench.run()
    assert "that no checkpoint can hold" in str(state.failure)
    assert bench.checkpoints.state().status == "fail"


def test_a_typed_failure_keeps_its_class_and_gets_a_signature() -> None:
    def broken(call: NodeCall) -> Outcome:
        raise HandlerError("budget 17 used up", failure_class="budget_exhausted")

    bench = Bench(workflow("a; start -> a -> exit"), {"a": broken})
    state = bench.run()
    assert state.status == "fail"
    assert state.root.context_values["failure_class"] == "budget_exhausted"
    assert state.root.context_values["failure_signature"] == "a|budget_exhausted|budget <n> used up"
    assert bench.told("node.failed")[0]["failure_signature"] == "a|budget_exhausted|budget <n> used up"


def test_something_that_is_no_outcome_is_a_structural_failure() -> None:
    async def nothing() -> None:
        return None

    bench = Bench(workflow("a; start -> a -> exit"), {"a": lambda call: nothing()})  # type: ignore[dict-item, return-value]
    state = bench.run()
    failure = state.root.node_outcomes["a"].failure
    assert failure is not None
    assert failure.message == "the handler of node `a` returned NoneType instead of an Outcome"


def test_hooks_can_skip_and_block_a_node() -> None:
    bench = Bench(workflow("a; b; start -> a -> b -> exit"))
    bench.hooks.verdicts = {"a": HookVerdict("skip", "not today"), "b": HookVerdict("block", "forbidden")}
    state = bench.run()
    assert bench.executed == ["start"]
    assert state.root.node_outcomes["a"].status == "skipped"
    assert state.root.completed_nodes == ("start", "a", "b")
    assert state.failure is not None
    assert "forbidden" in state.failure
    assert bench.hooks.after == [("start", "success")]


def test_a_checkpoint_that_cannot_be_kept_stops_the_run() -> None:
    bench = Bench(workflow(LINE))
    bench.checkpoints.failing = OSError(28, "No space left on device")
    with pytest.raises(OSError, match="No space left"):
        bench.run()
    assert bench.executed == ["start"]
    assert bench.names()[-1] == "run.failed"
    assert "No space left" in str(bench.told("run.failed")[0]["reason"])


def test_cancellation_ends_the_node_and_is_passed_on() -> None:
    bench = Bench(workflow(LINE), {"b": forever})

    async def scene() -> None:
        task = asyncio.create_task(bench.go())
        await bench.reached("b")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scene())
    assert bench.names()[-1] == "run.canceled"
    assert bench.logs[-1].records[-1]["status"] == "canceled"
    assert bench.logs[-1].closed
    assert bench.checkpoints.state().root.next_node_id == "b"


def test_a_resume_goes_on_with_the_interrupted_node_under_a_new_ordinal_in_the_same_visit() -> None:
    bench = Bench(workflow(LINE), {"a": edit("x", "1"), "b": edit("y", "2")})
    bench.checkpoints.crash_after = 1
    with pytest.raises(Crash):
        bench.run()
    bench.checkpoints.crash_after = None
    state = bench.run(bench.checkpoints.state())
    assert bench.executed == ["start", "a", "b", "exit"]
    assert state.status == "success"
    assert state.root.node_visits["b"] == 1
    assert bench.files() == {"x": "1", "y": "2"}
    assert "run.resumed" in bench.names()


def test_a_failed_run_runs_its_failed_node_again_in_the_same_visit() -> None:
    outcomes = [fail("broken")]
    bench = Bench(workflow(LINE), {"b": lambda call: outcomes[-1]})
    failed = bench.run()
    assert (failed.status, failed.root.next_node_id) == ("fail", None)
    assert failed.failure is not None
    assert "broken" in failed.failure
    outcomes.append(ok())
    state = bench.run(bench.checkpoints.state())
    assert bench.executed == ["start", "a", "b", "b", "exit"]
    assert [call.ordinal for call in bench.calls] == [1, 2, 3, 4, 5]
    assert [call.visit for call in bench.calls] == [1, 1, 1, 1, 1]
    assert state.status == "success"
    assert state.failure is None
    assert state.root.node_visits["b"] == 1


def test_a_partial_success_shows_in_the_runs_status() -> None:
    bench = Bench(workflow(LINE), {"a": Outcome("partial_success")})
    assert bench.run().status == "partial_success"


def test_a_thousand_visits_stay_fast_and_small() -> None:
    flow = workflow('a; start -> a; a -> a [condition="context.go=yes"]; a -> exit [condition="context.go=no"]')
    bench = Bench(flow, {"a": lambda call: ok(context_updates={"go": "yes" if call.visit < 1000 else "no"})})
    state = bench.run()
    assert state.status == "success"
    assert state.root.node_visits["a"] == 1000
    grown = len(bench.checkpoints.saved[900]) - len(bench.checkpoints.saved[100])
    assert grown < 800 * 20  # one name in `completed_nodes` per visit, nothing else
