"""A crash after any checkpoint changes nothing: random workflows, killed and resumed from the saved JSON, end as if never killed.

The property: the same final files, status, visits and outcomes, and every node executed as often, except for executions that the crash
interrupted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arc.workflow.engine.doors import NodeCall
from arc.workflow.outcome import Outcome
from arc.workflow.state import RunState

from .support import Bench, Crash, MemoryWorkspace, Step, fail, ok, workflow

CHILD = "digraph c { start [shape=Mdiamond]; exit [shape=Msquare]; k1; k2; start -> k1 -> k2 -> exit }"


@dataclass(frozen=True)
class Piece:
    """A part of a workflow that is entered at `first` and left from `last`."""

    text: str
    first: str
    last: str


@st.composite
def pieces(draw: st.DrawFn, name: str, depth: int, *, routed: bool = True) -> Piece:
    """A stage, a loop through a diamond, a chain, a parallel block or a child workflow; failures lead somewhere only where `routed`."""
    kinds = ["stage", "child", *(["loop", "targeted"] if routed else []), *(["chain", "block", "chain"] if depth else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "stage":
        return Piece(f"{name};", name, name)
    if kind == "child":
        return Piece(f'{name} [shape=house, stack.child_workflow="c.dot"];', name, name)
    if kind == "targeted":
        return Piece(f"{name}; {name}T [retry_target={name}]; {name} -> {name}T;", name, f"{name}T")
    if kind == "loop":
        text = f"{name}; {name}D [shape=diamond]; {name}F; {name}E; {name} -> {name}D; {name}F -> {name};"
        text += f'{name}D -> {name}F [condition="outcome=fail"]; {name}D -> {name}E [condition="outcome!=fail"];'
        return Piece(text, name, f"{name}E")
    parts = [draw(pieces(f"{name}{letter}", depth - 1, routed=routed)) for letter in "xyz"[: draw(st.integers(2, 3))]]
    text = " ".join(part.text for part in parts)
    if kind == "chain":
        links = " ".join(f"{a.last} -> {b.first};" for a, b in pairwise(parts))
        return Piece(f"{text} {links}", parts[0].first, parts[-1].last)
    limit = draw(st.integers(1, 3))
    text += f" {name} [shape=component, max_parallel={limit}]; {name}J [shape=tripleoctagon];"
    text += " ".join(f"{name} -> {part.first}; {part.last} -> {name}J;" for part in parts)
    return Piece(text, name, f"{name}J")


@st.composite
def graphs(draw: st.DrawFn, *, routed: bool = True) -> str:
    piece = draw(pieces("n", 2, routed=routed))
    return f"{piece.text} start -> {piece.first}; {piece.last} -> exit"


def bench_of(text: str, failing: frozenset[int]) -> Bench:
    """Nodes write a file of their own and fail on the visits that `failing` picks; what a node does depends on path and visit only."""

    def step(call: NodeCall) -> Outcome:
        if call.node.type not in ("start", "exit", "conditional"):
            assert isinstance(call.workspace, MemoryWorkspace)
            call.workspace.files[call.path] = str(call.visit)
        number = (sum(call.path.encode()) + call.visit) % 7
        if call.node.type == "agent" and number in failing and call.visit < 3 and call.path[-1] not in "EF":
            return fail(f"trouble {'abc'[call.visit % 3]}")
        return ok(context_updates={f"seen.{call.node.id}": call.visit})

    flow = workflow(text, children={"c.dot": CHILD})
    return Bench(flow, Everything(step))


class Everything(dict[str, Outcome | list[Outcome] | Step]):
    """A script that does the same for every node."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self._step = step

    def get(self, key: str, default: object = None) -> Step:
        return self._step


def essence(state: RunState) -> dict[str, object]:
    """What must not depend on crashes: not ordinals, commits, refs, and the order in which branches happened to finish."""
    root = state.root
    return {
        "status": state.status,
        "completed": Counter(root.completed_nodes),
        "visits": root.node_visits,
        "retries": root.node_retries,
        "outcomes": {name: (outcome.status, outcome.preferred_label) for name, outcome in root.node_outcomes.items()},
        "context": {key: value for key, value in root.context_values.items() if key.startswith("seen.")},
        "signatures": root.loop_failure_signatures,
        "next": root.next_node_id,
        "block": None if root.open_block is None else root.open_block.node_id,
    }


def interrupted(bench: Bench) -> Counter[str]:
    """Executions begun but not completed in a checkpoint, by path."""
    completed = Counter(c.path for c in bench.checkpoints.completed)
    return Counter(bench.executed) - completed


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), st.frozensets(st.integers(0, 6), max_size=3), st.data())
def test_a_crash_after_any_checkpoint_changes_nothing(text: str, failing: frozenset[int], data: st.DataObject) -> None:
    whole = bench_of(text, failing)
    expected = whole.run()
    total = len(whole.checkpoints.saved)
    crashes = data.draw(st.lists(st.integers(0, max(total - 2, 0)), min_size=1, max_size=3), label="crashes")

    bench = bench_of(text, failing)
    state: RunState | None = None
    lost: Counter[str] = Counter()
    for crash in crashes:
        bench.checkpoints.crash_after = max(crash, len(bench.checkpoints.saved))
        try:
            state = bench.run(state)
        except Crash:
            state = bench.checkpoints.state()
            lost = interrupted(bench)
            bench.store.aside.clear()
            if state.status != "running":
                break  # it died after its last checkpoint; resuming a failed run would be a new attempt
        else:
            break
    bench.checkpoints.crash_after = None
    if state is None or state.status == "running":
        state = bench.run(state)

    assert essence(state) == essence(expected)
    assert bench.files() == whole.files()
    assert Counter(bench.executed) - lost == Counter(whole.executed)
    ordinals = [c.ordinal for c in bench.checkpoints.completed]
    assert len(set(ordinals)) == len(ordinals)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    graphs(routed=False), st.sets(st.integers(0, 6), min_size=1, max_size=4), st.integers(0, 30), st.sampled_from(["", ", max_parallel=1"])
)
def test_a_run_that_fails_again_and_again_is_mended_and_no_node_succeeds_twice(
    text: str, failing: set[int], crash: int, limit: str
) -> None:
    text = text.replace("shape=component", "shape=component, error_policy=fail_fast" + limit)
    tries: Counter[str] = Counter()

    def step(call: NodeCall) -> Outcome:
        tries[call.path] += 1
        if call.node.type == "agent" and sum(call.path.encode()) % 7 in failing and tries[call.path] == 1:
            return fail("not yet")
        if call.node.type == "agent":
            assert isinstance(call.workspace, MemoryWorkspace)
            call.workspace.files[call.path] = str(call.visit)
        return ok()

    whole = bench_of(text, frozenset())
    expected = whole.run()
    bench = Bench(workflow(text, children={"c.dot": CHILD}), Everything(step))
    bench.checkpoints.crash_after = crash
    state: RunState | None = None
    for _ in range(80):
        try:
            state = bench.run(state)
        except Crash:
            bench.checkpoints.crash_after = None
        state = bench.checkpoints.state()
        if state.status == "success":
            break
    assert state is not None
    assert state.status == "success"
    succeeded = Counter(done.path for done in bench.checkpoints.completed if done.status == "success")
    assert succeeded == Counter(done.path for done in whole.checkpoints.completed)
    assert state.root.node_visits == expected.root.node_visits
    assert bench.files().keys() >= {path for path in tries if path in whole.files()}
    assert state.root.open_block is None


KITCHEN = """
    plan; work; check [shape=diamond]; fix; p [shape=component, max_parallel=2]; f [shape=tripleoctagon]; a; a2; b
    m [shape=house, stack.child_workflow="c.dot"]; gate [goal_gate=true, retry_target=plan]
    start -> plan -> work -> check
    check -> p [condition="outcome=success"]; check -> fix [condition="outcome=fail"]; fix -> work
    p -> a -> a2 -> f; p -> m -> f; p -> b -> f
    f -> gate -> exit
"""


@pytest.mark.parametrize("crash", range(21))
def test_one_workflow_with_everything_survives_a_crash_at_each_of_its_checkpoints(crash: int) -> None:
    def script() -> dict[str, object]:
        return {"work": [fail("red"), ok()], "gate": [fail("no"), ok()]}

    def fresh() -> Bench:
        return Bench(workflow(KITCHEN, children={"c.dot": CHILD}), script())  # type: ignore[arg-type]

    whole = fresh()
    expected = whole.run()
    assert expected.status == "success"
    bench = fresh()
    bench.checkpoints.crash_after = crash
    with pytest.raises(Crash):
        bench.run()
    saved = bench.checkpoints.state()
    lost = interrupted(bench)
    bench.checkpoints.crash_after = None
    state = bench.run(saved)
    assert essence(state) == essence(expected)
    assert bench.files() == whole.files()
    assert Counter(bench.executed) - lost == Counter(whole.executed)


def test_a_cancelled_run_resumes_like_a_crashed_one() -> None:
    bench = Bench(workflow(KITCHEN, children={"c.dot": CHILD}), {"a2": lambda call: asyncio.sleep(3600, ok())})

    async def scene() -> None:
        task = asyncio.create_task(bench.go())
        await bench.reached("p:a/a2")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())
    bench.script = {}
    state = bench.run(bench.checkpoints.state())
    assert state.status == "success"
    assert Counter(bench.executed)["p:a/a2"] == 2
    assert Counter(bench.executed)["p:a/a"] == 1
