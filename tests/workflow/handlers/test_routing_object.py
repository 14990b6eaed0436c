"""The routing object in a reply: the last one counts, both vocabularies, and no text makes the reader raise."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc.base.json import JsonValue, encode
from arc.workflow.handlers.routing import ROUTING_KEYS, Routing, clean, read_routing, routing_in_text


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ('{"preferred_next_label": "A"}', "A"),
        ('{"preferred_label": "A"}', "A"),
        ('first {"preferred_next_label": "A"} then {"preferred_next_label": "B"} end', "B"),
        ('{"preferred_next_label": "A"} and {"other": 1}', "A"),
        ('```json\n{"preferred_next_label": "A"}\n```', "A"),
        ('{"context_updates": {"preferred_next_label": "inner"}}', None),
        ('{ broken { "preferred_next_label": "A"}', "A"),
        ("no JSON at all", None),
        ('{"result": {"x": 1}}', None),
        ('{"preferred_next_label": "  "}', None),
    ],
)
def test_the_last_object_with_a_routing_key_counts(text: str, label: str | None) -> None:
    routing = routing_in_text(text)
    assert routing.preferred_label == label
    assert routing.problems == ()


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("success", "success"),
        ("succeeded", "success"),
        ("Failed", "fail"),
        ("partially_succeeded", "partial_success"),
        ("skipped", "skipped"),
        ("retry", "retry"),
    ],
)
def test_both_vocabularies(word: str, status: str) -> None:
    assert routing_in_text(json.dumps({"outcome": word})).status == status


def test_what_cannot_be_used_is_left_out_and_named() -> None:
    routing = read_routing(
        {
            "outcome": "perhaps",
            "preferred_next_label": 3,
            "suggested_next_ids": [1],
            "context_updates": {"graph.goal": "x", "ok": 1},
        }
    )
    assert routing.status is None
    assert routing.preferred_label is None
    assert routing.suggested_next_ids == ()
    assert routing.context_updates == {"ok": 1}
    assert len(routing.problems) == 4


def test_only_a_mention_of_a_routing_key_makes_bad_json_a_problem() -> None:
    assert routing_in_text('{"x": 1,, }') == Routing()
    assert routing_in_text('the "outcome" was good') == Routing()
    assert routing_in_text('{"outcome": success}').problems == ("the reply has a routing object that is not valid JSON",)


def test_values_that_no_state_file_could_hold() -> None:
    routing = routing_in_text('{"context_updates": {"s": "a\\ud800b", "i": 123456789012345678901234567890, "f": 1e999}}')
    assert routing.context_updates == {"s": "a\ufffdb", "i": "123456789012345678901234567890", "f": "inf"}
    encode(routing.context_updates)


def test_deep_nesting_and_many_braces_do_not_hurt() -> None:
    assert routing_in_text('"outcome"' + "{" * 100_000).status is None
    assert routing_in_text('{"outcome": ' + '{"a":' * 50_000).status is None


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*sorted(ROUTING_KEYS), "x"]) | st.text(), inner, max_size=4)
        ),
        max_leaves=12,
    ),
    st.text(max_size=20),
)
def test_any_json_in_any_text_is_read_without_an_error(value: object, noise: str) -> None:
    routing = routing_in_text(noise + json.dumps(value) + noise)
    encode(routing.context_updates)


@given(st.text(alphabet='{}[]":, outcmesfail\\n', max_size=80))
def test_any_text_is_read_without_an_error(text: str) -> None:
    routing_in_text('"outcome"' + text)


def test_clean_keeps_ordinary_values() -> None:
    value: JsonValue = {"a": [1, 2.5, "é", None, True]}
    assert clean(value) == value
