"""The parser: every construct of the language, and what is said about texts that are not in it."""

from __future__ import annotations

import pytest

from arc.workflow.language.errors import WorkflowError, format_diagnostic
from arc.workflow.language.parser import decode_source, parse_dot
from arc.workflow.language.syntax import GraphSyntax
from arc.workflow.values import Diagnostic, Duration, Position, Severity, Value


def parse(body: str) -> GraphSyntax:
    return parse_dot(f"digraph g {{\n{body}\n}}", "flow.dot")


def value_of(literal: str) -> Value:
    return parse(f"a [x={literal}]").nodes["a"].attributes["x"].value


def fails(source: str) -> WorkflowError:
    with pytest.raises(WorkflowError) as caught:
        parse_dot(source, "flow.dot")
    assert [finding.rule for finding in caught.value.diagnostics] == ["syntax"]
    return caught.value


def place(error: WorkflowError) -> tuple[int, int]:
    position = error.diagnostics[0].position
    assert position.file == "flow.dot"
    return position.line, position.column


class TestValues:
    @pytest.mark.parametrize(
        ("literal", "value"),
        [
            ("7", 7),
            ("-7", -7),
            ("0.5", 0.5),
            (".5", 0.5),
            ("-.5", -0.5),
            ("3.", 3.0),
            ("1e3", 1000.0),
            ("true", True),
            ("false", False),
            ("word", "word"),
            ("True", "True"),
            ("claude-3.5-sonnet", "claude-3.5-sonnet"),
            ("4o-mini", "4o-mini"),
            ("vendor/model:latest", "vendor/model:latest"),
            ("summary:high", "summary:high"),
            ("./prompts/plan.md", "./prompts/plan.md"),
            ("../x", "../x"),
            ("/tmp/x", "/tmp/x"),
            ("@plan.md", "@plan.md"),
            ("https://example.org/a", "https://example.org/a"),
            ("node", "node"),
            ("digraph", "digraph"),
            ('"15m"', "15m"),
            ('""', ""),
        ],
    )
    def test_a_literal_has_its_type(self, literal: str, value: Value) -> None:
        found = value_of(literal)
        assert (found, type(found)) == (value, type(value))

    @pytest.mark.parametrize(
        ("literal", "milliseconds"), [("250ms", 250), ("90s", 90_000), ("15m", 900_000), ("2h", 7_200_000), ("1d", 86_400_000), ("0s", 0)]
    )
    def test_durations_are_milliseconds_and_keep_their_text(self, literal: str, milliseconds: int) -> None:
        assert value_of(literal) == Duration(milliseconds, literal)

    def test_escapes_of_a_string(self) -> None:
        assert value_of(r'"a \"b\" \\ c\nd\te"') == 'a "b" \\ c\nd\te'

    def test_other_backslashes_stay(self) -> None:
        assert value_of(r'"\d+\.\w"') == r"\d+\.\w"

    def test_a_backslash_at_the_end_of_a_line_joins_it_with_the_next(self) -> None:
        assert value_of('"one \\\ntwo"') == "one two"

    def test_strings_span_lines(self) -> None:
        assert value_of('"one\n  two\n"') == "one\n  two\n"

    def test_strings_are_joined_by_plus(self) -> None:
        assert value_of('"a" + "b"\n + /* c */ "c"') == "abc"

    def test_comment_signs_inside_a_string_are_text(self) -> None:
        assert value_of('"http://x /* y */ # z"') == "http://x /* y */ # z"

    def test_strings_may_hold_any_character(self) -> None:
        assert value_of('"é 漢 🚀 \t"') == "é 漢 🚀 \t"

    def test_quoted_is_remembered(self) -> None:
        attributes = parse('a [x="true", y=true]').nodes["a"].attributes
        assert [(each.value, each.quoted) for each in attributes.values()] == [("true", True), (True, False)]


class TestStatements:
    def test_name_file_and_source(self) -> None:
        source = "digraph Plan_1 { a }"
        graph = parse_dot(source, "dir/flow.dot")
        assert (graph.name, graph.file, graph.source) == ("Plan_1", "dir/flow.dot", source)

    def test_the_name_may_be_quoted_or_left_out(self) -> None:
        assert parse_dot('digraph "my flow" {}', "f").name == "my flow"
        assert parse_dot("digraph {}", "f").name == "workflow"

    def test_attributes_are_separated_by_commas_semicolons_or_white_space(self) -> None:
        graph = parse("a [p=1, q=2; r=3 s=4\n t=5, ]")
        assert {name: each.value for name, each in graph.nodes["a"].attributes.items()} == {"p": 1, "q": 2, "r": 3, "s": 4, "t": 5}

    def test_several_attribute_lists(self) -> None:
        assert list(parse("a [p=1] [q=2]\n[]").nodes["a"].attributes) == ["p", "q"]

    def test_keys_may_be_dotted_and_quoted(self) -> None:
        assert list(parse('a [human.default_choice=x "stack.child_workflow"=y]').nodes["a"].attributes) == [
            "human.default_choice",
            "stack.child_workflow",
        ]

    def test_semicolons_are_optional(self) -> None:
        assert list(parse("a; b\nc c -> d;; e [x=1]; f").nodes) == ["a", "b", "c", "d", "e", "f"]

    def test_comments(self) -> None:
        graph = parse_dot("# first line\ndigraph g { // one\n /* two\n * three **/ a\n  # four -> five\n}", "f")
        assert list(graph.nodes) == ["a"]

    def test_graph_attributes(self) -> None:
        graph = parse('graph [goal="g", x=1] label = "L" rankdir=LR')
        assert {name: each.value for name, each in graph.attributes.items()} == {"goal": "g", "x": 1, "label": "L", "rankdir": "LR"}

    def test_a_chain_is_one_edge_per_arrow_with_the_same_attributes(self) -> None:
        edges = parse("a -> b -> c [weight=2]").edges
        assert [(each.source, each.target, each.index, each.attributes["weight"].value) for each in edges] == [
            ("a", "b", 0, 2),
            ("b", "c", 1, 2),
        ]

    def test_no_space_is_needed_around_an_arrow(self) -> None:
        assert [(each.source, each.target) for each in parse("a->b->c").edges] == [("a", "b"), ("b", "c")]

    def test_nodes_that_only_edges_name_are_made(self) -> None:
        graph = parse("a -> b; b [x=1]")
        assert {node.id: node.declared for node in graph.nodes.values()} == {"a": False, "b": True}

    def test_edges_to_and_from_subgraphs_are_all_pairs(self) -> None:
        edges = parse("a -> { b c } -> subgraph s { d -> e }").edges
        assert [(each.source, each.target) for each in edges] == [
            ("d", "e"),
            ("a", "b"),
            ("a", "c"),
            ("b", "d"),
            ("b", "e"),
            ("c", "d"),
            ("c", "e"),
        ]

    def test_a_later_declaration_adds_to_the_first(self) -> None:
        node = parse("a [x=1 y=1]; a [y=2]").nodes["a"]
        assert ({name: each.value for name, each in node.attributes.items()}, node.position.column) == ({"x": 1, "y": 2}, 1)

    def test_a_quoted_node_id_is_the_same_as_a_bare_one(self) -> None:
        assert list(parse('"a" -> a').nodes) == ["a"]

    def test_keywords_are_lower_case_only(self) -> None:
        assert list(parse("Node -> Graph").nodes) == ["Node", "Graph"]


class TestScopes:
    def test_defaults_hold_for_what_comes_after_them(self) -> None:
        graph = parse("a; node [x=1]; b; node [y=2]; c [x=3]; b")
        assert {node.id: {name: each.value for name, each in node.attributes.items()} for node in graph.nodes.values()} == {
            "a": {},
            "b": {"x": 1},
            "c": {"x": 3, "y": 2},
        }

    def test_edge_defaults(self) -> None:
        edges = parse("edge [weight=1]; a -> b; a -> c [weight=2]").edges
        assert [each.attributes["weight"].value for each in edges] == [1, 2]

    def test_defaults_of_a_subgraph_end_with_it_and_inner_ones_inherit(self) -> None:
        graph = parse("subgraph s { node [x=1]; a; subgraph t { node [y=2]; b } c } d")
        assert {node.id: list(node.attributes) for node in graph.nodes.values()} == {"a": ["x"], "b": ["x", "y"], "c": ["x"], "d": []}

    def test_a_node_belongs_where_it_is_declared_even_if_an_edge_named_it_before(self) -> None:
        graph = parse('a -> b; subgraph s { label="Work"; node [x=1]; b }')
        assert (list(graph.nodes["b"].attributes), graph.nodes["b"].classes, graph.subgraphs[0].nodes) == (["x"], ("work",), ("b",))

    def test_a_node_made_by_an_edge_inherits_what_is_in_force_there(self) -> None:
        assert list(parse("subgraph s { node [x=1]; a -> b }").nodes["b"].attributes) == ["x"]

    @pytest.mark.parametrize(
        ("label", "name"), [("Plan", "plan"), ("Loop A", "loop-a"), ("  Code  Review! ", "code-review"), ("é/Ö_1-x", "_1-x"), ("!", None)]
    )
    def test_the_label_of_a_subgraph_becomes_a_class(self, label: str, name: str | None) -> None:
        assert parse(f'subgraph s {{ a; label="{label}" }}').nodes["a"].classes == ((name,) if name else ())

    def test_explicit_classes_come_before_derived_ones_outermost_first(self) -> None:
        graph = parse('subgraph s { label=Outer; subgraph t { graph [label="In ner"]; a [class="x, y z"] } }')
        assert graph.nodes["a"].classes == ("x", "y", "z", "outer", "in-ner")

    def test_subgraphs_are_kept_with_all_nodes_in_them(self) -> None:
        graph = parse("subgraph s { a; subgraph t { b } } { c }")
        assert [(each.name, each.nodes) for each in graph.subgraphs] == [("s", ("a", "b")), ("t", ("b",)), ("", ("c",))]

    def test_a_second_subgraph_of_the_same_name_goes_on_with_the_first(self) -> None:
        graph = parse("subgraph s { label=One; a } subgraph s { b }")
        assert [(each.name, each.label, each.nodes) for each in graph.subgraphs] == [("s", "One", ("a", "b"))]
        assert graph.nodes["b"].classes == ("one",)

    def test_attributes_of_a_subgraph_are_its_own(self) -> None:
        graph = parse("subgraph s { goal=x }")
        assert (graph.attributes, graph.subgraphs[0].attributes["goal"].value) == ({}, "x")


class TestPositions:
    def test_lines_and_columns_count_from_one(self) -> None:
        graph = parse_dot('digraph g {\n\ta [x="1",\n  y=2]\n}', "flow.dot")
        node = graph.nodes["a"]
        assert node.position == Position("flow.dot", 2, 2)
        assert node.attributes["x"].name_position == Position("flow.dot", 2, 5)
        assert node.attributes["x"].value_position == Position("flow.dot", 2, 7)
        assert node.attributes["y"].value_position == Position("flow.dot", 3, 5)

    @pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
    def test_every_kind_of_line_end(self, ending: str) -> None:
        graph = parse_dot(ending.join(['\ufeffdigraph g { a [x="1', '2"]', "b }"]), "f")
        assert (graph.nodes["a"].attributes["x"].value, graph.nodes["b"].position.line) == ("1\n2", 3)

    def test_an_edge_stands_where_its_source_is_written(self) -> None:
        assert [each.position.column for each in parse("a -> bb -> c").edges] == [1, 6]


class TestErrors:
    def test_an_error_shows_place_line_caret_and_expectation(self) -> None:
        error = fails("digraph g {\n\ta [label=]\n}")
        assert str(error) == (
            "flow.dot:2:11: unexpected `]`\n"
            "    \ta [label=]\n"
            "    \t         ^\n"
            "expected a value (word, number, duration, or string in double quotes)"
        )

    @pytest.mark.parametrize(
        ("source", "line", "column", "words"),
        [
            ("", 1, 1, "expected `digraph NAME { ... }`"),
            ("graph g { a }", 1, 1, "write `digraph` instead of `graph`"),
            ("strict digraph g {}", 1, 1, "remove `strict`"),
            ("Digraph g {}", 1, 1, "the keyword is written in lower case"),
            ("digraph g { a -- b }", 1, 15, "edges are written `->`"),
            ("digraph g { a--b }", 1, 13, "edges are written `->`"),
            ("digraph g { a -> }", 1, 18, "expected a node id"),
            ("digraph g { a [x] }", 1, 17, "every attribute is written `name = value`"),
            ("digraph g { a [x=1 }", 1, 20, "expected an attribute name, `,` or `]`"),
            ("digraph g { a", 1, 14, "expected a statement (node, edge, attribute or subgraph), `=`, `->`, `[` or `}`"),
            ("digraph g { a } }", 1, 17, "a file holds one digraph"),
            ("digraph g {} digraph h {}", 1, 14, "unexpected text after the end of the workflow"),
            ("digraph g { node; }", 1, 17, "expected `[`"),
            ("digraph g { subgraph s; }", 1, 23, "expected `{`"),
            ("digraph g { subgraph s {} [x=1] }", 1, 28, "a subgraph takes no attribute list"),
            ("digraph g { 1a }", 1, 13, "`1a` is not a node id"),
            ('digraph g { "a b" }', 1, 13, "`a b` is not a node id"),
            ("digraph g { a:n -> b }", 1, 13, "ports (`node:port`) are not supported"),
            ("digraph g { a [1=2] }", 1, 16, "`1` is not an attribute name"),
            ("digraph g { a [x=foo:] }", 1, 18, "put a value such as a URL in double quotes"),
            ("digraph g { a [x=<b>] }", 1, 18, "HTML labels are not supported"),
            ("digraph g { a [x='b'] }", 1, 18, "strings are written in double quotes"),
            ("digraph g { a [x=k_of_n(2)] }", 1, 24, "double quotes"),
            ("digraph g { é }", 1, 13, "U+00E9 (latin small letter e with acute)"),
            ("digraph g { a\u00a0b }", 1, 14, "U+00A0 (no-break space)"),
            ("digraph g { a [x=99999999999999999999] }", 1, 18, "integer `99999999999999999999` is too large"),
            ("digraph g { a [x=99999999999999999d] }", 1, 18, "is too long"),
            ("digraph g { a [x=1e999] }", 1, 18, "is too large"),
            ("digraph g { a\0 }", 1, 14, "NUL"),
        ],
    )
    def test_what_is_wrong_is_said_where_it_is(self, source: str, line: int, column: int, words: str) -> None:
        error = fails(source)
        assert (place(error), words in str(error)) == ((line, column), True), str(error)

    def test_an_unterminated_string_points_at_its_start(self) -> None:
        error = fails('digraph g {\n a [x="one\n two]\n}')
        assert (place(error), "this string is never closed" in str(error)) == ((2, 7), True)

    def test_a_forgotten_quote_is_found_where_it_is_missing(self) -> None:
        error = fails('digraph g {\n a [x="one]\n b [y="two"]\n}')
        assert 'the string that begins in line 2 ends in line 3; is a `"` missing in line 2?' in str(error)

    def test_an_unterminated_comment_points_at_its_start(self) -> None:
        error = fails("digraph g {\n a /* b }\n")
        assert (place(error), "this comment is never closed" in str(error)) == ((2, 4), True)

    @pytest.mark.parametrize("depth", [65, 5000])
    def test_nesting_is_bounded_by_an_error(self, depth: int) -> None:
        assert "subgraphs are nested more than 64 deep" in str(fails("digraph g " + "{" * (depth + 1) + "}" * (depth + 1)))

    def test_nesting_up_to_the_bound_works(self) -> None:
        assert len(parse("{" * 64 + "a" + "}" * 64).subgraphs) == 64

    def test_edges_between_large_groups_are_bounded(self) -> None:
        group = "{" + " ".join(f"n{index}" for index in range(400)) + "}"
        assert "more than 100,000 edges" in str(fails(f"digraph g {{ {group} -> {group} }}"))

    def test_a_long_line_is_cut_around_the_caret(self) -> None:
        error = fails("digraph g { " + "a; " * 1000 + "1b " + "c; " * 1000 + "}")
        shown, caret = error.details[:2]
        assert (len(shown) < 140, shown[caret.index("^") :].startswith("1b")) == (True, True)


class TestErrorText:
    HERE = Position("flow.dot", 2, 3)

    def finding(self, severity: Severity, message: str, hint: str = "") -> Diagnostic:
        return Diagnostic("rule", severity, message, self.HERE, "\ta b", ("x", "y", "z"), hint)

    def test_one_error_is_the_message_itself(self) -> None:
        error = WorkflowError([self.finding("notice", "aside"), self.finding("error", "wrong", "do it right")])
        assert (error.message, error.hints, len(error.diagnostics)) == ("flow.dot:2:3: wrong", ("do it right",), 2)
        assert str(error) == "flow.dot:2:3: wrong\n    \ta b\n    \t ^\nexpected x, y or z\nhint: do it right"

    def test_several_are_counted_and_listed_with_each_hint_once(self) -> None:
        error = WorkflowError([self.finding("error", "one", "hint"), self.finding("error", "two", "hint")])
        assert (error.message, error.hints) == ("`flow.dot` has 2 errors", ("hint",))
        assert [line for line in error.details if line.startswith("flow.dot")] == ["flow.dot:2:3: one", "flow.dot:2:3: two"]

    def test_control_characters_do_not_reach_the_terminal(self) -> None:
        finding = Diagnostic("rule", "error", "wrong", self.HERE, "a\x1b[31m b")
        assert format_diagnostic(finding)[1] == "    a\ufffd[31m b"


class TestDecoding:
    def test_utf8_with_and_without_mark(self) -> None:
        assert [decode_source(data, "f") for data in ("é".encode(), b"\xef\xbb\xbf\xc3\xa9")] == ["é", "é"]

    def test_a_bad_byte_is_named_with_its_place(self) -> None:
        with pytest.raises(WorkflowError) as caught:
            decode_source(b"a\r\nbc \xff", "flow.dot")
        assert (place(caught.value), "byte 0xff is not valid UTF-8" in str(caught.value)) == ((2, 4), True)

    def test_utf16_is_recognised(self) -> None:
        with pytest.raises(WorkflowError, match="looks like UTF-16"):
            decode_source("digraph".encode("utf-16"), "flow.dot")


def test_a_workflow_of_a_thousand_lines() -> None:
    block = "\n".join(
        [
            "subgraph c{0} {{",
            '  label="Phase {0}"',
            '  node [timeout=15m, retry_policy=standard; colour="blue"]',
            '  n{0} [prompt="line one',
            'line two", unknown.key=x{0} other=1',
            "  ]",
            "}}",
            "n{0} -> m{0} -> n{0} [condition=\"outcome=fail && x != 'a b'\"]",
            "// comment",
            "",
        ]
    )
    graph = parse_dot("digraph g {\n" + "".join(block.format(index) for index in range(110)) + "}", "f")
    assert (len(graph.nodes), len(graph.edges), len(graph.subgraphs)) == (220, 220, 110)
    assert graph.nodes["n109"].attributes["prompt"].value == "line one\nline two"
