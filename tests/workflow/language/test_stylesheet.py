"""The model stylesheet: selectors, specificity, properties and errors."""

from __future__ import annotations

import pytest

from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.stylesheet import parse_stylesheet
from arc.workflow.values import Position

HERE = Position("flow.dot", 2, 10)


def styled(text: str, node_id: str = "n", node_type: str = "agent", *classes: str) -> dict[str, str]:
    return parse_stylesheet(text, HERE).properties(node_id, node_type, classes)


def test_all_properties_in_both_vocabularies() -> None:
    old = styled("* { llm_model: a; llm_provider: b; reasoning_effort: low; backend: cli; max_tokens: 100 }")
    new = styled("* { model: a; provider: b; reasoning_effort: low; backend: cli; max_tokens: 100 }")
    assert old == new == {"model": "a", "provider": "b", "reasoning_effort": "low", "backend": "cli", "max_tokens": "100"}


@pytest.mark.parametrize(
    "value", ["claude-3.5-sonnet", "vendor/model", "vendor:model:latest", "gpt-5@2026", '"with space"', "'single'", "4o"]
)
def test_values(value: str) -> None:
    assert styled(f"* {{ model: {value} }}") == styled(f"*{{model:{value};}}") == {"model": value.strip("\"'")}


def test_specificity_beats_order() -> None:
    text = "#n { model: id } .c { model: class } agent { model: type } * { model: all }"
    assert [
        styled(text, "n", "agent", "c"),
        styled(text, "m", "agent", "c"),
        styled(text, "m", "agent"),
        styled(text, "m", "command"),
    ] == [{"model": name} for name in ("id", "class", "type", "all")]


def test_of_equal_specificity_the_later_wins() -> None:
    assert styled(".a { model: one } .b { model: two }", "n", "agent", "b", "a") == {"model": "two"}


def test_rules_add_up_by_property() -> None:
    assert styled("* { model: m; provider: p } .c { model: x }", "n", "agent", "c") == {"model": "x", "provider": "p"}


@pytest.mark.parametrize("selector", ["box", "agent", "codergen"])
def test_a_type_is_named_by_shape_or_either_word(selector: str) -> None:
    assert (styled(f"{selector} {{ model: m }}"), styled(f"{selector} {{ model: m }}", "n", "prompt")) == ({"model": "m"}, {})


def test_several_selectors() -> None:
    text = ".a, #x, prompt { model: m }"
    assert [styled(text, "x"), styled(text, "n", "prompt"), styled(text, "n", "agent", "a"), styled(text)] == [{"model": "m"}] * 3 + [{}]


@pytest.mark.parametrize("text", ["", "  \n", "/* nothing { */", "* {}", "* { ; ; }"])
def test_empty_stylesheets(text: str) -> None:
    assert styled(text) == {}


def test_comments_and_lines() -> None:
    assert styled("/* a */ * { /* b */ model: m /* c */; }\n\n#n\n{\n  provider:\n p }") == {"model": "m", "provider": "p"}


def test_variables_in_values() -> None:
    sheet = parse_stylesheet("* { model: $m }", HERE, expand=lambda text, _: text.replace("$m", "x; } #n { model: y"))
    assert sheet.properties("n", "agent", ()) == {"model": "x; } #n { model: y"}


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("x", 2, 11, "expected `{` or `,`"),
        ("* {", 2, 13, "expected a property or `}`"),
        ("* {\n foo: 1 }", 3, 2, "unknown property `foo`"),
        ("* { modle: 1 }", 2, 14, "did you mean `model`?"),
        ("* { model }", 2, 20, "expected `:`"),
        ("* { model: }", 2, 21, "expected a value"),
        ("* { model: a b }", 2, 23, "expected `;` or `}`"),
        ("* { model: 'a }", 2, 21, "this quote is never closed"),
        ("* { reasoning_effort: max }", 2, 32, "expected `low`, `medium` or `high`"),
        ("* { max_tokens: many }", 2, 26, "is not a number of tokens"),
        ("* { max_tokens: 0 }", 2, 26, "is not a number of tokens"),
        ("{ model: a }", 2, 10, "expected a selector"),
        (". { model: a }", 2, 10, ""),
        ("a, { model: a }", 2, 13, "expected a selector"),
        ("/* x", 2, 10, "this comment is never closed"),
        ("* { model: a } }", 2, 25, "expected a selector"),
    ],
)
def test_errors_stand_where_they_are(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(WorkflowError) as caught:
        parse_stylesheet(text, HERE)
    (finding,) = caught.value.diagnostics
    assert (finding.rule, finding.position) == ("stylesheet_syntax", Position("flow.dot", line, column)), str(caught.value)
    assert words in str(caught.value)
