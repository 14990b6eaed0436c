"""Pictures: what stands in them, that any text survives Graphviz unharmed, and that no meaning hangs on colour alone."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arc.workflow.check import check_without_inputs, read_to_look_at
from arc.workflow.language.parser import parse_dot
from arc.workflow.language.resolve import ResolveInputs
from arc.workflow.language.sources import FileSources, StoredSources
from arc.workflow.model import Workflow
from arc.workflow.picture.draw import NodeMark, PictureError, fold_branches, render, to_dot
from arc.workflow.picture.outline import outline, walk_order
from arc.workflow.picture.style import SHADES, columns, duration, quoted, wrapped

pytestmark = pytest.mark.graphviz
EXAMPLES = Path(__file__).parents[2] / "examples"


def read(source: str, files: Mapping[str, str] | None = None) -> Workflow:
    return read_to_look_at(source, "g.dot", StoredSources(files or {}), ResolveInputs())


def texts(svg: bytes) -> str:
    """All visible text of a picture, in one line."""
    root = ElementTree.fromstring(svg)
    words = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    return re.sub(r"[\s\u00a0]+", " ", " ".join(words))


def titles(svg: bytes) -> list[str]:
    """What Graphviz calls the things it has drawn: node names, `a->b`, clusters."""
    return [node.text or "" for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.dot")), ids=lambda path: path.name)
def test_examples_are_drawn_with_all_their_nodes_and_edges(path: Path) -> None:
    checked = check_without_inputs(path.read_text("utf-8"), path.name, FileSources(EXAMPLES), ResolveInputs())
    assert checked.workflow is not None
    drawn = titles(render(to_dot(checked.workflow), "svg"))
    assert set(checked.workflow.nodes) <= set(drawn)
    assert {f"{edge.source}->{edge.target}" for edge in checked.workflow.edges} <= set(drawn)


def test_heading_nodes_and_edges_say_what_they_are() -> None:
    workflow = read(
        'digraph g { label="Ship it"; goal="A goal"; start -> build\n'
        'build [type=command, script="make all", goal_gate=true, retry_target=build]\n'
        'build -> ask [condition="outcome=success", label="built"]\n ask [type=human, label="Ship?"]\n ask -> exit [label="[Y] Yes"]\n'
        "ask -> build [freeform=true, label=No] }"
    )
    shown = texts(render(to_dot(workflow), "svg"))
    for word in [
        "Ship it",
        "A goal",
        "command",
        "make all",
        "goal gate",
        "outcome=success",
        "built",
        "human gate · ask",
        "[Y] Yes",
        "free text",
        "retry",
    ]:
        assert word in shown


def test_a_prompt_is_shown_from_where_it_says_something_new() -> None:
    workflow = read('digraph g { goal="Faster parsing"; start -> a -> exit\n a [prompt="Goal: $goal\n\nRead the\n code first."] }')
    shown = texts(render(to_dot(workflow), "svg"))
    assert "Read the code first." in shown
    assert shown.count("Faster parsing") == 1


def test_subgraphs_become_nested_clusters() -> None:
    workflow = read(
        "digraph g { start -> a -> b -> exit\n subgraph cluster_out { label=Outer; a; subgraph cluster_in { label=Inner; b } } }"
    )
    dot = to_dot(workflow)
    outer, inner = dot.index("Outer"), dot.index("Inner")
    assert outer < inner
    assert dot.count("subgraph") == 2
    assert [part.label for part in parse_dot(workflow.source, "g.dot").subgraphs] == ["Outer", "Inner"]
    assert {"Outer", "Inner"} <= set(texts(render(dot, "svg")).split())


def test_a_child_workflow_is_drawn_inside_its_own_frame() -> None:
    files = {"kid.dot": "digraph kid { label=Kid; start -> work -> exit\n work [type=command, script=true] }"}
    workflow = read('digraph g { start -> c -> exit\n c [shape=house, stack.child_workflow="kid.dot"] }', files)
    svg = render(to_dot(workflow, {"c/work": NodeMark("fail", 1, 2, 70)}), "svg")
    assert {"c/start", "c/work", "c/exit", "c->c/start", "c/start->c/work"} <= set(titles(svg))
    assert "✗ failed 2 attempts · 70 ms" in texts(svg)


def test_every_status_has_a_mark_and_a_word_of_its_own() -> None:
    assert len({shade.mark for shade in SHADES.values()}) == len(SHADES)
    assert len({shade.word for shade in SHADES.values()}) == len(SHADES)
    names = [f"n{index}" for index in range(len(SHADES))]
    workflow = read(f"digraph g {{ start -> {' -> '.join(names)} -> exit }}")
    marks = {name: NodeMark(status, 2, 3, 61_000, "why") for name, status in zip(names, SHADES, strict=True)}
    shown = texts(render(to_dot(workflow, marks, caption="run 01JK · interrupted"), "svg"))
    assert "run 01JK · interrupted" in shown
    for shade in SHADES.values():  # once in the legend, once in the node
        assert shown.count(f"{shade.mark} {shade.word}") >= 2
    assert shown.count("2 visits · 3 attempts · 1 min 1 s") == len(SHADES)


def test_nodes_without_a_mark_are_not_run_and_an_unknown_status_is_told_as_it_is() -> None:
    workflow = read("digraph g { start -> a -> exit }")
    shown = texts(render(to_dot(workflow, {"start": NodeMark("success"), "a": NodeMark("weird")}), "svg"))
    assert "· weird" in shown
    assert shown.count("○ not run") == 2  # exit, and the legend


def test_taken_edges_are_strong_and_the_others_faint() -> None:
    workflow = read('digraph g { start -> a\n a -> exit [condition="outcome=success"]\n a -> b -> exit }')
    dot = to_dot(workflow, {"start": NodeMark("success"), "a": NodeMark("success")}, taken={("", 0), ("", 1)})
    strong = [line.split(" [")[0].strip() for line in dot.splitlines() if "->" in line and "penwidth=1.9" in line]
    faint = [line.split(" [")[0].strip() for line in dot.splitlines() if "->" in line and "#b4bcc5" in line]
    assert strong == ['"start" -> "a"', '"a" -> "exit"']
    assert faint == ['"a" -> "b"', '"b" -> "exit"']


def test_branches_are_folded_onto_the_nodes_they_walked() -> None:
    marks = {
        "fan": NodeMark("running", 1, 1),
        "fan:left/test": NodeMark("success", 1, 1, 100),
        "fan:right/test": NodeMark("fail", 2, 3, 50),
        "fan:left/sub/one": NodeMark("success", 1, 1, 5),
        "fan:left/deep:x/leaf": NodeMark("skipped", 1, 1),
    }
    assert fold_branches(marks) == {
        "fan": NodeMark("running", 1, 1),
        "test": NodeMark("fail", 3, 4, 150, "left ✓ · right ✗"),
        "sub/one": NodeMark("success", 1, 1, 5),
        "leaf": NodeMark("skipped", 1, 1),
    }


HARD = [
    'He said "no" & left',
    "<b>bold</b> <script>alert(1)</script> &amp; &lt;",
    "C:\\path\\N\\G\\l \\",
    "first\nsecond\r\nthird",
    "日本語 Ünïcödé 🙂 עברית",
    "x" * 200,
    "word " * 60,
    "{a|b} [c] ; -> // comment /* */ #tag",
    "tab\there, bell\x07, escape\x1b[31m",
    " ",
]


@pytest.mark.parametrize("text", HARD)
def test_any_text_is_drawn_as_it_is(text: str) -> None:
    literal = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    workflow = read(
        f"digraph g {{ label={literal}; goal={literal}; start -> a -> b -> exit\n a [label={literal}, prompt={literal}]\n"
        f"b [type=command, script={literal}]\n a -> exit [label={literal}] }}"
    )
    marks = {"a": NodeMark("fail", 1, 1, 5, text)}
    svg = render(to_dot(workflow, marks, caption=text), "svg")
    shown = texts(svg)
    first = (text.split() or [""])[0].replace("\x07", "\N{REPLACEMENT CHARACTER}")[:16]
    assert first in shown
    assert "\\N" not in text or "\\N" in shown
    assert {"start", "a", "b", "exit"} <= set(titles(svg))


NO_NUL = st.characters(exclude_characters="\0", exclude_categories=["Cs"])


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(NO_NUL, max_size=80), st.text(NO_NUL, max_size=300))
def test_graphviz_accepts_whatever_a_file_can_hold(label: str, prompt: str) -> None:
    def literal(text: str) -> str:
        clean = text.encode("utf-8", "replace").decode()
        return '"' + clean.replace("\\", "\\\\").replace('"', '\\"') + '"'

    workflow = read(
        f"digraph g {{ start -> a -> exit\n a [label={literal(label)}, prompt={literal(prompt.lstrip('@').replace('$', ''))}] }}".replace(
            "$", "_"
        )
    )
    assert "a" in titles(render(to_dot(workflow, {"a": NodeMark("fail", note=label)}), "svg"))


def test_png_is_a_png() -> None:
    assert render(to_dot(read("digraph g { start -> exit }")), "png").startswith(b"\x89PNG\r\n")


def test_missing_graphviz_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dot = to_dot(read("digraph g { start -> exit }"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PictureError) as caught:
        render(dot, "svg")
    assert caught.value.message == "the program `dot` of Graphviz is not installed"
    assert any("apt install graphviz" in hint for hint in caught.value.hints)
    assert any("-o FILE.dot" in hint for hint in caught.value.hints)


def test_a_picture_that_graphviz_refuses_is_an_error_with_its_words() -> None:
    assert shutil.which("dot")
    with pytest.raises(PictureError, match="status 1") as caught:
        render("digraph {", "svg")
    assert "syntax error" in " ".join(caught.value.details)


def test_quoted_strings_hide_nothing_from_graphviz() -> None:
    assert quoted('a "b" \\N &lt;\n') == '"a \\"b\\" \\\\N &amp;lt;\\n"'


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (1250, "1.2 s"),
        (59_940, "59.9 s"),
        (59_960, "1 min"),
        (65_000, "1 min 5 s"),
        (1_200_000, "20 min"),
        (3_600_000, "1 h"),
        (3_660_000, "1 h 1 min"),
        (86_400_000, "1 d"),
        (90_000_000, "1 d 1 h"),
        (8_640_000_000, "100 d"),
    ],
)
def test_durations_are_said_as_people_say_them(milliseconds: int, words: str) -> None:
    assert duration(milliseconds) == words


@given(st.text(max_size=200), st.integers(4, 40), st.integers(1, 5))
def test_wrapping_keeps_to_its_box(text: str, width: int, most: int) -> None:
    lines = wrapped(text, width, most)
    assert len(lines) <= most
    assert all(columns(line) <= width for line in lines)


def test_wrapping_keeps_short_text_and_marks_what_it_cuts() -> None:
    assert wrapped("one two\nthree", 20, 3) == ["one two", "three"]
    assert wrapped("one two three four", 9, 1) == ["one two…"]
    assert wrapped("abcdefghij", 4, 9) == ["abcd", "efgh", "ij"]


def test_outline_goes_the_way_of_a_walk_and_marks_ways_back() -> None:
    workflow = read(
        'digraph g { exit; start -> test\n fix [prompt=p]\n test [type=command, script=true, label="Run tests", retry_target=fix]\n'
        'test -> exit [condition="outcome=success"]\n test -> fix [condition="outcome=fail", label="broken"]\n fix -> test }'
    )
    assert walk_order(workflow) == ("start", "test", "fix", "exit")
    lines = [line.text for line in outline(workflow, None)]
    assert lines == [
        "● start  start",
        "    → test",
        "● test   command  Run tests",
        "    → exit  if outcome=success",
        '    → fix  "broken"  if outcome=fail',
        "    ↺ fix  to retry",
        "● fix    agent",
        "    ↺ test",
        "● exit   exit",
    ]


def test_outline_of_a_run_says_how_nodes_fared_and_keeps_to_the_width() -> None:
    workflow = read("digraph g { start -> a -> exit }")
    lines = outline(workflow, {"start": NodeMark("success"), "a": NodeMark("fail", 2, 5, 1500, "left ✗")}, width=44)
    assert [(line.status, line.text) for line in lines if line.kind == "node"] == [
        ("success", "✓ start  start  success"),
        ("fail", "✗ a      agent  failed, 2 visits, 5 attempt…"),
        ("pending", "○ exit   exit   not run"),
    ]
