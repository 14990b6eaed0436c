"""Goal gates: every declared gate counts, jumps lead back to it, and what cannot be satisfied fails the run by name."""

from __future__ import annotations

from arc.workflow.engine.gates import gate_target, unsatisfied_gates
from arc.workflow.outcome import Outcome

from .support import Bench, fail, ok, workflow

GATE = "plan; gate [goal_gate=true{}]; d [shape=diamond]; start -> plan -> gate -> d -> exit"


def test_unsatisfied_gates_come_in_the_order_of_the_file() -> None:
    flow = workflow("z [goal_gate=true]; a [goal_gate=true]; m [goal_gate=true]; k; start -> z -> a -> m -> k -> exit")
    outcomes = {"a": fail(), "m": Outcome("partial_success")}
    assert [gate.id for gate in unsatisfied_gates(flow, outcomes)] == ["z", "a"]
    assert unsatisfied_gates(flow, {"z": ok(), "a": Outcome("skipped"), "m": ok()}) == ()


def test_a_gates_own_targets_come_before_the_graphs() -> None:
    graph = "retry_target=c\n fallback_retry_target=d\n a; b; c; d; start -> a -> b -> c -> d -> exit\n g [goal_gate=true{}]; a -> g -> b\n"

    def target(attributes: str) -> str | None:
        flow = workflow(graph.format(attributes))
        return gate_target(flow, flow.nodes["g"])

    assert target(", retry_target=a, fallback_retry_target=b") == "a"
    assert target(", fallback_retry_target=b") == "b"
    assert target("") == "c"


def test_a_failed_gate_sends_the_walk_back_and_is_executed_again() -> None:
    bench = Bench(workflow(GATE.format(", retry_target=plan")), {"gate": [fail(), ok()]})
    # the failed gate itself has a retry target, so it goes there at once
    assert bench.run().status == "success"
    assert bench.executed == ["start", "plan", "gate", "plan", "gate", "d", "exit"]


def test_the_exit_is_not_passed_with_an_unsatisfied_gate() -> None:
    bench = Bench(workflow("retry_target=plan\n" + GATE.format("")), {"gate": [fail(), ok()]})
    state = bench.run()
    assert state.status == "success"
    assert bench.executed == ["start", "plan", "gate", "d", "plan", "gate", "d", "exit"]
    assert {"target": "plan", "why": "goal_gate"} in bench.told("edge.selected")


def test_an_unsatisfied_gate_without_a_target_fails_the_run_by_name() -> None:
    bench = Bench(workflow(GATE.format("")), {"gate": fail()})
    state = bench.run()
    assert state.status == "fail"
    assert state.failure == "the exit was reached with unsatisfied goal gates: `gate` (fail); none has a `retry_target`"
    assert "exit" not in bench.executed
    assert bench.checkpoints.state().status == "fail"


def test_a_gate_that_routing_went_around_is_unsatisfied() -> None:
    bench = Bench(workflow('a; gate [goal_gate=true]; start -> a -> exit; a -> gate [condition="context.never=1"]; gate -> exit'))
    state = bench.run()
    assert state.failure == "the exit was reached with unsatisfied goal gates: `gate` (never executed); none has a `retry_target`"


def test_a_bypassed_gate_can_be_a_retry_target_itself() -> None:
    flow = workflow(
        'a; gate [goal_gate=true, retry_target=gate]; start -> a -> exit; a -> gate [condition="context.never=1"]; gate -> exit'
    )
    bench = Bench(flow)
    assert bench.run().status == "success"
    assert bench.executed == ["start", "a", "gate", "exit"]


def test_a_way_back_that_never_meets_the_gate_ends() -> None:
    flow = workflow('retry_target=a\n a; gate [goal_gate=true]; start -> a -> exit; a -> gate [condition="context.never=1"]; gate -> exit')
    bench = Bench(flow)
    state = bench.run()
    assert state.status == "fail"
    assert bench.executed == ["start", "a", "a"]
    assert "already went back to `a` for `gate`, and came here without executing that gate" in (state.failure or "")


def test_jumps_for_a_gate_count_as_visits() -> None:
    flow = workflow("retry_target=plan\n plan [max_visits=2]; gate [goal_gate=true]; d [shape=diamond]; start -> plan -> gate -> d -> exit")
    bench = Bench(flow, {"gate": lambda call: fail("x" * call.visit)})
    state = bench.run()
    assert bench.executed.count("plan") == 2
    assert "`max_visits=2`" in (state.failure or "")


def test_gates_passed_before_a_crash_stay_passed() -> None:
    bench = Bench(workflow("gate [goal_gate=true]; b; start -> gate -> b -> exit"))
    bench.run()
    assert bench.run(bench.checkpoints.state(1)).status == "success"
    assert bench.executed.count("gate") == 1


def test_a_run_that_failed_at_its_gates_runs_the_failed_gate_again_when_resumed() -> None:
    outcomes = [fail()]
    bench = Bench(workflow(GATE.format("")), {"gate": lambda call: outcomes[-1]})
    assert bench.run().status == "fail"
    outcomes.append(ok())
    state = bench.run(bench.checkpoints.state())
    assert state.status == "success"
    assert bench.executed == ["start", "plan", "gate", "d", "gate", "d", "exit"]


def test_a_gate_inside_a_parallel_branch_counts() -> None:
    text = "p [shape=component]; a; b [goal_gate=true]; f [shape=tripleoctagon]; start -> p; p -> a -> f; p -> b -> f; f -> exit"
    assert Bench(workflow(text)).run().status == "success"
    state = Bench(workflow(text), {"b": fail()}).run()
    assert state.failure == "the exit was reached with unsatisfied goal gates: `b` (fail); none has a `retry_target`"
