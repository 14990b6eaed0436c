"""From the parsed graph to the workflow: types, typed attributes, files, variables, models, children, and what is reported."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from arc.agent.protocol import ModelChoice
from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.parser import parse_dot
from arc.workflow.language.resolve import ResolveInputs, resolve
from arc.workflow.language.sources import FileSources, StoredSources
from arc.workflow.model import JoinPolicy, Node, Workflow
from arc.workflow.values import Diagnostic, Duration, Position

ENDS = "start [shape=Mdiamond] exit [shape=Msquare]\n"


def read(
    body: str, *, files: Mapping[str, str] | None = None, inputs: ResolveInputs | None = None
) -> tuple[Workflow | None, tuple[Diagnostic, ...]]:
    syntax = parse_dot(f"digraph g {{\n{body}\n}}", "flow.dot")
    return resolve(syntax, StoredSources(files or {}), inputs or ResolveInputs())


def workflow(body: str, *, files: Mapping[str, str] | None = None, inputs: ResolveInputs | None = None) -> Workflow:
    """The workflow of a body to which start and exit are added; it has no errors."""
    found, diagnostics = read(ENDS + body, files=files, inputs=inputs)
    assert found is not None, diagnostics
    return found


def node(attributes: str, *, files: Mapping[str, str] | None = None, inputs: ResolveInputs | None = None) -> Node:
    return workflow(f"n [{attributes}]", files=files, inputs=inputs).nodes["n"]


def findings(body: str, *, files: Mapping[str, str] | None = None, inputs: ResolveInputs | None = None) -> list[Diagnostic]:
    return list(read(ENDS + body, files=files, inputs=inputs)[1])


def only(body: str, *, files: Mapping[str, str] | None = None, inputs: ResolveInputs | None = None) -> Diagnostic:
    (finding,) = findings(body, files=files, inputs=inputs)
    return finding


class TestTypes:
    @pytest.mark.parametrize(
        ("attributes", "node_type"),
        [
            ("", "agent"),
            ("shape=box", "agent"),
            ("shape=tab", "prompt"),
            ("shape=parallelogram", "command"),
            ("shape=hexagon", "human"),
            ("shape=diamond", "conditional"),
            ("shape=component", "parallel"),
            ("shape=tripleoctagon", "parallel.fan_in"),
            ("shape=insulator", "wait"),
            ("shape=house", "stack.manager_loop"),
            ("type=codergen", "agent"),
            ("type=tool", "command"),
            ('type="wait.human"', "human"),
            ("type=command, shape=hexagon", "command"),
        ],
    )
    def test_type_wins_over_shape(self, attributes: str, node_type: str) -> None:
        assert node(attributes).type == node_type

    @pytest.mark.parametrize(("first", "last"), [("start", "exit"), ("Start", "Exit"), ("start", "end"), ("start", "End")])
    def test_start_and_exit_by_well_known_ids(self, first: str, last: str) -> None:
        found, diagnostics = read(f"{first} -> a -> {last}")
        assert found is not None, diagnostics
        assert (found.start, found.exit, diagnostics) == (first, last, ())

    def test_a_default_shape_does_not_hide_start_and_exit(self) -> None:
        found, _ = read("node [shape=box]; start -> a -> exit")
        assert found is not None
        assert (found.start, found.exit, found.nodes["a"].type) == ("start", "exit", "agent")

    def test_an_explicit_start_elsewhere_leaves_the_id_alone(self) -> None:
        found, _ = read("begin [shape=Mdiamond] start [shape=box] exit")
        assert found is not None
        assert (found.start, found.nodes["start"].type) == ("begin", "agent")

    @pytest.mark.parametrize(
        ("body", "rules"),
        [
            ("a -> exit", ["start_node"]),
            ("start -> a", ["terminal_node"]),
            ("start; s [type=start]; exit; e [shape=Msquare]", ["start_node", "terminal_node"]),
        ],
    )
    def test_exactly_one_start_and_one_exit(self, body: str, rules: list[str]) -> None:
        found, diagnostics = read(body)
        assert (found, [each.rule for each in diagnostics], {each.severity for each in diagnostics}) == (None, rules, {"error"})

    def test_a_second_start_is_reported_where_it_stands(self) -> None:
        finding = read("start; exit\ns [type=start]")[1][0]
        assert (finding.position, finding.message) == (Position("flow.dot", 3, 1), "`s` is a second start node; the first one is `start`")

    def test_an_unknown_type_is_kept_with_a_warning(self) -> None:
        finding = only("n [type=comand]")
        assert (finding.rule, finding.severity, finding.hint) == ("type_known", "warning", "did you mean `command`?")
        assert node("type=deploy").type == "deploy"

    def test_where_the_handlers_are_known_another_type_is_an_error(self) -> None:
        inputs = ResolveInputs(handler_types=frozenset({"deploy"}))
        assert node("type=deploy", inputs=inputs).type == "deploy"
        assert only("n [type=deplyo]", inputs=inputs).severity == "error"

    def test_an_unknown_shape_is_an_agent_with_a_warning(self) -> None:
        finding = only("n [shape=hexagn]")
        assert (finding.rule, finding.severity, finding.hint) == ("type_known", "warning", "did you mean `hexagon`?")
        assert node("shape=circle").type == "agent"


class TestNodeAttributes:
    def test_defaults(self) -> None:
        found = node("")
        expected = Node(id="n", type="agent", label="n", position=found.position)
        assert found == expected

    def test_all_of_them(self) -> None:
        found = node(
            'label="L" class="a, b" timeout=15m prompt="P" llm_model=m llm_provider=p reasoning_effort=low max_tokens=5 backend=cli '
            'project_memory=false fidelity="summary:low" thread_id=t max_retries=2 retry_policy=patient retry_target=r '
            "fallback_retry_target=f goal_gate=true allow_partial=true auto_status=true max_visits=3 selection=random "
            'script="s" language=python working_directory=w environment="A=1" join_policy="k_of_n(2)" error_policy=ignore max_parallel=8 '
            "duration=5s human.default_choice=h manager.poll_interval=1s manager.max_cycles=9 manager.stop_condition=x"
        )
        assert (found.label, found.classes, found.timeout_ms, found.prompt) == ("L", ("a", "b"), 900_000, "P")
        assert found.choice == ModelChoice("m", "p", "low", 5, "cli")
        assert (found.project_memory, found.fidelity, found.thread_id) == (False, "summary:low", "t")
        assert (found.max_retries, found.retry_policy, found.retry_target, found.fallback_retry_target) == (2, "patient", "r", "f")
        assert (found.goal_gate, found.allow_partial, found.auto_status, found.max_visits, found.selection) == (
            True,
            True,
            True,
            3,
            "random",
        )
        assert (found.script, found.language, found.working_directory, found.environment) == ("s", "python", "w", {"A": "1"})
        assert (found.join_policy, found.error_policy, found.max_parallel) == (JoinPolicy("k_of_n", count=2), "ignore", 8)
        assert (found.duration_ms, found.human_default_choice, found.poll_interval_ms, found.max_cycles) == (5000, "h", 1000, 9)
        assert found.stop_condition is not None
        assert found.stop_condition.text == "x"

    def test_the_other_vocabulary(self) -> None:
        found = node('model=m provider=p tool_command="s" cwd=w')
        assert (found.choice.model, found.choice.provider, found.script, found.working_directory) == ("m", "p", "s", "w")

    def test_of_two_spellings_the_later_one_counts(self) -> None:
        assert (node("model=a llm_model=b").choice.model, node("llm_model=b model=a").choice.model) == ("b", "a")

    @pytest.mark.parametrize(
        ("literal", "milliseconds"),
        [("90s", 90_000), ('"90s"', 90_000), ("90", 90_000), ("1.5", 1500), ('"90"', 90_000), ("250ms", 250), ("0", 0)],
    )
    def test_durations_may_be_quoted_and_plain_numbers_are_seconds(self, literal: str, milliseconds: int) -> None:
        assert node(f"timeout={literal}").timeout_ms == milliseconds

    @pytest.mark.parametrize(
        ("literal", "policy"),
        [
            ("wait_all", JoinPolicy("wait_all")),
            ("first_success", JoinPolicy("first_success")),
            ('"k_of_n( 3 )"', JoinPolicy("k_of_n", count=3)),
            ('"quorum(0.5)"', JoinPolicy("quorum", fraction=0.5)),
            ('"quorum(1)"', JoinPolicy("quorum", fraction=1.0)),
        ],
    )
    def test_join_policies(self, literal: str, policy: JoinPolicy) -> None:
        assert node(f"join_policy={literal}").join_policy == policy

    def test_environment_in_lines_by_commas_and_one_by_one(self) -> None:
        assert node('environment="A=1, B = x=y,"').environment == {"A": "1", "B": " x=y"}
        assert node('environment="A=1, 2\n\n B=\n"').environment == {"A": "1, 2", "B": ""}
        assert node('environment="A=1" env.A=2 env.C="c d" env.N=3').environment == {"A": "2", "C": "c d", "N": "3"}

    def test_everything_is_kept_as_written_for_handlers(self) -> None:
        inputs = ResolveInputs(inputs={"who": "me"})
        found = node('type=deploy, owner="$who", timeout=5s, retries=3, on=true', inputs=inputs)
        assert found.attributes == {"type": "deploy", "owner": "me", "timeout": Duration(5000, "5s"), "retries": 3, "on": True}

    @pytest.mark.parametrize(
        ("attribute", "rule", "words"),
        [
            ("timeout=soon", "attribute_value", "a number of seconds"),
            ("timeout=-5", "attribute_value", "duration"),
            ("max_retries=two", "attribute_value", "integer, at least 0"),
            ("max_retries=-1", "attribute_value", "integer, at least 0"),
            ("max_retries=1.5", "attribute_value", "integer"),
            ("max_retries=true", "attribute_value", "integer"),
            ("max_parallel=0", "attribute_value", "at least 1"),
            ("goal_gate=yes", "attribute_value", "`true` or `false`"),
            ("goal_gate=1", "attribute_value", "`true` or `false`"),
            ("retry_policy=standrad", "attribute_value", "`standard`"),
            ("selection=any", "attribute_value", "`random`"),
            ("language=perl", "attribute_value", "`python`"),
            ("fidelity=ful", "fidelity_valid", "`summary:high`"),
            ('join_policy="k_of_n(0)"', "attribute_value", "k_of_n"),
            ('join_policy="quorum(1.5)"', "attribute_value", "quorum"),
            ('join_policy="quorum(..)"', "attribute_value", "quorum"),
            ("join_policy=some", "attribute_value", "`wait_all`"),
            ('environment="A"', "attribute_value", "`KEY=VALUE`"),
            ('environment="1=x"', "attribute_value", "`KEY=VALUE`"),
            ('manager.stop_condition="a b"', "condition_syntax", "`&&`"),
        ],
    )
    def test_a_wrong_value_is_an_error_that_says_what_is_accepted(self, attribute: str, rule: str, words: str) -> None:
        finding = only(f"n [{attribute}]")
        assert (finding.rule, finding.severity, finding.position.line) == (rule, "error", 3)
        assert words in " ".join((*finding.expected, finding.message))

    def test_a_wrong_default_is_reported_once(self) -> None:
        finding = only("node [timeout=soon]; a; b; c")
        assert finding.position == Position("flow.dot", 3, 15)


class TestGraphAndEdges:
    def test_graph_attributes(self) -> None:
        found = workflow(
            'goal="G"; label=L; default_max_retries=2; retry_target=r; fallback_retry_target=f; default_fidelity=full; default_thread=t; '
            "max_node_visits=7; stall_timeout=5m; loop_restart_signature_limit=4; owner=me"
        )
        assert (found.goal, found.label, found.default_max_retries, found.retry_target, found.fallback_retry_target) == (
            "G",
            "L",
            2,
            "r",
            "f",
        )
        assert (found.default_fidelity, found.default_thread, found.max_node_visits) == ("full", "t", 7)
        assert (found.stall_timeout_ms, found.loop_restart_signature_limit) == (300_000, 4)
        assert (found.attributes["goal"], found.attributes["owner"], found.attributes["max_node_visits"]) == ("G", "me", 7)

    def test_graph_defaults(self) -> None:
        found = workflow("")
        assert (found.goal, found.default_max_retries, found.default_fidelity, found.max_node_visits) == ("", 0, "compact", 0)
        assert (found.stall_timeout_ms, found.loop_restart_signature_limit) == (600_000, 3)

    def test_the_older_name_of_the_retry_default(self) -> None:
        assert workflow("default_max_retry=2").default_max_retries == 2

    def test_a_dry_run_bounds_visits_unless_the_workflow_does(self) -> None:
        dry = ResolveInputs(dry_run=True)
        assert (workflow("", inputs=dry).max_node_visits, workflow("max_node_visits=3", inputs=dry).max_node_visits) == (10, 3)

    def test_edges(self) -> None:
        found = workflow(
            'start -> exit [label="[Y] Yes" condition="outcome=success" weight=-2 fidelity=full '
            "thread_id=t loop_restart=true freeform=true] start -> exit"
        )
        first, second = found.edges
        assert (first.source, first.target, first.index, first.label, first.weight) == ("start", "exit", 0, "[Y] Yes", -2)
        assert (first.fidelity, first.thread_id, first.loop_restart, first.freeform) == ("full", "t", True, True)
        assert first.condition is not None
        assert first.condition.text == "outcome=success"
        assert (second.index, second.label, second.condition, second.weight, second.freeform) == (1, "", None, 0, False)

    def test_a_bad_condition_is_an_error_inside_the_string(self) -> None:
        finding = only('start -> exit [condition="outcome=success &&\n  context.a = \\"x\\" b"]')
        assert (finding.rule, finding.position) == ("condition_syntax", Position("flow.dot", 4, 21))

    def test_a_bad_stylesheet_is_an_error_inside_the_string(self) -> None:
        finding = only('model_stylesheet="\n  * { model: \\"m\\"; speed: fast }"')
        assert (finding.rule, finding.position) == ("stylesheet_syntax", Position("flow.dot", 4, 21))


class TestUnknownAttributes:
    def test_each_is_a_notice_once_per_level(self) -> None:
        found = findings("a [colour=red]; b [colour=blue]; a -> b [colour=red]; colour=x")
        assert [(each.rule, each.severity, each.message) for each in found] == [
            ("unknown_attribute", "notice", f"unknown {level} attribute `colour` is kept") for level in ("graph", "node", "edge")
        ]

    def test_a_close_name_is_proposed(self) -> None:
        assert only("n [promt=x]").hint == "did you mean `prompt`?"

    def test_another_level_is_named(self) -> None:
        assert only("n [weight=3]").hint == "`weight` is an attribute of edges"

    def test_drawing_attributes_and_environment_are_not_reported(self) -> None:
        assert findings('rankdir=LR; bgcolor=white; n [color=red style="filled" fontname=x env.A=1]; start -> exit [color=blue]') == []

    def test_a_workflow_attribute_in_a_subgraph_has_no_effect(self) -> None:
        finding = only("subgraph s { label=x; goal=y; n }")
        assert (finding.severity, finding.message) == ("notice", "`goal` has no effect inside a subgraph")

    def test_notices_stay_with_the_workflow(self) -> None:
        assert [each.rule for each in workflow("n [colour=red]").notices] == ["unknown_attribute"]


class TestVariables:
    def test_goal_and_inputs_in_texts(self) -> None:
        found = workflow(
            'goal="Fix $bug"; label="$goal"; n [label="L $bug" prompt="P ${goal}!" human.default_choice="$bug" env.X="$bug"]; '
            'start -> exit [label="to $bug" condition="context.bug = $bug"]',
            inputs=ResolveInputs(inputs={"bug": "a b"}),
        )
        one = found.nodes["n"]
        assert (found.goal, found.label, one.label, one.prompt, one.human_default_choice) == (
            "Fix a b",
            "Fix a b",
            "L a b",
            "P Fix a b!",
            "a b",
        )
        assert (one.environment, found.edges[0].label, found.inputs) == ({"X": "a b"}, "to a b", {"bug": "a b"})
        condition = found.edges[0].condition
        assert condition is not None
        assert condition.text == "context.bug = $bug"

    def test_the_run_s_goal_replaces_the_graph_s_and_is_taken_literally(self) -> None:
        found = workflow('goal="$old"; n [prompt="$goal"]', inputs=ResolveInputs(goal="new $x"))
        assert (found.goal, found.nodes["n"].prompt, found.attributes["goal"]) == ("new $x", "new $x", "new $x")

    def test_scripts_are_never_touched(self) -> None:
        assert node('script="echo $HOME ${x:-y} $$ $1 $(date)"').script == "echo $HOME ${x:-y} $$ $1 $(date)"

    def test_an_input_used_as_a_shell_variable_is_a_warning(self) -> None:
        finding = only('n [type=command script="set -e\n echo v$version"]', inputs=ResolveInputs(inputs={"version": "1"}))
        assert (finding.rule, finding.severity, finding.position) == ("script_variable", "warning", Position("flow.dot", 4, 8))
        assert finding.hint == "commands find it in `$ARC_INPUT_VERSION`"

    def test_an_undefined_variable_stands_inside_the_string(self) -> None:
        finding = only('n [prompt="one \\"two\\"\n\tthree $gaol"]', inputs=ResolveInputs(goal="G"))
        assert (finding.rule, finding.position, finding.hint) == ("undefined_variable", Position("flow.dot", 4, 8), "did you mean `goal`?")

    def test_joined_strings_are_followed(self) -> None:
        assert only('n [prompt="a" + // c\n  "b $x"]').position == Position("flow.dot", 4, 6)

    def test_the_goal_cannot_use_itself(self) -> None:
        assert only('goal="do $goal"').rule == "undefined_variable"

    def test_an_input_that_nothing_uses_is_a_notice(self) -> None:
        inputs = ResolveInputs(inputs={"used": "1", "shell": "2", "extra": "3"})
        found = findings('n [prompt="$used"]; c [type=command script="echo $ARC_INPUT_SHELL"]', inputs=inputs)
        assert [(each.rule, each.severity, each.message) for each in found] == [
            ("unused_input", "notice", "input `extra` is not used by the workflow")
        ]


class TestPromptFiles:
    def test_a_file_is_read_expanded_and_recorded(self) -> None:
        found = workflow('goal=G; n [prompt="@prompts/./a.md"]', files={"prompts/a.md": "Do $goal\n"})
        assert (found.nodes["n"].prompt, found.sources) == ("Do G\n", {"prompts/a.md": "Do $goal\n"})

    def test_the_path_may_have_variables_and_no_quotes(self) -> None:
        inputs = ResolveInputs(inputs={"name": "a"})
        assert node('prompt="@$name.md"', files={"a.md": "A"}, inputs=inputs).prompt == "A"
        assert node("prompt=@a.md", files={"a.md": "A"}).prompt == "A"

    def test_an_undefined_variable_is_placed_in_the_file(self) -> None:
        finding = only('n [prompt="@a.md"]', files={"a.md": "one\r\ntwo $x"})
        assert (finding.position, finding.source_line) == (Position("a.md", 2, 5), "two $x")

    def test_a_missing_file_is_an_error_at_the_attribute(self) -> None:
        finding = only('n [prompt="@a.md"]')
        assert (finding.rule, finding.severity, finding.position) == ("source_missing", "error", Position("flow.dot", 3, 11))
        assert "a.md" in finding.message

    def test_a_file_that_is_not_text_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "a.md").write_bytes(b"\xff")
        _, found = resolve(parse_dot("digraph g { start -> n -> exit; n [prompt=@a.md] }", "f"), FileSources(tmp_path), ResolveInputs())
        assert [(each.rule, each.position) for each in found] == [("syntax", Position("a.md", 1, 1))]

    @pytest.mark.parametrize(
        ("literal", "prompt"), [("@@team do it", "@team do it"), ("@one\ntwo", "@one\ntwo"), ("@", "@"), ("a @b.md", "a @b.md")]
    )
    def test_other_texts_with_an_at_sign(self, literal: str, prompt: str) -> None:
        assert node(f'prompt="{literal}"').prompt == prompt

    def test_a_value_that_begins_with_an_at_sign_reads_no_file(self) -> None:
        assert node('prompt="$x"', files={"secret": "S"}, inputs=ResolveInputs(inputs={"x": "@secret"})).prompt == "@secret"


class TestModels:
    SHEET = 'model_stylesheet="* { model: all } .c { model: class } #n { provider: id }"; default_model=graph; default_provider=graph;'

    def test_node_before_stylesheet_before_run_before_graph(self) -> None:
        run = ResolveInputs(choice=ModelChoice(model="run", provider="run", reasoning_effort="medium", max_tokens=9, backend="cli"))
        assert workflow("default_model=graph; n", inputs=run).nodes["n"].choice.model == "run"
        assert workflow("default_model=graph; n").nodes["n"].choice.model == "graph"
        found = workflow(self.SHEET + "n; m [class=c]; o [model=own class=c]", inputs=run)
        assert [(each.choice.model, each.choice.provider) for each in (found.nodes["n"], found.nodes["m"], found.nodes["o"])] == [
            ("all", "id"),
            ("class", "run"),
            ("own", "run"),
        ]
        assert found.nodes["n"].choice == ModelChoice("all", "id", "medium", 9, "cli")

    def test_types_and_derived_classes_are_selectors(self) -> None:
        found = workflow(
            'model_stylesheet="tab { model: t } .code-review { reasoning_effort: low; max_tokens: 7 }"; p [shape=tab] '
            'subgraph s { label="Code Review"; r [reasoning_effort=medium]; q }'
        )
        assert (found.nodes["p"].choice.model, found.nodes["r"].choice.reasoning_effort) == ("t", "medium")
        assert (found.nodes["q"].choice.reasoning_effort, found.nodes["q"].choice.max_tokens) == ("low", 7)

    def test_variables_in_the_stylesheet(self) -> None:
        inputs = ResolveInputs(inputs={"m": "vendor/m-1"})
        assert workflow('model_stylesheet="* { model: $m; }" n', inputs=inputs).nodes["n"].choice.model == "vendor/m-1"


CHILD = "digraph child { start -> work -> exit; work [prompt=@prompts/w.md] }"


class TestChildren:
    def test_files_are_relative_to_the_file_they_stand_in_and_replayed_from_the_recording(self) -> None:
        files = {
            "sub/child.dot": 'digraph child { start -> c -> exit; c [type="stack.manager_loop" stack.child_dotfile="../deep/d.dot"] }',
            "deep/d.dot": "digraph d { start -> work -> exit; work [prompt=@p.md] }",
            "deep/p.md": "do $goal",
            "other.md": "never read",
        }
        body = 'goal=G; n [shape=house stack.child_workflow="./sub/child.dot"]'
        found = workflow(body, files=files)
        assert set(found.sources) == {"sub/child.dot", "deep/d.dot", "deep/p.md"}
        child = found.nodes["n"].child
        assert child is not None
        assert (child.name, child.file, child.start, child.goal) == ("child", "sub/child.dot", "start", "G")
        grandchild = child.nodes["c"].child
        assert grandchild is not None
        assert grandchild.nodes["work"].prompt == "do G"
        assert workflow(body, files=found.sources) == found

    def test_a_child_keeps_its_own_goal_and_shares_the_inputs(self) -> None:
        files = {"c.dot": 'digraph c { goal="own $x"; start -> w -> exit; w [prompt="$goal"] }'}
        found = workflow("goal=G; n [shape=house stack.child_workflow=c.dot]", files=files, inputs=ResolveInputs(inputs={"x": "1"}))
        child = found.nodes["n"].child
        assert child is not None
        assert (child.goal, child.nodes["w"].prompt, found.notices) == ("own 1", "own 1", ())

    def test_an_inline_child_has_its_findings_in_the_parent_s_text(self) -> None:
        body = 'n [shape=house stack.child_dot_source="digraph c {\n  start -> w -> exit\n  w [prompt=\\"one $x\\"]\n}"]'
        finding = only(body)
        assert (finding.rule, finding.position) == ("undefined_variable", Position("flow.dot", 5, 19))
        child = workflow(body, inputs=ResolveInputs(inputs={"x": "two"})).nodes["n"].child
        assert child is not None
        assert child.nodes["w"].prompt == "one two"

    def test_syntax_errors_of_an_inline_child_too(self) -> None:
        finding = only('n [shape=house stack.child_dot_source="digraph c {\n  start ->\n}"]')
        assert (finding.rule, finding.position) == ("syntax", Position("flow.dot", 5, 1))

    def test_errors_in_a_child_s_file_are_errors_of_the_workflow(self) -> None:
        found = findings("n [shape=house stack.child_workflow=c.dot]", files={"c.dot": 'digraph c {\n start -> exit [condition="a b"] }'})
        assert [(each.rule, each.position) for each in found] == [("condition_syntax", Position("c.dot", 2, 30))]

    def test_a_child_that_runs_itself_is_named_with_the_way_round(self) -> None:
        files = {
            "a.dot": "digraph a { start -> n -> exit; n [shape=house stack.child_workflow=b.dot] }",
            "b.dot": "digraph b { start -> n -> exit; n [shape=house stack.child_workflow=a.dot] }",
        }
        finding = only("n [shape=house stack.child_workflow=a.dot]", files=files)
        assert (finding.rule, finding.position.file) == ("child_cycle", "b.dot")
        assert finding.message == "the child workflow runs itself: `a.dot` → `b.dot` → `a.dot`"

    def test_children_are_nested_at_most_sixteen_deep(self) -> None:
        text = "digraph a {{ start -> n -> exit; n [shape=house stack.child_workflow=f{0}.dot] }}"
        files = {f"f{index}.dot": text.format(index + 1) for index in range(30)}
        assert only("n [shape=house stack.child_workflow=f0.dot]", files=files).message == "child workflows are nested more than 16 deep"

    def test_one_file_run_by_many_nodes_is_read_once(self) -> None:
        text = "digraph a {{ start -> n -> m -> exit; node [shape=house stack.child_workflow=f{0}.dot] n; m }}"
        files = {f"f{index}.dot": text.format(index + 1) for index in range(15)} | {"f15.dot": "digraph z { start -> exit }"}
        assert workflow("n [shape=house stack.child_workflow=f0.dot]", files=files).nodes["n"].child is not None

    def test_file_and_inline_child_exclude_each_other(self) -> None:
        body = 'n [shape=house stack.child_workflow=c.dot stack.child_dot_source="digraph c { start -> exit }"]'
        assert only(body, files={"c.dot": CHILD}).rule == "attribute_value"

    def test_a_missing_child_is_an_error(self) -> None:
        assert only("n [shape=house stack.child_workflow=c.dot]").rule == "source_missing"
        assert only("n [shape=house stack.child_workflow=c.dot]", files={"c.dot": CHILD}).message.endswith("`prompts/w.md`")


def test_all_errors_are_found_in_one_reading() -> None:
    found = findings('n [timeout=soon prompt="$x"]; start -> exit [condition="a b" fidelity=none]; model_stylesheet="{"')
    assert sorted(each.rule for each in found) == [
        "attribute_value",
        "condition_syntax",
        "fidelity_valid",
        "stylesheet_syntax",
        "undefined_variable",
    ]


class TestDocumentation:
    PAGE = (Path(__file__).parents[3] / "docs" / "workflow-language.md").read_text(encoding="utf-8")

    def test_its_first_example_runs_as_it_is(self) -> None:
        text = textwrap.dedent(self.PAGE[self.PAGE.index("    // Write a change") : self.PAGE.index("    arc run start fix.dot")])
        found, diagnostics = resolve(parse_dot(text, "fix.dot"), StoredSources({}), ResolveInputs(inputs={"file": "src/parser.py"}))
        assert (found is not None and found.goal, diagnostics) == ("Fix the bug in src/parser.py", ())

    def test_its_error_is_what_arc_says(self) -> None:
        with pytest.raises(WorkflowError) as caught:
            parse_dot("digraph fix {" + "\n" * 8 + '  work [prompt="...", label=]\n}', "fix.dot")
        shown = str(caught.value).replace("9:29: ", "9:29: error[syntax]: ", 1)  # as `arc validate` prints it
        assert textwrap.indent(shown, "    ") in self.PAGE

    def test_its_stylesheet_and_conditions_are_valid(self) -> None:
        sheet = self.PAGE[self.PAGE.index("    graph [model_stylesheet") :].split("\n\n")[0]
        edges = self.PAGE[self.PAGE.index('    test -> exit [condition="outcome=success &&') :].split("\n\n")[0]
        found = workflow(sheet + "\n" + edges + "\nplan; test; work; help")
        assert found.nodes["plan"].choice.model == "openai/gpt-5"
        assert [edge.condition is not None for edge in found.edges] == [True] * 3
