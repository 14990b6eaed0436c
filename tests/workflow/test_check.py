"""Parse, resolve and lint in one step: what is told, in which order, and that nothing a file can hold raises."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc.workflow.check import check_without_inputs, check_workflow, read_to_look_at, read_workflow
from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.parser import parse_dot
from arc.workflow.language.resolve import ResolveInputs
from arc.workflow.language.sources import FileSources, StoredSources

NO_FILES = StoredSources({})
NONE = ResolveInputs()
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_valid_text_gives_a_workflow_and_no_errors() -> None:
    checked = check_workflow("digraph g { start -> a -> exit; a [type=command, script=true] }", "g.dot", NO_FILES, NONE)
    assert checked.workflow is not None
    assert list(checked.workflow.nodes) == ["start", "a", "exit"]
    assert checked.diagnostics == ()


def test_text_that_cannot_be_parsed_gives_the_place_only() -> None:
    checked = check_workflow("digraph g {\n  a -> -> b\n}", "g.dot", NO_FILES, NONE)
    assert (checked.syntax, checked.workflow) == (None, None)
    assert [(finding.rule, finding.position.line, finding.position.column) for finding in checked.diagnostics] == [("syntax", 2, 8)]


def test_findings_of_all_steps_are_sorted_by_place() -> None:
    source = "digraph g {\n start -> a -> b -> exit\n a [type=wait]\n b [prompt=p, fidelity=x]\n b -> c\n}"
    checked = check_workflow(source, "g.dot", NO_FILES, NONE)
    assert checked.workflow is None
    assert [(finding.position.line, finding.rule) for finding in checked.diagnostics] == [
        (3, "wait_without_duration"),
        (4, "model_needed"),
        (4, "fidelity_valid"),
        (5, "edge_target_exists"),
        (5, "dead_end"),
        (5, "prompt_on_llm_nodes"),
    ]


def test_findings_in_a_child_follow_those_of_the_workflow() -> None:
    files = StoredSources({"a.dot": "digraph c { start -> exit\n exit -> start }"})
    source = 'digraph g {\n\n\n start -> x -> exit\n x [shape=house, stack.child_workflow="a.dot"]\n exit -> x }'
    checked = check_workflow(source, "z.dot", files, NONE)
    assert [str(finding.position) for finding in checked.diagnostics if finding.severity == "error"] == [
        "z.dot:6:2",
        "a.dot:2:2",
        "a.dot:2:2",
    ]


def test_lint_errors_make_a_workflow_unusable() -> None:
    checked = check_workflow("digraph g { start -> w -> exit; w [type=wait] }", "g.dot", NO_FILES, NONE)
    assert checked.workflow is None
    assert [finding.rule for finding in checked.errors] == ["wait_without_duration"]


def test_read_workflow_raises_all_findings_at_once() -> None:
    with pytest.raises(WorkflowError) as caught:
        read_workflow("digraph g {\n start -> w -> exit\n w [type=wait]\n w -> w\n exit -> w }", "g.dot", NO_FILES, NONE)
    assert [finding.rule for finding in caught.value.diagnostics] == ["wait_without_duration", "edge_never_taken", "exit_no_outgoing"]


def test_a_start_is_told_warnings_but_not_that_a_model_is_needed() -> None:
    workflow = read_workflow("digraph g { start -> a -> exit }", "g.dot", NO_FILES, NONE)
    assert [notice.rule for notice in workflow.notices] == ["edge_target_exists", "prompt_on_llm_nodes"]


def test_inputs_that_only_a_run_has_are_notices_and_hide_nothing_else() -> None:
    source = 'digraph g {\n start -> a -> exit\n a [prompt="$goal: $version, again $version"]\n exit -> a }'
    checked = check_without_inputs(source, "g.dot", NO_FILES, NONE)
    assert [(finding.severity, finding.rule, finding.position.column) for finding in checked.diagnostics] == [
        ("notice", "model_needed", 2),
        ("notice", "undefined_variable", 13),
        ("notice", "undefined_variable", 20),
        ("error", "exit_no_outgoing", 2),
    ]
    assert "`-i version=VALUE`" not in checked.diagnostics[2].message
    assert checked.diagnostics[2].hint == "arc run start -i version=VALUE"


def test_given_inputs_leave_nothing_open() -> None:
    source = 'digraph g { start -> a -> exit; a [prompt="$goal: $version"] }'
    checked = check_without_inputs(source, "g.dot", NO_FILES, ResolveInputs(goal="x", inputs={"version": "1"}))
    assert [finding.rule for finding in checked.diagnostics] == ["model_needed"]


def test_a_picture_needs_no_inputs_and_no_lint() -> None:
    workflow = read_to_look_at('digraph g { goal="Release $version"; start -> w -> exit; w [type=wait] }', "g.dot", NO_FILES, NONE)
    assert workflow.goal == "Release $version"
    with pytest.raises(WorkflowError, match="no exit node"):
        read_to_look_at("digraph g { start -> w }", "g.dot", NO_FILES, NONE)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.dot")), ids=lambda path: path.name)
def test_examples_are_clean(path: Path) -> None:
    checked = check_without_inputs(path.read_text("utf-8"), path.name, FileSources(EXAMPLES), NONE)
    assert checked.workflow is not None
    assert {finding.rule for finding in checked.diagnostics} <= {"model_needed", "undefined_variable"}
    assert all(finding.severity == "notice" for finding in checked.diagnostics)


def test_examples_show_every_node_type_but_conditional_and_prompt() -> None:
    types = set()
    for path in EXAMPLES.glob("*.dot"):
        checked = check_without_inputs(path.read_text("utf-8"), path.name, FileSources(EXAMPLES), NONE)
        assert checked.workflow is not None
        types |= {node.type for node in checked.workflow.nodes.values()}
    assert types >= {"start", "exit", "agent", "command", "human", "parallel", "parallel.fan_in", "wait", "stack.manager_loop"}


WORDS = st.sampled_from(
    """start exit a b c -> -> -> [ ] { } ; type=command type=human type=parallel shape=house shape=tripleoctagon script=true goal_gate=true
    retry_target=a condition="outcome=success" condition="context.x" label="[Y]_Yes" freeform=true max_visits=0 subgraph node
    human.default_choice=b prompt="$x" prompt="@f" stack.child_workflow="self.dot" model_stylesheet="#a{model:claud;}"
    join_policy="k_of_n(9)" duration=1s weight=2 loop_restart=true =""".split()  # noqa: SIM905 - a list of forty strings is harder to read
)


@given(st.lists(WORDS, max_size=40))
def test_no_text_makes_checking_raise(words: list[str]) -> None:
    source = f"digraph g {{ {' '.join(words)} }}"
    checked = check_without_inputs(source, "self.dot", StoredSources({"self.dot": source}), NONE)
    assert (checked.workflow is None) == bool(checked.errors)
    if checked.syntax is not None:
        assert parse_dot(source, "self.dot") == checked.syntax


NAMES = st.sampled_from(["start", *"abcpqfg", "exit"])
EDGES = st.lists(st.tuples(NAMES, NAMES), max_size=14)
TYPES = st.fixed_dictionaries(
    {name: st.sampled_from(["command", "human", "wait", "conditional", "parallel", "parallel.fan_in"]) for name in "abcpqfg"}
)


@given(EDGES, TYPES)
def test_no_graph_makes_checking_raise(edges: list[tuple[str, str]], types: dict[str, str]) -> None:
    lines = [f'{name} [type="{kind}", script=true, duration=1s]' for name, kind in types.items()]
    source = "digraph g {\n" + "\n".join([*lines, *(f"{source} -> {target}" for source, target in edges)]) + "\n start; exit }"
    checked = check_workflow(source, "g.dot", NO_FILES, NONE)
    assert checked.syntax is not None
    assert all(1 <= finding.position.line <= source.count("\n") + 1 for finding in checked.diagnostics)
