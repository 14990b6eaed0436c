"""Edge selection: the table of rules as pure choices, then what failed nodes, diamonds and jumps do in a run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from arc.base.bounded import bounded_search
from arc.workflow.engine.graph import Graph
from arc.workflow.engine.routing import Chosen, Situation, Stuck, choose, normalise_label
from arc.workflow.outcome import Failure, Outcome

from .support import Bench, fail, ok, workflow

TARGETS = "n; a; b; c; d [shape=diamond]; h [shape=hexagon]; start -> n; a -> exit; b -> exit; c -> exit; d -> exit; start -> h -> a\n"


def pick(edges: str, outcome: Outcome, *, node: str = "n", more: str = "", **context: str) -> str:
    """`target why`, or `stuck`."""
    graph = Graph(workflow(TARGETS + edges + more))
    found = choose(graph, Situation(graph.nodes[node], outcome, outcome, dict(context), seed="1"))
    return f"{found.target} {found.why}" if isinstance(found, Chosen) else "stuck"


@pytest.mark.parametrize(
    ("edges", "outcome", "expected"),
    [
        # 1: true conditions, by weight, then target, then file
        ('n -> a [condition="outcome=success"]; n -> b', ok(), "a condition"),
        ('n -> a [condition="outcome=fail"]; n -> b', ok(), "b unconditional"),
        ('n -> b [condition="outcome=success"]; n -> a [condition="outcome=success"]', ok(), "a condition"),
        ('n -> b [condition="outcome=success", weight=1]; n -> a [condition="outcome=success"]', ok(), "b condition"),
        ('n -> a [condition="context.k=v"]; n -> b [condition="context.k!=v"]', ok(), "b condition"),
        # a true condition beats label and suggestion
        ('n -> a [condition="outcome=success"]; n -> b [label="go"]', ok(preferred_label="go", suggested_next_ids=("b",)), "a condition"),
        # a false condition is never taken, whatever else speaks for the edge
        ('n -> a [condition="outcome=fail"]', ok(), "stuck"),
        ('n -> a [condition="outcome=fail", label="go", weight=9]', ok(preferred_label="go", suggested_next_ids=("a",)), "stuck"),
        ('n -> a [condition="outcome=success"]', fail(), "stuck"),
        # 2: jump
        ("n -> a", ok(jump_to_node="c"), "c jump"),
        ("n -> a", ok(jump_to_node="nowhere"), "stuck"),
        # 3: preferred label among edges without a condition
        ('n -> a [label="yes"]; n -> b [label="no"]', ok(preferred_label="no"), "b label"),
        ('n -> a [label="[Y] Yes"]; n -> b [label="N) Not  Now"]', ok(preferred_label="not now"), "b label"),
        ('n -> a [label="A - Accept"]; n -> b', ok(preferred_label="ACCEPT"), "a label"),
        ('n -> b [label="go"]; n -> a [label="go"]', ok(preferred_label="go"), "a label"),
        ('n -> a [label="yes"]; n -> b [label="no"]', ok(preferred_label="maybe"), "a unconditional"),
        # 4: suggestions, in their order
        ("n -> a; n -> b; n -> c", ok(suggested_next_ids=("x", "c", "b")), "c suggested"),
        ('n -> a [label="yes"]; n -> b', ok(preferred_label="yes", suggested_next_ids=("b",)), "a label"),
        # 5: weight, then target
        ("n -> b; n -> a", ok(), "a unconditional"),
        ("n -> b [weight=2]; n -> a [weight=1]", ok(), "b unconditional"),
        ('n -> a [label="yes"]', ok(), "a unconditional"),
        # a failed node
        ("n -> a", fail(), "stuck"),
        ('n -> a; n -> b [condition="outcome=fail"]', fail(), "b condition"),
        ("n -> a; n -> d", fail(), "d unconditional"),
        ('n -> a [label="go"]', fail(preferred_label="go", suggested_next_ids=("a",)), "stuck"),
        ("n -> a", fail(jump_to_node="c"), "c jump"),
        ('n -> a [condition="preferred_label=conflict"]', fail(preferred_label="conflict"), "a condition"),
        # other outcomes are no failures
        ("n -> a", Outcome("partial_success"), "a unconditional"),
        ("n -> a", Outcome("skipped"), "a unconditional"),
        ('n -> a [condition="outcome=succeeded"]', ok(), "a condition"),
    ],
)
def test_the_rules_of_edge_selection(edges: str, outcome: Outcome, expected: str) -> None:
    assert pick(edges, outcome) == expected


@pytest.mark.parametrize(
    ("node_attributes", "graph", "expected"),
    [
        ("retry_target=b", "", "b retry_target"),
        ("fallback_retry_target=b", "", "b retry_target"),
        ("retry_target=b, fallback_retry_target=c", "retry_target=a\n", "b retry_target"),
        ("", "retry_target=c\n", "c retry_target"),
        ("", "fallback_retry_target=c\n", "c retry_target"),
    ],
)
def test_a_failed_node_goes_to_its_retry_target(node_attributes: str, graph: str, expected: str) -> None:
    flow = workflow(f"{graph}n [{node_attributes}]; a; b; c; start -> n -> a -> b -> c -> exit")
    index = Graph(flow)
    found = choose(index, Situation(index.nodes["n"], fail(), fail(), {}))
    assert isinstance(found, Chosen)
    assert f"{found.target} {found.why}" == expected


def test_a_diamond_comes_before_the_graphs_retry_target_and_after_the_nodes() -> None:
    flow = workflow("retry_target=b\n n; d [shape=diamond]; b; start -> n -> d -> b -> exit")
    graph = Graph(flow)
    situation = Situation(graph.nodes["n"], fail(), fail(), {})
    assert choose(graph, situation) == Chosen("d", graph.outgoing("n")[0], "unconditional")
    own = replace(situation, node=replace(graph.nodes["n"], retry_target="b"))
    assert choose(graph, own) == Chosen("b", None, "retry_target")


def test_a_failed_human_gate_does_not_even_fall_through_to_a_diamond() -> None:
    assert pick("h -> d", fail(), node="h") == "stuck"


def test_a_loop_restart_edge_is_crossed_by_success_and_passing_trouble_only() -> None:
    edges = 'n -> a [condition="outcome=fail", loop_restart=true]; n -> b [condition="outcome=fail"]'
    assert pick(edges, fail(failure_class="transient_infra")) == "a condition"
    assert pick(edges, fail()) == "b condition"
    assert pick("n -> a [loop_restart=true]", ok()) == "a unconditional"


def test_a_random_selection_is_the_same_for_the_same_seed_and_covers_all_edges() -> None:
    graph = Graph(workflow("n [selection=random]; a; b; start -> n -> a -> exit; n -> b -> exit"))

    def chosen(seed: int) -> str:
        found = choose(graph, Situation(graph.nodes["n"], ok(), ok(), {}, seed=str(seed)))
        assert isinstance(found, Chosen)
        assert found.why == "random"
        return found.target

    assert [chosen(seed) for seed in range(20)] == [chosen(seed) for seed in range(20)]
    assert {chosen(seed) for seed in range(20)} == {"a", "b"}


def test_being_stuck_names_node_outcome_edges_and_cause() -> None:
    graph = Graph(workflow('n; a; b; start -> n; n -> a [condition="outcome=success"]; n -> b; a -> exit; b -> exit'))
    outcome = Outcome("fail", failure=Failure("exit code 3"))
    found = choose(graph, Situation(graph.nodes["n"], outcome, outcome, {}))
    assert isinstance(found, Stuck)
    assert found.reason == (
        "node `n` ended with outcome `fail` and no edge matches (`n -> a` needs `outcome=success`; "
        "`n -> b` has no condition and a failed node does not follow it): exit code 3"
    )


@pytest.mark.parametrize(
    ("label", "expected"),
    [("[A] Approve", "approve"), ("Y) Yes, do", "yes, do"), ("N - No", "no"), ("  Two   Words ", "two words"), ("a-b", "a-b"), ("A", "a")],
)
def test_labels_are_compared_without_case_spaces_and_accelerator(label: str, expected: str) -> None:
    assert normalise_label(label) == expected


# --- in a run ---------------------------------------------------------------------------------------------------------------------------


def test_a_run_without_a_matching_edge_fails_and_says_why() -> None:
    bench = Bench(workflow('a; start -> a; a -> exit [condition="outcome=success"]'), {"a": fail("exit code 1")})
    state = bench.run()
    assert state.status == "fail"
    assert state.failure == "node `a` ended with outcome `fail` and no edge matches (`a -> exit` needs `outcome=success`): exit code 1"
    assert bench.executed == ["start", "a"]
    assert bench.checkpoints.state().status == "fail"
    assert bench.told("run.failed")[0]["reason"] == state.failure


def test_a_failed_node_never_walks_on_to_the_next_stage() -> None:
    bench = Bench(workflow("setup; solve; start -> setup -> solve -> exit"), {"setup": fail()})
    assert bench.run().status == "fail"
    assert "solve" not in bench.executed


DIAMOND = """
    test; check [shape=diamond]; fix; ship
    start -> test -> check
    check -> ship [condition="outcome=success"]
    check -> fix  [condition="outcome=fail"]
    fix -> test
    ship -> exit
"""


def test_a_diamond_routes_on_the_outcome_of_the_node_before_it() -> None:
    bench = Bench(workflow(DIAMOND), {"test": [fail(), ok()]})
    state = bench.run()
    assert bench.executed == ["start", "test", "check", "fix", "test", "check", "ship", "exit"]
    assert state.status == "success"
    assert state.root.node_outcomes["check"].status == "success"


def test_a_diamond_leaves_the_outcome_visible() -> None:
    bench = Bench(workflow(DIAMOND), {"test": [fail("red"), ok()]})
    bench.run()
    in_fix = next(call for call in bench.calls if call.node.id == "fix").context
    assert (in_fix["outcome"], in_fix["last_stage"], in_fix["current_node"]) == ("fail", "test", "check")
    assert in_fix["failure_class"] == "deterministic"


def test_a_diamond_passes_the_preferred_label_on() -> None:
    flow = workflow('ask; d [shape=diamond]; a; b; start -> ask -> d; d -> a [label="left"]; d -> b [label="right"]; a -> exit; b -> exit')
    bench = Bench(flow, {"ask": ok(preferred_label="Right")})
    bench.run()
    assert bench.executed == ["start", "ask", "d", "b", "exit"]


def test_the_edge_without_a_condition_after_a_diamond_is_its_else() -> None:
    flow = workflow('t; d [shape=diamond]; fix; start -> t -> d; d -> exit [condition="outcome=success"]; d -> fix; fix -> exit')
    bench = Bench(flow, {"t": fail()})
    assert bench.run().status == "success"
    assert bench.executed == ["start", "t", "d", "fix", "exit"]


def test_a_retry_target_is_walked_from_again() -> None:
    bench = Bench(workflow("plan; build [retry_target=plan]; start -> plan -> build -> exit"), {"build": [fail("one"), ok()]})
    assert bench.run().status == "success"
    assert bench.executed == ["start", "plan", "build", "plan", "build", "exit"]
    assert [told["why"] for told in bench.told("edge.selected")] == [
        "unconditional",
        "unconditional",
        "retry_target",
        "unconditional",
        "unconditional",
    ]


def test_a_failed_exit_fails_the_run() -> None:
    bench = Bench(workflow("a; start -> a -> exit"), {"exit": fail("hook said no")})
    state = bench.run()
    assert (state.status, state.failure) == ("fail", "the exit node `exit` failed: hook said no")


def test_a_condition_that_takes_for_ever_ends_the_run_and_is_not_taken_for_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arc.workflow.language.conditions.bounded_search", partial(bounded_search, seconds=0.05))
    text = """
 a [shape=parallelogram, script="x"]
 b [shape=parallelogram, script="x"]
 start -> a
 a -> b [condition="context.text matches '^(a+)+$'"]
 a -> exit
 b -> exit
"""
    bench = Bench(workflow(text), {"a": ok(context_updates={"text": "a" * 60 + "!"})})
    state = bench.run()
    assert state.status == "fail"
    assert "an edge of node `a` cannot be judged" in str(state.failure)
    assert bench.executed == ["start", "a"]
