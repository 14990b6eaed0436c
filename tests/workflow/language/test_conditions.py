"""Conditions: grammar, keys, comparisons, and the errors of what cannot be read."""

from __future__ import annotations

import pytest

from arc.base.json import JsonObject
from arc.workflow.language.conditions import Facts, parse_condition
from arc.workflow.language.errors import WorkflowError
from arc.workflow.values import Position

HERE = Position("flow.dot", 3, 20)

CONTEXT: JsonObject = {
    "count": 3,
    "share": 0.5,
    "name": "two words",
    "yes": True,
    "no": False,
    "nothing": None,
    "empty": "",
    "zero": "0",
    "files": ["a.py", "b c.py"],
    "none": [],
    "test": {"result": {"passed": 7}, "a.b": "inner"},
    "test.literal": "outer",
    "context.odd": "kept under its full name",
    "odd": "plain",
    "parallel.results": [{"id": "left", "status": "fail"}],
    "outcome": "fail",
}
FACTS = Facts(outcome="success", preferred_label="Ship it", context=CONTEXT)


def holds(text: str, facts: Facts = FACTS) -> bool:
    return parse_condition(text, HERE).evaluate(facts)


class TestGrammar:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("yes && yes", True),
            ("yes && no", False),
            ("no || yes", True),
            ("yes || no && no", True),
            ("(yes || no) && no", False),
            ("no && no || yes", True),
            ("!no && yes", True),
            ("!(yes && no)", True),
            ("!yes || yes", True),
            ("!outcome=fail", True),
            ("!outcome = success", False),
            ("!!yes", True),
            ("((((yes))))", True),
            ("yes&&!no||no", True),
            ("  yes\n  && yes ", True),
        ],
    )
    def test_precedence_and_parentheses(self, text: str, expected: bool) -> None:
        assert holds(text) is expected

    def test_long_chains_are_not_nested(self) -> None:
        assert holds(" && ".join(["yes"] * 20_000)) is True
        assert holds(" || ".join(["no"] * 20_000)) is False

    def test_what_it_asks_for(self) -> None:
        condition = parse_condition("outcome=fail && (context.a > 3 || !b) && outcome != succeeded", HERE)
        assert (condition.text, condition.names()) == (
            "outcome=fail && (context.a > 3 || !b) && outcome != succeeded",
            frozenset({"outcome", "context.a", "b"}),
        )
        assert condition.outcomes() == {"fail", "succeeded"}


class TestKeys:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("outcome = success", True),
            ("preferred_label = 'Ship it'", True),
            ("context.count = 3", True),
            ("count = 3", True),
            ("context.odd = 'kept under its full name'", True),
            ("odd = plain", True),
            ("context.test.literal = outer", True),
            ("context.test.result.passed = 7", True),
            ("test.a.b = inner", True),
            ("parallel.results.0.status = fail", True),
            ("parallel.results.1.status = ''", True),
            ("parallel.results.x = ''", True),
            ("count.deeper = ''", True),
            ("missing = ''", True),
            ("missing = x", False),
            ("missing != x", True),
        ],
    )
    def test_where_a_value_is_found(self, text: str, expected: bool) -> None:
        assert holds(text) is expected

    def test_outcome_is_the_node_s_own_and_not_a_context_key(self) -> None:
        assert (holds("outcome=success"), holds("context.outcome=fail")) == (True, True)


class TestComparisons:
    @pytest.mark.parametrize(
        "text",
        ["yes", "count", "name", "files", "test", "context.share", "!no", "!nothing", "!empty", "!zero", "!none", "!missing", "outcome"],
    )
    def test_a_bare_key_is_true_unless_empty_false_zero_or_null(self, text: str) -> None:
        assert holds(text) is True

    @pytest.mark.parametrize("word", ["success", "succeeded"])
    @pytest.mark.parametrize("outcome", ["success", "succeeded"])
    def test_outcome_words_of_both_vocabularies_are_equal(self, word: str, outcome: str) -> None:
        facts = Facts(outcome, "", {"outcome": outcome})
        assert [holds(f"{key}{sign}{word}", facts) for key in ("outcome", "context.outcome") for sign in ("=", "!=")] == [True, False] * 2

    def test_other_outcome_words(self) -> None:
        assert holds("outcome=partially_succeeded", Facts("partial_success", "", {})) is True
        assert holds("outcome=failed", Facts("fail", "", {})) is True
        assert holds("outcome=done", Facts("done", "", {})) is True

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("count == 3", True),
            ("count=3.0", False),
            ("yes=true", True),
            ("nothing=null", True),
            ("share=0.5", True),
            ("""none = '[]'""", True),
            ("""test.result = '{"passed":7}'""", True),
            ("count < 4", True),
            ("count<3", False),
            ("count <= 3", True),
            ("count >= 3.5", False),
            ("count > -1", True),
            ("share > .25", True),
            ("name > 1", False),
            ("name < 1", False),
            ("count > x", False),
            ("missing < 1", False),
            ("yes > 0", False),
            ("name contains 'o w'", True),
            ("name contains three", False),
            ("files contains a.py", True),
            ('files contains "b c.py"', True),
            ("files contains py", False),
            ("missing contains ''", True),
            (r"name matches '^two\s\w+$'", True),
            ("name matches ^two", True),
            ("name matches words$", True),
            ("name matches ^words", False),
            ("files matches 'b c'", True),
            (r"""name = 'it\'s "x"'""", False),
        ],
    )
    def test_operators(self, text: str, expected: bool) -> None:
        assert holds(text) is expected

    def test_quotes_inside_quotes(self) -> None:
        facts = Facts("success", "", {"x": """it's "so" \\ \\d"""})
        assert holds(r"""x = 'it\'s "so" \\ \d'""", facts) is True
        assert holds(r'''x = "it's \"so\" \\ \d"''', facts) is True

    def test_a_word_may_look_like_an_operator(self) -> None:
        assert holds("x = contains", Facts("", "", {"x": "contains"})) is True
        assert holds("contains", Facts("", "", {"contains": 1})) is True

    def test_values_are_expanded_after_the_structure_is_known(self) -> None:
        condition = parse_condition("x = $y", HERE, expand=lambda text, _: text.replace("$y", "1 || yes"))
        assert (condition.evaluate(FACTS), condition.evaluate(Facts("", "", {"x": "1 || yes"}))) == (False, True)


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "column", "words"),
        [
            ("", 20, "it is empty"),
            ("   ", 20, "it is empty"),
            ("a =", 23, "expected a value"),
            ("a = && b", 24, "expected a value"),
            ("a b", 22, "a value with spaces must be quoted"),
            ("name = two words", 31, "a value with spaces must be quoted"),
            ("(a", 22, "expected `)`, `&&` or `||`"),
            ("a)", 21, "unexpected `)`"),
            ("a & b", 22, "write `&&`"),
            ("a | b", 22, "write `||`"),
            ("a &&", 24, "it ends too early"),
            ("&& a", 20, "expected a key"),
            ("= a", 20, "expected a key"),
            ("'a' = b", 20, "the key stands on the left, unquoted"),
            ("a = 'b", 24, "this quote is never closed"),
            ('a = "b', 24, "this quote is never closed"),
            ("5 = a", 20, "`5` is not a key"),
            ("a$b", 20, "`a$b` is not a key"),
            ("a. = b", 20, "`a.` is not a key"),
            ("a matches '('", 31, "is not a regular expression"),
            ("a matches [", 30, "is not a regular expression"),
            ("a matches 'x{99999999999999999999}'", 31, "too large"),
            ("!" * 65 + "a", 84, "nested more than 64 deep"),
            ("(" * 5000, 84, "nested more than 64 deep"),
        ],
    )
    def test_a_bad_condition_is_an_error_at_its_place(self, text: str, column: int, words: str) -> None:
        with pytest.raises(WorkflowError) as caught:
            parse_condition(text, HERE)
        (finding,) = caught.value.diagnostics
        assert (finding.rule, finding.severity, finding.position) == ("condition_syntax", "error", Position("flow.dot", 3, column))
        assert words in str(caught.value)

    def test_places_in_later_lines(self) -> None:
        with pytest.raises(WorkflowError) as caught:
            parse_condition("a &&\n  b &", HERE)
        assert caught.value.diagnostics[0].position == Position("flow.dot", 4, 5)


def test_evaluation_survives_deep_and_huge_values() -> None:
    deep: JsonObject = {}
    for _ in range(100_000):
        deep = {"x": deep}
    facts = Facts("success", "", {"deep": deep, "big": 10**400, "text": "x" * 1_000_000})
    assert (holds("deep = x", facts), holds("big > 1", facts), holds("text contains xx", facts)) == (False, True, True)
