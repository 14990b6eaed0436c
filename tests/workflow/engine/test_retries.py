"""Retries: the policies as numbers, what is tried again, what exhausted retries come to, timeouts."""

from __future__ import annotations

import random

import pytest

from arc.workflow.engine.doors import NodeCall
from arc.workflow.engine.retry import PRESETS, RetryPolicy, policy_of
from arc.workflow.outcome import FailureClass, Outcome

from .support import Bench, fail, forever, ok, workflow


@pytest.mark.parametrize(
    ("attributes", "graph", "attempts", "first_delay"),
    [
        ("", "", 1, 0.5),
        ("", "default_max_retries=2\n", 3, 0.5),
        ("max_retries=1", "default_max_retries=7\n", 2, 0.5),
        ("max_retries=0", "default_max_retries=7\n", 1, 0.5),
        ("retry_policy=none, max_retries=4", "", 1, 0.0),
        ("retry_policy=standard", "", 5, 5.0),
        ("retry_policy=aggressive", "", 5, 0.5),
        ("retry_policy=linear", "", 3, 0.5),
        ("retry_policy=patient, max_retries=9", "default_max_retries=7\n", 3, 2.0),
    ],
)
def test_which_policy_holds(attributes: str, graph: str, attempts: int, first_delay: float) -> None:
    flow = (
        workflow(f"{graph}a [{attributes}]; start -> a -> exit", default_max_retries=0)
        if not graph
        else workflow(f"{graph}a [{attributes}]; start -> a -> exit")
    )
    policy = policy_of(flow.nodes["a"], flow)
    assert (policy.attempts, policy.first_delay) == (attempts, first_delay)


@pytest.mark.parametrize(("name", "policy"), PRESETS.items())
def test_each_named_policy_is_executed(name: str, policy: RetryPolicy) -> None:
    bench = Bench(workflow(f"a [retry_policy={name}]; start -> a -> exit"), {"a": fail("busy", "transient_infra")})
    assert bench.run().status == "fail"
    waits = bench.told("node.retrying")
    assert bench.executed.count("a") == policy.attempts == len(waits) + 1
    for number, told in enumerate(waits):
        nominal = policy.first_delay * policy.factor**number * 1000
        assert isinstance(told["delay_ms"], int)
        assert nominal * 0.5 - 1 <= told["delay_ms"] <= nominal * 1.5


def test_waits_grow_by_the_factor_within_the_jitter_and_stop_at_a_minute() -> None:
    for policy in PRESETS.values():
        for attempt in range(1, 200):
            nominal = min(policy.first_delay * policy.factor ** min(attempt - 1, 64), 60)
            assert nominal * 0.5 <= policy.delay(attempt, random.Random(attempt)) <= min(nominal * 1.5, 60)
    assert RetryPolicy(9, 5.0, 2.0).delay(50, random.Random(0)) <= 60


@pytest.mark.parametrize(
    ("attributes", "failure_class", "attempts"),
    [
        ("max_retries=2", "transient_infra", 3),
        ("max_retries=2", "deterministic", 3),
        ("retry_policy=linear", "deterministic", 3),
        ("max_retries=2", "structural", 1),
        ("max_retries=2", "canceled", 1),
        ("max_retries=2", "budget_exhausted", 1),
        ("", "transient_infra", 4),
        ("", "deterministic", 1),
    ],
)
def test_which_failures_are_tried_again(attributes: str, failure_class: FailureClass, attempts: int) -> None:
    flow = workflow(f"default_max_retries=3\n a [{attributes}]; start -> a -> exit")
    bench = Bench(flow, {"a": fail("no", failure_class)})
    state = bench.run()
    assert [call.attempt for call in bench.calls if call.node.id == "a"] == list(range(1, attempts + 1))
    assert state.root.node_retries["a"] == attempts - 1
    assert state.root.node_visits["a"] == 1
    assert len(bench.checkpoints.saved) == 2
    assert len(bench.told("node.retrying")) == attempts - 1


def test_a_retry_that_helps_goes_on_as_a_success() -> None:
    bench = Bench(workflow("a [max_retries=5]; start -> a -> exit"), {"a": lambda call: ok() if call.attempt == 3 else Outcome("retry")})
    state = bench.run()
    assert state.status == "success"
    assert state.root.node_retries["a"] == 2
    assert [told["attempt"] for told in bench.told("node.retrying")] == [1, 2]
    assert len(bench.clock.slept) == 2
    assert 0.25 <= bench.clock.slept[0] <= 0.75
    assert 0.5 <= bench.clock.slept[1] <= 1.5


def test_the_waits_are_the_same_for_the_same_seed() -> None:
    def slept() -> list[float]:
        bench = Bench(workflow("a [retry_policy=aggressive]; start -> a -> exit"), {"a": fail()})
        bench.run()
        return bench.clock.slept

    assert slept() == slept()


def test_asking_for_a_retry_too_often_is_a_failure() -> None:
    bench = Bench(workflow("a [max_retries=1]; start -> a -> exit"), {"a": Outcome("retry")})
    state = bench.run()
    assert state.root.node_outcomes["a"].status == "fail"
    assert "asked for a retry in each of its 2 attempts" in (state.failure or "")


def test_allow_partial_makes_exhausted_retries_a_partial_success() -> None:
    bench = Bench(workflow("a [max_retries=1, allow_partial=true]; start -> a -> exit"), {"a": fail()})
    state = bench.run()
    assert state.root.node_outcomes["a"].status == "partial_success"
    assert "allow_partial" in state.root.node_outcomes["a"].notes
    assert state.status == "partial_success"


def test_allow_partial_does_not_excuse_a_failure_that_is_not_retried() -> None:
    bench = Bench(workflow("a [max_retries=1, allow_partial=true]; start -> a -> exit"), {"a": fail("no", "structural")})
    assert bench.run().status == "fail"


def test_auto_status_makes_any_failure_a_success_and_says_so() -> None:
    bench = Bench(workflow("a [auto_status=true]; start -> a -> exit"), {"a": fail("cosmetic")})
    state = bench.run()
    outcome = state.root.node_outcomes["a"]
    assert (outcome.status, outcome.failure) == ("success", None)
    assert outcome.notes == "success by `auto_status` although: cosmetic"
    assert state.status == "success"


def test_a_timeout_bounds_each_attempt_and_is_retried() -> None:
    def slow_at_first(call: NodeCall) -> object:
        return forever(call) if call.attempt == 1 else ok()

    flow = workflow("default_max_retries=1\n a [type=mine, timeout=10ms]; start -> a -> exit")
    bench = Bench(flow, {"a": slow_at_first})  # type: ignore[dict-item]
    state = bench.run()
    assert state.status == "success"
    told = bench.told("node.retrying")
    assert told[0]["message"] == "node `a` did not end within its timeout of 10 ms"
    assert told[0]["failure_class"] == "transient_infra"


def test_a_handlers_own_timeout_error_is_not_the_nodes_timeout() -> None:
    def broken(call: NodeCall) -> Outcome:
        raise TimeoutError("database")

    bench = Bench(workflow("a [type=mine, timeout=1h]; start -> a -> exit"), {"a": broken})
    failure = bench.run().root.node_outcomes["a"].failure
    assert failure is not None
    assert failure.message == "node `a` raised TimeoutError: database"


def test_a_second_visit_has_all_its_attempts_again() -> None:
    flow = workflow('default_max_retries=1\n a; start -> a; a -> a [condition="context.go=on"]; a -> exit [condition="context.go=off"]')

    def step(call: NodeCall) -> Outcome:
        if call.attempt == 1:
            return fail("flaky", "transient_infra")
        return ok(context_updates={"go": "on" if call.visit == 1 else "off"})

    bench = Bench(flow, {"a": step})
    state = bench.run()
    assert [(c.visit, c.attempt) for c in bench.calls if c.node.id == "a"] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert state.status == "success"
