"""The attribute table: complete, unambiguous, and the same as in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc.workflow.language.attributes import (
    ATTRIBUTES,
    DRAWING,
    SHAPES,
    TYPE_WORDS,
    Level,
    close_matches,
    did_you_mean,
    find_attribute,
    levels_of,
    markdown_table,
    names_at,
)
from arc.workflow.model import NODE_TYPES

PAGE = Path(__file__).parents[3] / "docs" / "workflow-language.md"
LEVELS: tuple[Level, ...] = ("graph", "node", "edge")

EXPECTED: dict[Level, str] = {
    "graph": "goal label model_stylesheet default_max_retries default_max_retry retry_target fallback_retry_target default_fidelity "
    "default_thread max_node_visits stall_timeout loop_restart_signature_limit default_model default_provider",
    "node": "label shape type class timeout prompt reasoning_effort max_tokens model provider llm_model llm_provider backend "
    "project_memory fidelity thread_id max_retries retry_policy retry_target fallback_retry_target goal_gate allow_partial "
    "auto_status max_visits selection script tool_command language join_policy error_policy max_parallel duration "
    "human.default_choice stack.child_workflow stack.child_dotfile stack.child_dot_source manager.poll_interval "
    "manager.max_cycles manager.stop_condition working_directory cwd environment",
    "edge": "label condition weight fidelity thread_id loop_restart freeform",
}


@pytest.mark.parametrize("level", LEVELS)
def test_every_attribute_of_both_vocabularies_is_known(level: Level) -> None:
    assert set(names_at(level)) == set(EXPECTED[level].split())


def test_no_name_is_given_twice() -> None:
    names = [(spec.level, name) for spec in ATTRIBUTES for name in (spec.name, *spec.aliases)]
    assert len(names) == len(set(names))


def test_aliases_lead_to_the_canonical_attribute() -> None:
    pairs = [
        ("model", "llm_model"),
        ("tool_command", "script"),
        ("stack.child_dotfile", "stack.child_workflow"),
        ("cwd", "working_directory"),
    ]
    assert [find_attribute("node", alias) for alias, _ in pairs] == [find_attribute("node", name) for _, name in pairs]


def test_drawing_attributes_are_none_of_ours() -> None:
    assert not DRAWING & {name for level in LEVELS for name in names_at(level)}


def test_every_node_type_has_a_shape_and_a_word() -> None:
    assert set(SHAPES.values()) == set(TYPE_WORDS.values()) == set(NODE_TYPES)
    assert all(TYPE_WORDS[name] == name for name in NODE_TYPES)


def test_close_names() -> None:
    assert close_matches("max_retrys", names_at("node"))[0] == "max_retries"
    assert did_you_mean("promt", names_at("node")) == "did you mean `prompt`?"
    assert did_you_mean("zzz", names_at("node")) == ""
    assert len(close_matches("a", [f"a{index}" for index in range(10)])) <= 3
    assert levels_of("weight") == ("edge",)


@pytest.mark.parametrize("level", LEVELS)
def test_the_documentation_holds_the_same_table(level: Level) -> None:
    assert markdown_table(level) in PAGE.read_text(encoding="utf-8")


def test_the_documentation_names_every_shape_and_type_word() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [word for word in (*SHAPES, *TYPE_WORDS) if f"`{word}`" not in page] == []
