"""Every lint rule with a planted fault, at its exact place, and with a clean twin; and the page that lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from arc.workflow.check import Checked, check_workflow
from arc.workflow.language.parser import parse_dot
from arc.workflow.language.resolve import ResolveInputs
from arc.workflow.language.sources import StoredSources
from arc.workflow.lint.rules import RULES, lint
from arc.workflow.values import Diagnostic

GOOD = "good.dot"
CHILD = "digraph child { start -> work -> exit\n work [prompt=p] }"


def check(body: str, *, files: dict[str, str] | None = None) -> Checked:
    """Check `digraph g { BODY }`; a `«` in the body marks where a finding is expected and is removed first."""
    return check_workflow(
        "digraph g {" + body.replace("«", "") + "}", "g.dot", StoredSources({"child.dot": CHILD, **(files or {})}), ResolveInputs(goal="g")
    )


def of_rule(checked: Checked, rule: str) -> list[Diagnostic]:
    return [finding for finding in checked.diagnostics if finding.rule == rule]


@dataclass(frozen=True)
class Case:
    """`fault` breaks exactly `rule`, at each `«`; `clean` does not. `says` stands in the message or the hint of the first finding."""

    rule: str
    fault: str
    clean: str
    says: str


CASES = [
    Case("reachability", "start -> a -> exit\n a [prompt=p]\n «b [prompt=p]\n b -> exit", "start -> a -> exit\n a [prompt=p]", "`b`"),
    Case(
        "reachability",
        "start -> a -> exit\n a [prompt=p]\n «b [prompt=p]\n b -> exit",
        "start -> a -> exit\n a [prompt=p, retry_target=b]\n b [prompt=p]\n b -> exit",
        "never be reached",
    ),
    Case(
        "edge_target_exists",
        "start -> review -> «reviw -> exit\n review [prompt=p]",
        "start -> review -> exit\n review [prompt=p]",
        "did you mean `review`?",
    ),
    Case("edge_target_exists", "start -> «zebra -> exit", "start -> zebra -> exit\n zebra [prompt=p]", "declare it"),
    Case("start_no_incoming", "start -> a -> exit\n a [prompt=p]\n «a -> start", "start -> a -> exit\n a [prompt=p]", "`a -> start`"),
    Case("exit_no_outgoing", "start -> a -> exit\n a [prompt=p]\n «exit -> a", "start -> a -> exit\n a [prompt=p]", "`exit -> a`"),
    Case("dead_end", "start -> a -> exit\n start -> b\n a [prompt=p]\n «b [prompt=p]", "start -> b -> exit\n b [prompt=p]", "`b -> exit`"),
    Case(
        "loop_without_exit",
        "start -> a -> exit\n start -> b\n a [prompt=p]\n «b [prompt=p]\n c [prompt=p]\n b -> c -> b",
        "start -> b\n b [prompt=p]\n c [prompt=p]\n b -> c -> b\n c -> exit",
        "`b` -> `c`",
    ),
    Case(
        "loop_without_exit",
        "start -> a -> exit\n start -> b\n a [prompt=p]\n «b [prompt=p]\n b -> b",
        "start -> b\n b [prompt=p]\n b -> b [label=again]\n b -> exit",
        "only to itself",
    ),
    Case(
        "attribute_twice",
        "start -> a -> exit\n a [prompt=p, model=x, «model=y]",
        "start -> a -> exit\n a [prompt=p, model=y]",
        "`model` is given",
    ),
    Case(
        "attribute_twice",
        "start -> a -> exit\n a [type=command, script=true, «tool_command=false]",
        "start -> a -> exit\n node [tool_command=false]\n a [type=command, script=true]",
        "`script` and `tool_command` are one attribute; only the last value counts, `False`",
    ),
    Case(
        "duplicate_edge",
        "start -> a\n a [prompt=p]\n a -> exit\n «a -> exit",
        "start -> a\n a [prompt=p]\n a -> exit [label=x]\n a -> exit [label=y]",
        "first in line 3",
    ),
    Case(
        "reserved_keyword_node_id",
        "start -> Node -> exit\n «Node [prompt=p]",
        "start -> node_step -> exit\n node_step [prompt=p]",
        "`Node_step`",
    ),
    Case("direction_valid", "rankdir=«lr\n start -> exit", "rankdir=LR\n start -> exit", "did you mean `LR`?"),
    Case(
        "all_conditional_edges",
        'start -> a\n a [prompt=p]\n «a -> exit [condition="outcome=success"]',
        'start -> a\n a [prompt=p]\n a -> exit [condition="outcome=success"]\n a -> exit',
        "`partial_success` none holds",
    ),
    Case(
        "all_conditional_edges",
        'start -> a\n a [type=command, script=true]\n «a -> exit [condition="context.x=1"]',
        'start -> a\n a [type=command, script=true]\n a -> exit [condition="context.x=1"]\n a -> exit [condition="context.x!=1"]',
        "none needs to hold",
    ),
    Case(
        "all_conditional_edges",
        'start -> a -> d\n a [prompt=p]\n d [type=conditional]\n «d -> exit [condition="outcome=success || outcome=partial_success"]',
        'start -> a -> d\n a [prompt=p]\n d [type=conditional]\n d -> exit [condition="outcome=fail"]\n'
        'd -> exit [condition="!outcome=fail"]',
        "`fail`",
    ),
    Case(
        "edge_never_taken",
        "start -> a\n a [type=command, script=true]\n b [type=command, script=true]\n «a -> exit\n a -> b -> exit",
        'start -> a\n a [type=command, script=true]\n b [type=command, script=true]\n a -> exit [condition="context.x"]\n a -> b -> exit',
        "`a -> b` always comes first",
    ),
    Case(
        "orphan_custom_outcome",
        'start -> a\n a [prompt=p]\n a -> exit [condition="outcome=«sucess"]\n a -> exit',
        'start -> a\n a [prompt=p]\n a -> exit [condition="outcome=succeeded"]\n a -> exit',
        "did you mean `success`?",
    ),
    Case(
        "orphan_custom_outcome",
        'start -> a\n a [prompt=p]\n a -> exit [condition="outcome=«approved"]\n a -> exit',
        'start -> a\n a [prompt=p]\n a -> exit [condition="preferred_label=approved"]\n a -> exit',
        "preferred_label=approved",
    ),
    Case(
        "freeform_edge_count",
        "start -> h\n h [type=human]\n a [prompt=p]\n h -> a [freeform=true]\n h -> exit [«freeform=true]\n a -> exit",
        "start -> h\n h [type=human]\n h -> exit [freeform=true]\n h -> exit [label=Go]",
        "more than one",
    ),
    Case(
        "freeform_edge_count",
        "start -> a\n a [prompt=p]\n a -> exit [«freeform=true]",
        "start -> a\n a [type=human]\n a -> exit [freeform=true]",
        "no human gate",
    ),
    Case(
        "human_without_choices", "start -> h\n start -> exit\n «h [type=human]", "start -> h -> exit\n h [type=human]", "nothing to choose"
    ),
    Case(
        "human_default_exists",
        'start -> h\n h [type=human, human.default_choice=«maybe]\n h -> exit [label="[Y] Yes"]',
        'start -> h\n h [type=human, human.default_choice=yes]\n h -> exit [label="[Y] Yes"]',
        "`maybe`",
    ),
    Case(
        "human_timeout_default",
        'start -> h\n h [type=human, «timeout=5m]\n h -> exit [label="[Y] Yes"]',
        'start -> h\n h [type=human, timeout=5m, human.default_choice=exit]\n h -> exit [label="[Y] Yes"]',
        "nobody answers",
    ),
    Case(
        "accelerator_clash",
        'start -> h\n h [type=human]\n a [prompt=p]\n h -> exit [label="[Y] Yes"]\n h -> a [label=«"Y) Yesterday"]\n a -> exit',
        'start -> h\n h [type=human]\n a [prompt=p]\n h -> exit [label="[Y] Yes"]\n h -> a [label="[D] Yesterday"]\n a -> exit',
        "same key `Y`",
    ),
    Case(
        "parallel_needs_fan_in",
        "start -> p\n «p [type=parallel]\n a [prompt=p]\n b [prompt=p]\n p -> a -> exit\n p -> b -> exit",
        "start -> p\n p [type=parallel]\n a [prompt=p]\n b [prompt=p]\n p -> a -> f\n p -> b -> f\n f [type=parallel.fan_in]\n f -> exit",
        "no fan-in node",
    ),
    Case(
        "parallel_needs_fan_in",
        "start -> p\n p [type=parallel]\n a [prompt=p]\n b [prompt=p]\n f [type=parallel.fan_in]\n p -> a -> f -> exit\n «p -> b -> exit",
        "start -> p\n p [type=parallel]\n a [prompt=p]\n b [prompt=p]\n f [type=parallel.fan_in]\n p -> a -> f -> exit\n p -> b -> f",
        "starts at `b` never meets",
    ),
    Case(
        "parallel_needs_fan_in",
        "start -> p\n «p [type=parallel]\n a [prompt=p]\n b [prompt=p]\n f [type=parallel.fan_in]\n g [type=parallel.fan_in]\n"
        "p -> a -> f -> exit\n p -> b -> g -> exit",
        # a block inside a branch meets in its own fan-in first
        "start -> p\n p [type=parallel]\n q [type=parallel]\n a [prompt=p]\n b [prompt=p]\n c [prompt=p]\n"
        "f [type=parallel.fan_in]\n g [type=parallel.fan_in]\n p -> a -> f -> exit\n p -> q\n q -> b -> g\n q -> c -> g -> f",
        "`f` or `g`",
    ),
    Case(
        "fan_in_without_parallel",
        "start -> f -> exit\n «f [type=parallel.fan_in]",
        "start -> p\n p [type=parallel]\n a [prompt=p]\n b [prompt=p]\n p -> a -> f\n p -> b -> f\n f [type=parallel.fan_in]\n f -> exit",
        "nothing to merge",
    ),
    Case(
        "parallel_single_branch",
        "start -> p\n «p [type=parallel]\n a [prompt=p]\n p -> a -> f -> exit\n f [type=parallel.fan_in]",
        "start -> p\n p [type=parallel]\n a [prompt=p]\n b [prompt=p]\n p -> a -> f -> exit\n p -> b -> f\n f [type=parallel.fan_in]",
        "only one branch",
    ),
    Case(
        "parallel_edge_conditions",
        "start -> p\n p [type=parallel]\n a [prompt=p]\n b [prompt=p]\n f [type=parallel.fan_in]\n a -> f -> exit\n b -> f\n"
        'p -> a [«condition="context.x"]\n p -> b [condition="context.y"]',
        "start -> p\n p [type=parallel]\n a [prompt=p]\n b [prompt=p]\n f [type=parallel.fan_in]\n a -> f -> exit\n b -> f\n"
        'p -> a [condition="context.x"]\n p -> b',
        "the block fails",
    ),
    Case(
        "join_count_possible",
        'start -> p\n p [type=parallel, join_policy=«"k_of_n(3)"]\n a [prompt=p]\n b [prompt=p]\n p -> a -> f -> exit\n p -> b -> f\n'
        "f [type=parallel.fan_in]",
        'start -> p\n p [type=parallel, join_policy="k_of_n(2)"]\n a [prompt=p]\n b [prompt=p]\n p -> a -> f -> exit\n p -> b -> f\n'
        "f [type=parallel.fan_in]",
        "only 2",
    ),
    Case("prompt_on_llm_nodes", "start -> a -> exit\n «a []", 'start -> a -> exit\n a [label="Do it"]', "neither a prompt nor a label"),
    Case(
        "command_without_script", "start -> a -> exit\n «a [type=command]", "start -> a -> exit\n a [type=tool, tool_command=true]", "`a`"
    ),
    Case(
        "command_without_script",
        'start -> a -> exit\n a [type=command, script=«""]',
        "start -> a -> exit\n a [type=command, script=x]",
        "`a`",
    ),
    Case(
        "script_on_other_nodes",
        "start -> a -> exit\n a [prompt=p, «script=true]",
        "start -> a -> exit\n a [type=command, script=true]",
        "never run",
    ),
    Case(
        "script_absolute_cd",
        'start -> a -> exit\n a [type=command, script="set -e\n  «cd /tmp && ls"]',
        'start -> a -> exit\n a [type=command, script="set -e\n  cd sub && ls\n echo cd /tmp"]',
        "cd /tmp && ls",
    ),
    Case("wait_without_duration", "start -> a -> exit\n «a [type=wait]", "start -> a -> exit\n a [type=wait, duration=3s]", "`a`"),
    Case(
        "child_missing",
        "start -> a -> exit\n «a [shape=house]",
        'start -> a -> exit\n a [shape=house, stack.child_dotfile="child.dot"]',
        "names none",
    ),
    Case(
        "retry_target_exists",
        "start -> build -> exit\n build [prompt=p, retry_target=«biuld]",
        "start -> build -> exit\n build [prompt=p, retry_target=build]",
        "did you mean `build`?",
    ),
    Case(
        "retry_target_exists",
        "fallback_retry_target=«nowhere\n start -> build -> exit\n build [prompt=p]",
        "fallback_retry_target=build\n start -> build -> exit\n build [prompt=p]",
        "the graph's `fallback_retry_target`",
    ),
    Case(
        "retry_target_returns",
        "start -> a -> b -> exit\n a [prompt=p, goal_gate=true, retry_target=«b]\n b [prompt=p]",
        "start -> a -> b -> exit\n b [prompt=p, goal_gate=true, retry_target=a]\n a [prompt=p]",
        "no edge leads back to `a`",
    ),
    Case(
        "goal_gate_has_retry",
        "start -> a -> exit\n a [prompt=p, goal_gate=«true]",
        "retry_target=a\n start -> a -> exit\n a [prompt=p, goal_gate=true]",
        "retry_target",
    ),
    Case(
        "max_visits_zero",
        "start -> a -> exit\n a [prompt=p, max_visits=«0]",
        "start -> a -> exit\n a [prompt=p, max_visits=1]",
        "sets no limit",
    ),
    Case("model_needed", "start -> a -> exit\n «a [prompt=p]", "start -> a -> exit\n a [type=command, script=true]", "asks a model: `a`"),
    Case(
        "stylesheet_model_known",
        'model_stylesheet="* { model: «cluade-sonnet-4; }"\n start -> exit',
        'model_stylesheet="* { model: claude-sonnet-4; }"\n start -> exit',
        "did you mean `claude-sonnet-4`?",
    ),
    Case(
        "stylesheet_model_known",
        'start -> a -> exit\n a [prompt=p, llm_model=«"gpt-5", llm_provider=anthropic]',
        'start -> a -> exit\n a [prompt=p, model="gpt-5", provider=openai]',
        "its provider is `openai`",
    ),
    Case(
        "stylesheet_model_known",
        "default_provider=«antropic\n start -> exit",
        'default_provider=our_own_gateway\n default_model="house-model-7b"\n start -> exit',
        "did you mean `anthropic`?",
    ),
    Case(
        "stylesheet_selector_used",
        'start -> build -> exit\n build [prompt=p]\n model_stylesheet="* { model: m; }\n «#biuld { model: n; }"',
        'start -> build -> exit\n build [prompt=p, class=fast]\n model_stylesheet=".fast { model: m; } #build { model: n; }"',
        "did you mean `#build`?",
    ),
    Case(
        "stylesheet_selector_used",
        'start -> build -> exit\n build [prompt=p, class=fast]\n model_stylesheet="#build, «.slow { model: m; } «agnet { model: n; }"',
        'start -> build -> exit\n build [prompt=p, class=fast]\n model_stylesheet="#build, .fast { model: m; } box, human { model: n; }"',
        "`.slow` matches no node",
    ),
]


def case_id(case: Case) -> str:
    return case.rule


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule_finds_its_fault_at_the_exact_place(case: Case) -> None:
    found = of_rule(check(case.fault), case.rule)
    text = "digraph g {" + case.fault + "}"
    expected = []
    for number, line in enumerate(text.split("\n"), 1):
        for index, place in enumerate(match.start() for match in re.finditer("«", line)):
            expected.append((number, place - index + 1))
    assert [(finding.position.line, finding.position.column) for finding in found] == expected
    assert case.says in found[0].message + " " + found[0].hint
    assert found[0].position.file == "g.dot"
    assert found[0].source_line == text.replace("«", "").split("\n")[expected[0][0] - 1]
    assert not found[0].message.endswith(".")


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule_is_silent_on_the_clean_twin(case: Case) -> None:
    checked = check(case.clean)
    assert of_rule(checked, case.rule) == []
    assert checked.errors == ()


def test_every_rule_that_looks_at_the_graph_has_a_case() -> None:
    assert {rule.id for rule in RULES if rule.check is not None} == {case.rule for case in CASES}


def test_findings_have_the_severity_of_their_rule() -> None:
    severities = {rule.id: rule.severity for rule in RULES}
    for case in CASES:
        for finding in of_rule(check(case.fault), case.rule):
            assert finding.severity == severities[case.rule]


READING_FAULTS = {
    "syntax": "start -> ",
    "start_node": "a -> exit\n a [prompt=p]",
    "terminal_node": "start -> a\n a [prompt=p]",
    "condition_syntax": 'start -> exit [condition="outcome ="]',
    "stylesheet_syntax": 'model_stylesheet="* {"\n start -> exit',
    "type_known": "start -> a -> exit\n a [type=agnet]",
    "fidelity_valid": "start -> a -> exit\n a [prompt=p, fidelity=everything]",
    "attribute_value": "start -> a -> exit\n a [prompt=p, timeout=soon]",
    "unknown_attribute": "start -> a -> exit\n a [prompt=p, colour=red]",
    "undefined_variable": 'start -> a -> exit\n a [prompt="$nobody"]',
    "script_variable": 'start -> a -> exit\n a [type=command, script="echo $goal"]',
    "source_missing": 'start -> a -> exit\n a [prompt="@missing.md"]',
    "child_cycle": 'start -> a -> exit\n a [shape=house, stack.child_workflow="self.dot"]',
}


@pytest.mark.parametrize("rule", READING_FAULTS)
def test_rules_of_reading_are_reported_once_and_as_listed(rule: str) -> None:
    own = {"self.dot": 'digraph self { start -> a -> exit\n a [shape=house, stack.child_workflow="self.dot"] }'}
    found = of_rule(check(READING_FAULTS[rule], files=own), rule)
    assert [finding.severity for finding in found] == [next(each.severity for each in RULES if each.id == rule)]


def test_every_rule_of_reading_is_shown_here() -> None:
    assert {rule.id for rule in RULES if rule.check is None} == {*READING_FAULTS, "unused_input"}


def test_unused_input_is_reported() -> None:
    checked = check_workflow("digraph g { start -> exit }", "g.dot", StoredSources({}), ResolveInputs(inputs={"x": "1"}))
    assert [finding.rule for finding in checked.diagnostics] == ["unused_input"]


def test_rules_see_the_syntax_where_the_graph_has_other_errors() -> None:
    """One reading shows everything: a wrong value in one node does not hide what rules find in others."""
    checked = check("start -> a -> b -> exit\n a [prompt=p, timeout=soon]\n b [type=command]")
    assert [finding.rule for finding in checked.diagnostics if finding.severity == "error"] == ["attribute_value", "command_without_script"]


def test_child_workflows_are_linted_with_their_own_positions_and_once() -> None:
    child = "digraph child { start -> work -> exit\n work [shape=parallelogram] }"
    body = 'start -> a -> b -> exit\n a [shape=house, stack.child_workflow="child.dot"]\n b [shape=house, stack.child_workflow="child.dot"]'
    found = of_rule(check(body, files={"child.dot": child}), "command_without_script")
    assert [str(finding.position) for finding in found] == ["child.dot:2:2"]


def test_lint_alone_needs_no_resolved_workflow() -> None:
    syntax = parse_dot("digraph g { start -> a; a [type=wait] }", "g.dot")
    assert [finding.rule for finding in lint(syntax, None)] == ["dead_end", "wait_without_duration"]


def test_rule_ids_are_unique_and_summaries_are_sentences() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(rule.summary.endswith((".", ").")) for rule in RULES)


def test_the_page_lists_exactly_the_rules() -> None:
    page = (Path(__file__).parents[2] / "docs" / "lint.md").read_text("utf-8")
    listed = re.findall(r"^\| `([a-z_]+)` \| (error|warning|notice) \| (.+?) \|$", page, re.MULTILINE)
    assert listed == [(rule.id, rule.severity, rule.summary.replace("|", "\\|")) for rule in RULES]
