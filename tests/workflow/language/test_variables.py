"""Variables in texts: what is replaced, what stays, and where an undefined one is reported."""

from __future__ import annotations

import pytest

from arc.workflow.language.text import PlainLocator
from arc.workflow.language.variables import Variables, environment_names, shell_uses
from arc.workflow.values import Diagnostic, Position

HERE = Position("flow.dot", 2, 10)


def expand(text: str, **values: str) -> tuple[str, list[Diagnostic], set[str]]:
    found: list[Diagnostic] = []
    variables = Variables(values, found.append)
    return variables.expand(text, PlainLocator(text, HERE)), found, variables.used


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("do $goal now", "do G now"),
        ("${goal}post", "Gpost"),
        ("$goal$goal", "GG"),
        ("$$goal", "$goal"),
        ("$$$goal", "$G"),
        ("costs $5, a$ and $ and $-x", "costs $5, a$ and $ and $-x"),
        ("$goal.", "G."),
        ("no variable", "no variable"),
    ],
)
def test_what_is_replaced(text: str, result: str) -> None:
    assert expand(text, goal="G")[:2] == (result, [])


def test_a_value_is_not_expanded_again() -> None:
    assert expand("$a", a="$b", b="x")[0] == "$b"


def test_names_in_braces_may_have_dots_and_dashes() -> None:
    values = {"my-key": "1", "a.b": "2"}
    variables = Variables(values, lambda _: None)
    assert variables.expand("${my-key}${a.b}", PlainLocator("", HERE)) == "12"
    assert variables.used == {"my-key", "a.b"}


@pytest.mark.parametrize(
    ("text", "line", "column"), [("$gaol", 2, 10), ("one $gaol", 2, 14), ("one\n two ${gaol}", 3, 6), ("$goal $goal\n$gaol", 3, 1)]
)
def test_an_undefined_variable_is_an_error_at_its_dollar_sign(text: str, line: int, column: int) -> None:
    result, (finding,), _ = expand(text, goal="G")
    assert (finding.rule, finding.severity, finding.message) == ("undefined_variable", "error", "undefined variable `gaol`")
    assert (finding.position, finding.hint) == (Position("flow.dot", line, column), "did you mean `goal`?")
    assert "gaol" in result


def test_without_a_close_name_the_hint_says_how_to_give_one() -> None:
    assert expand("$branch")[1][0].hint == "give the run the input `-i branch=VALUE`; a dollar sign is written `$$`"
    assert "goal" in expand("$goal")[1][0].hint


@pytest.mark.parametrize("text", ["${", "${a", "${a b}", "${}", "${1}"])
def test_an_open_brace_needs_a_name_and_a_closing_one(text: str) -> None:
    assert [finding.rule for finding in expand(text, a="x")[1]] == ["undefined_variable"]


@pytest.mark.parametrize(("text", "name"), [("a {{ goal }}", "goal"), ("a {{inputs.bug}}", "bug")])
def test_templates_of_other_tools_are_plain_text_with_a_warning(text: str, name: str) -> None:
    result, (finding,), _ = expand(text, goal="G", bug="B")
    assert (result, finding.severity, finding.position.column, finding.hint) == (text, "warning", 12, f"write `${{{name}}}`")
    assert expand("{{ other }} {{.ID}}", goal="G")[:2] == ("{{ other }} {{.ID}}", [])


def test_commands_get_goal_and_inputs_in_their_environment() -> None:
    assert environment_names("G", {"branch": "main", "my-key.2": "x"}) == {
        "ARC_GOAL": "G",
        "ARC_INPUT_BRANCH": "main",
        "ARC_INPUT_MY_KEY_2": "x",
    }


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo $version", [("version", 5)]),
        ("echo ${version} $version", [("version", 5)]),
        ("version=1; echo $version", []),
        ("for version in 1 2; do echo $version; done", []),
        ("read version; echo $version", []),
        ("echo $HOME $ARC_INPUT_VERSION", []),
        ("echo $$version", []),
    ],
)
def test_uses_of_an_input_as_a_shell_variable(script: str, found: list[tuple[str, int]]) -> None:
    assert shell_uses(script, ["version"]) == found
