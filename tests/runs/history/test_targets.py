"""Targets: the grammar, and what a target finds in a timeline."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc.base.errors import ExitStatus
from arc.runs.history.targets import (
    LastTarget,
    NodeTarget,
    OrdinalTarget,
    Target,
    TargetAmbiguous,
    TargetNotFound,
    TargetSyntaxError,
    find_text,
    parse_target,
)
from arc.runs.history.timeline import Timeline, TimelineEntry, start_entry

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
FRAMES = st.lists(st.one_of(NAMES, st.builds("{}:{}".format, NAMES, NAMES)), max_size=3)
PATHS = st.builds(lambda frames, node: "".join(f"{frame}/" for frame in frames) + node, FRAMES, NAMES)
TARGETS: st.SearchStrategy[Target] = st.one_of(
    st.builds(OrdinalTarget, st.integers(0, 10**8)),
    st.just(LastTarget()),
    st.builds(NodeTarget, PATHS, st.one_of(st.none(), st.integers(1, 10**6))),
)


def entry(ordinal: int, path: str, visit: int = 1, status: str = "success") -> TimelineEntry:
    prefix, slash, node = path.rpartition("/")
    return TimelineEntry(ordinal, path, node, prefix + slash, visit, status, 1, "2026-11-30T12:00:00.000000Z", 10, "running", "01RUN")


TIMELINE = Timeline(
    "01RUN",
    start_entry("01RUN", "2026-11-30T12:00:00.000000Z", commit="base"),
    (
        entry(1, "plan"),
        entry(2, "build"),
        entry(4, "fan:left/lint"),
        entry(5, "fan:right/lint"),
        entry(3, "fan"),
        entry(6, "build", 2, "fail"),
        entry(7, "review/check"),
    ),
)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("@7", OrdinalTarget(7)),
        ("@0", OrdinalTarget(0)),
        ("@last", LastTarget()),
        ("build", NodeTarget("build")),
        ("build@2", NodeTarget("build", 2)),
        ("build@last", NodeTarget("build")),
        ("fan:left/build@3", NodeTarget("fan:left/build", 3)),
        ("me@home", NodeTarget("me@home")),
        ("me@home@2", NodeTarget("me@home", 2)),
    ],
)
def test_a_target_is_an_ordinal_the_last_or_a_node_with_or_without_a_visit(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["", " ", "@", "@x", "@-1", "@1.5", "build@", "build@0", " build", "a\nb", "@١"])
def test_anything_else_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(TargetSyntaxError) as caught:
        parse_target(text)
    assert caught.value.status == ExitStatus.USAGE
    assert "NODE@VISIT" in caught.value.hints[0]


@given(TARGETS)
def test_what_a_target_prints_is_read_back_as_the_same(target: Target) -> None:
    assert parse_target(str(target)) == target


@given(st.text(max_size=20))
def test_parsing_raises_nothing_but_its_own_error(text: str) -> None:
    try:
        target = parse_target(text)
    except TargetSyntaxError:
        return
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    ("text", "ordinal"),
    [
        ("@0", 0),
        ("@2", 2),
        ("@last", 7),
        ("plan", 1),
        ("build", 6),
        ("build@1", 2),
        ("build@2", 6),
        ("fan", 3),
        ("fan:left/lint", 4),
        ("check", 7),
        ("review/check@1", 7),
    ],
)
def test_a_target_finds_its_checkpoint(text: str, ordinal: int) -> None:
    assert find_text(TIMELINE, text).ordinal == ordinal


def test_a_bare_id_in_several_frames_is_ambiguous_and_lists_the_paths() -> None:
    with pytest.raises(TargetAmbiguous) as caught:
        find_text(TIMELINE, "lint")
    assert caught.value.details == ("fan:left/lint", "fan:right/lint")


def test_an_unknown_node_names_the_closest_and_what_exists() -> None:
    with pytest.raises(TargetNotFound) as caught:
        find_text(TIMELINE, "biuld")
    assert caught.value.hints == ("did you mean `build`?", "arc run show 01RUN")
    assert caught.value.details == (
        "@0 (start)",
        "@1 plan",
        "@2 build",
        "@4 fan:left/lint",
        "@5 fan:right/lint",
        "@3 fan",
        "@6 build@2",
        "@7 review/check",
    )


def test_an_unknown_ordinal_or_visit_is_not_found() -> None:
    with pytest.raises(TargetNotFound, match="no checkpoint `@9`"):
        find_text(TIMELINE, "@9")
    with pytest.raises(TargetNotFound, match=r"no visit 3 of `build` \(it has 1, 2\)"):
        find_text(TIMELINE, "build@3")


def test_last_of_a_run_without_checkpoints_is_its_start() -> None:
    assert find_text(Timeline("01RUN", TIMELINE.start, ()), "@last") == TIMELINE.start
