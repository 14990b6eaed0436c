"""Whatever text comes, the language raises nothing but `WorkflowError`; and what is printed is read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from arc.base.json import JsonValue
from arc.workflow.language.conditions import Facts, parse_condition
from arc.workflow.language.errors import WorkflowError, format_diagnostic
from arc.workflow.language.parser import decode_source, parse_dot
from arc.workflow.language.resolve import ResolveInputs, resolve
from arc.workflow.language.sources import StoredSources
from arc.workflow.language.stylesheet import parse_stylesheet
from arc.workflow.values import Diagnostic, Duration, Position, Value

HERE = Position("f", 1, 1)

fuzz = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])

_DOT_WORDS = """digraph graph node edge subgraph strict { } [ ] = , ; : + -> -- a b start exit 1 .5 15m true " ' \\ // /* */ #
$goal ${ @x label="x" shape=box type=command condition="a&&(b" prompt="@p.md" class="x,y" max_retries=2 timeout=x é
model_stylesheet="*{model:m" stack.child_workflow=c.dot env.A=1"""
_CONDITION_WORDS = (
    """( ) ! && || & | = == != < > <= >= contains matches outcome context.a a b.0.c 'x' "y" ' " \\ [ ^ 5 -1 1e5 success fail $"""
)
_STYLE_WORDS = """* { } : ; , . # .a #b box agent model llm_model max_tokens low m/1:2 'x' " /* */ reasoning_effort"""

DOT_TOKENS = st.sampled_from([*_DOT_WORDS.split(), "\n", "\t", "\0", 'stack.child_dot_source="digraph x { start -> exit }"'])
CONDITION_TOKENS = st.sampled_from([*_CONDITION_WORDS.split(), " ", '"y z"'])
STYLE_TOKENS = st.sampled_from([*_STYLE_WORDS.split(), " "])

VALID = """# a workflow
digraph flow {
  goal = "do $x"; graph [model_stylesheet="* { model: m; } .a { backend: cli }"]
  node [timeout=15m, class="a b"]
  start [shape=Mdiamond] exit [shape=Msquare]
  subgraph s { label="One Two"; work [prompt="line one
  line \\"two\\" $goal", max_retries=2; join_policy="k_of_n(2)"] }
  start -> work -> check -> exit [weight=2 condition="outcome=success && !(x > 3 || y matches '^a+$')"]
  check [type=tool tool_command="echo $HOME" env.A="1"] // done
}
"""


def texts(tokens: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Sequences of the language's own tokens, with or without spaces, and arbitrary text."""
    joined = st.builds(lambda parts, space: space.join(parts), st.lists(tokens, max_size=40), st.sampled_from([" ", "", "\n"]))
    return st.one_of(joined, st.text(max_size=60))


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The valid workflow with some places cut out, doubled or replaced."""
    text = VALID
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(st.one_of(st.just(""), DOT_TOKENS, st.just(text[start:end] * 2), st.text(max_size=3))) + text[end:]
    return text


def only_its_own_errors(action: Callable[[], object], lines: list[str] | None = None) -> None:
    with suppress_workflow_error() as caught:
        action()
    for finding in caught:
        assert (finding.position.line >= 1, finding.position.column >= 1) == (True, True)
        assert format_diagnostic(finding)
        if lines is not None:
            assert finding.source_line == lines[finding.position.line - 1]
            assert finding.position.column <= len(finding.source_line) + 1


@contextmanager
def suppress_workflow_error() -> Iterator[list[Diagnostic]]:
    """The findings of a `WorkflowError`, if one is raised; anything else goes on."""
    found: list[Diagnostic] = []
    try:
        yield found
    except WorkflowError as error:
        found.extend(error.diagnostics)
        if not (found and str(error)):
            raise


def lines_of(text: str) -> list[str]:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


@fuzz
@given(st.one_of(texts(DOT_TOKENS), texts(DOT_TOKENS).map(lambda body: f"digraph g {{ {body} }}"), mutated()))
@example("\r\n\ufeff")
@example('digraph g { a [x="\\')
@example("digraph g { a [x=-.")
@example("digraph g { /")
def test_the_parser_raises_only_workflow_errors_with_a_place_in_the_text(source: str) -> None:
    only_its_own_errors(lambda: parse_dot(source, "f"), lines_of(source))


@fuzz
@given(st.one_of(mutated(), texts(DOT_TOKENS).map(lambda body: f"digraph g {{ start -> exit {body} }}")))
def test_resolve_collects_what_is_wrong_and_raises_nothing(source: str) -> None:
    try:
        syntax = parse_dot(source, "f")
    except WorkflowError:
        return
    sources = StoredSources({"p.md": "do $goal $x", "c.dot": 'digraph c { start -> n -> exit; n [stack.child_workflow="c.dot"] }'})
    workflow, findings = resolve(syntax, sources, ResolveInputs(inputs={"x": "1"}))
    assert (workflow is None) == any(finding.severity == "error" for finding in findings)
    for finding in findings:
        assert format_diagnostic(finding)
        if finding.position.file == "f":
            assert finding.position.line <= len(lines_of(source))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "0", "c", "b.0"]), inner, max_size=3),
    max_leaves=8,
)


@fuzz
@given(texts(CONDITION_TOKENS), st.dictionaries(st.sampled_from(["a", "b", "context.a", "b.0"]), JSON, max_size=4), st.text(max_size=5))
def test_conditions_raise_only_workflow_errors_and_evaluation_nothing(text: str, context: dict[str, JsonValue], outcome: str) -> None:
    def check() -> None:
        condition = parse_condition(text, HERE)
        assert condition.evaluate(Facts(outcome, outcome, context)) in (True, False)
        assert condition.names()
        condition.outcomes()

    only_its_own_errors(check)


@fuzz
@given(texts(STYLE_TOKENS))
def test_stylesheets_raise_only_workflow_errors(text: str) -> None:
    only_its_own_errors(lambda: parse_stylesheet(text, HERE).properties("b", "agent", ["a"]))


@given(st.binary(max_size=40))
def test_bytes_are_text_or_an_error(data: bytes) -> None:
    only_its_own_errors(lambda: decode_source(data, "f"))


# --- what is printed is read back ------------------------------------------------------------------------------------

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda word: word not in ("graph", "digraph", "node", "edge", "subgraph", "true", "false")
)
keys = st.lists(names, min_size=1, max_size=3).map(".".join)
units = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
durations = st.builds(
    lambda count, unit: Duration(count * units[unit], f"{count}{unit}"), st.integers(0, 10_000), st.sampled_from(list(units))
)
bare = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,6}[a-z0-9]", fullmatch=True).filter(lambda word: word not in ("true", "false"))
strings = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=20)
floats = st.floats(-1e9, 1e9).map(lambda number: round(number, 6))
values: st.SearchStrategy[Value] = st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), floats, st.booleans(), durations, strings)
attribute_maps = st.dictionaries(keys, values, max_size=4)


def printed(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'
    if isinstance(value, float):
        return f"{value:f}"
    return str(value)


def printed_list(attributes: dict[str, Value], separator: str) -> str:
    return "[" + separator.join(f"{key}={printed(value)}" for key, value in attributes.items()) + "]"


@settings(deadline=None)
@given(
    st.dictionaries(names, attribute_maps, min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), attribute_maps), max_size=6),
    attribute_maps,
    st.sampled_from([", ", "; ", " ", "\n"]),
)
def test_a_printed_graph_is_read_back(
    nodes: dict[str, dict[str, Value]], edges: list[tuple[int, int, dict[str, Value]]], graph: dict[str, Value], separator: str
) -> None:
    ids = list(nodes)
    pairs = [(ids[source % len(ids)], ids[target % len(ids)], attributes) for source, target, attributes in edges]
    source = "\n".join(
        [
            "digraph g {",
            f"graph {printed_list(graph, separator)}",
            *(f"{name} {printed_list(attributes, separator)}" for name, attributes in nodes.items()),
            *(f"{source} -> {target} {printed_list(attributes, separator)};" for source, target, attributes in pairs),
            "}",
        ]
    )
    found = parse_dot(source, "f")

    def plain(attributes: object) -> dict[str, tuple[type, Value]]:
        assert hasattr(attributes, "items")
        return {name: (type(each.value), each.value) for name, each in attributes.items()}

    def typed(attributes: dict[str, Value]) -> dict[str, tuple[type, Value]]:
        return {name: (type(value), value) for name, value in attributes.items()}

    assert plain(found.attributes) == typed(graph)
    assert {node.id: plain(node.attributes) for node in found.nodes.values()} == {name: typed(each) for name, each in nodes.items()}
    assert [(each.source, each.target, plain(each.attributes)) for each in found.edges] == [(a, b, typed(each)) for a, b, each in pairs]


@given(bare)
def test_a_bare_word_is_itself(word: str) -> None:
    assert parse_dot(f"digraph g {{ a [x={word}, y={word}] }}", "f").nodes["a"].attributes["y"].value == word
