"""Fidelity: which mode and thread hold, and preambles that are bounded, deterministic and keep the newest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc.base.json import JsonValue
from arc.workflow.engine.fidelity import COMPACT_CHARACTERS, SUMMARY_TOKENS, build_preamble, choose_fidelity, choose_thread
from arc.workflow.model import Fidelity, Workflow
from arc.workflow.outcome import Failure, Outcome
from tests.workflow.engine.support import workflow

FLOW = workflow('start -> a -> b -> exit\n a [prompt="x"]\n b [prompt="y", class="review deep"]', goal="ship the thing")
MODES: tuple[Fidelity, ...] = ("full", "compact", "summary:low", "summary:medium", "summary:high", "truncate")


def preamble(
    mode: Fidelity, completed: list[str], outcomes: dict[str, Outcome], context: dict[str, JsonValue], flow: Workflow = FLOW
) -> str:
    return build_preamble(mode, workflow=flow, completed=completed, outcomes=outcomes, context=context)


def test_edge_before_node_before_graph() -> None:
    edge, node = FLOW.edges[0], FLOW.nodes["a"]
    assert choose_fidelity(None, node, FLOW, previous_lost=False) == "compact"
    assert choose_fidelity(edge, replace(node, fidelity="truncate"), FLOW, previous_lost=False) == "truncate"
    assert choose_fidelity(replace(edge, fidelity="full"), replace(node, fidelity="truncate"), FLOW, previous_lost=False) == "full"


def test_full_is_downgraded_only_where_the_conversation_is_lost() -> None:
    node = replace(FLOW.nodes["a"], fidelity="full")
    assert choose_fidelity(None, node, FLOW, previous_lost=True) == "summary:high"
    assert choose_fidelity(None, replace(node, fidelity="summary:low"), FLOW, previous_lost=True) == "summary:low"


def test_thread_precedence() -> None:
    edge, node = replace(FLOW.edges[1], thread_id="edge"), FLOW.nodes["b"]
    flow = replace(FLOW, default_thread="graph")
    assert choose_thread(edge, replace(node, thread_id="node"), flow, "a") == "node"
    assert choose_thread(edge, node, flow, "a") == "edge"
    assert choose_thread(FLOW.edges[1], node, flow, "a") == "graph"
    assert choose_thread(FLOW.edges[1], node, FLOW, "a") == "review"
    assert choose_thread(FLOW.edges[0], FLOW.nodes["a"], FLOW, "start") == "start"
    assert choose_thread(None, FLOW.nodes["a"], FLOW, None) == "a"


def test_full_has_no_preamble_and_truncate_only_goal_and_run() -> None:
    outcomes = {"a": Outcome("success")}
    context: dict[str, JsonValue] = {"response.a": "said", "internal.run_id": "01RUN"}
    assert preamble("full", ["a"], outcomes, context) == ""
    assert preamble("truncate", ["a"], outcomes, context) == "Goal: ship the thing\nRun: 01RUN"


def test_compact() -> None:
    outcomes = {
        "start": Outcome("success"),
        "a": Outcome("success", notes="fine"),
        "b": Outcome("fail", failure=Failure("exit code 3")),
    }
    context: dict[str, JsonValue] = {
        "response.a": "the\n  plan",
        "risk": "low",
        "outcome": "fail",
        "graph.goal": "x",
        "response.b": {"$artifact": "a", "bytes": 5},
    }
    assert preamble("compact", ["start", "a", "b", "a"], outcomes, context) == (
        "Goal: ship the thing\n\n"
        "## Completed so far\n"
        "- b: fail; failed: exit code 3; said: (5 bytes, too large to show)\n"
        "- a: success, 2 visits; fine; said: the plan\n\n"
        "## Context\n- risk = low"
    )


def test_what_the_engine_itself_keeps_in_the_context_is_not_told() -> None:
    context: dict[str, JsonValue] = {
        "input.ticket": "T-1",
        "graph.goal": "g",
        "internal.run_id": "R",
        "command.output": "o",
        "parallel.results": [],
        "choice": "blue",
    }
    told = preamble("summary:high", ["a"], {"a": Outcome("success")}, context)
    assert "blue" in told
    assert not [word for word in ("T-1", "input.ticket", "internal.run_id", "command.output") if word in told]


def test_summaries_tell_more_the_larger_they_are_and_keep_the_newest() -> None:
    names = [f"n{index}" for index in range(40)]
    outcomes = {name: Outcome("success") for name in names}
    context: dict[str, JsonValue] = {f"response.{name}": f"{name} says " + "word " * 400 for name in names}
    sizes = []
    for mode in ("summary:low", "summary:medium", "summary:high"):
        text = preamble(mode, names, outcomes, context)
        assert "### n39: success" in text
        assert "### n0: success" not in text
        assert "earlier nodes are left out" in text
        sizes.append(len(text))
    assert sizes == sorted(sizes)
    assert sizes[0] > SUMMARY_TOKENS["summary:low"] * 2


def test_a_short_run_is_told_in_order() -> None:
    outcomes = {"a": Outcome("success"), "b": Outcome("success", preferred_label="Ship")}
    text = preamble("summary:high", ["a", "b"], outcomes, {"response.a": "one", "response.b": "two"})
    assert text.index("### a: success\none") < text.index("### b: success\nIt chose: Ship\ntwo")


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(MODES),
    st.lists(st.sampled_from(["a", "b", "start", "other"]), max_size=30),
    st.text(max_size=3_000),
    st.dictionaries(st.text(max_size=20), st.text(max_size=400) | st.integers() | st.none(), max_size=20),
    st.text(max_size=5_000),
)
def test_every_preamble_is_bounded_and_repeatable(
    mode: Fidelity, completed: list[str], output: str, extra: dict[str, JsonValue], goal: str
) -> None:
    flow = replace(FLOW, goal=goal)
    outcomes = {name: Outcome("fail", notes=output, failure=Failure(output)) for name in completed}
    context: dict[str, JsonValue] = {**extra, **{f"response.{name}": output for name in completed}}
    text = preamble(mode, completed, outcomes, context, flow)
    assert text == preamble(mode, completed, outcomes, dict(reversed(context.items())), flow)
    limit = COMPACT_CHARACTERS if mode == "compact" else SUMMARY_TOKENS.get(mode, 1_000) * 4
    assert len(text) <= max(limit, 2_100)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_completed(mode: Fidelity) -> None:
    assert preamble(mode, [], {}, {}) == ("" if mode == "full" else "Goal: ship the thing")
