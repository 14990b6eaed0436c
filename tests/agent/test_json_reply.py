"""Replies that agent programs print as JSON: text, tokens and cost of each known shape, and what is said when there is none."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc.agent.errors import BackendError
from arc.agent.json_reply import read_json_reply
from arc.agent.protocol import AgentReply, Usage

CLAUDE = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "All green.",
    "total_cost_usd": 0.25,
    "usage": {"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 40},
}
COST = Usage(input_tokens=10, output_tokens=20, cache_read_tokens=30, cache_write_tokens=40, cost=0.25)
CODEX = "\n".join(
    json.dumps(line)
    for line in (
        {"type": "thread.started", "thread_id": "1"},
        {"type": "item.completed", "item": {"type": "reasoning", "text": "Hm."}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "First."}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}},
        {"type": "turn.completed", "usage": {"input_tokens": 5, "cached_input_tokens": 3, "output_tokens": 2}},
    )
)


@pytest.mark.parametrize(
    ("printed", "reply"),
    [
        (json.dumps(CLAUDE), AgentReply("All green.", COST)),
        (json.dumps(CLAUDE, indent=2) + "\n", AgentReply("All green.", COST)),
        (json.dumps([{"type": "system", "model": "m-1"}, CLAUDE]), AgentReply("All green.", Usage(**{**COST.__dict__, "model": "m-1"}))),
        ('{"type": "system"}\nnot JSON\n' + json.dumps(CLAUDE), AgentReply("All green.", COST)),
        (CODEX, AgentReply("Done.", Usage(input_tokens=5, output_tokens=2, cache_read_tokens=3))),
        ('{"response": "Hello."}', AgentReply("Hello.", None)),
        ('{"result": ""}', AgentReply("", None)),
        ('{"result": "x", "usage": {"input_tokens": "many"}, "total_cost_usd": true}', AgentReply("x", Usage())),
    ],
)
def test_the_shapes_that_are_read(printed: str, reply: AgentReply) -> None:
    assert read_json_reply(printed, "agent") == reply


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ('{"is_error": true, "result": "credit balance is too low"}', "says that it failed: credit balance is too low"),
        ('{"is_error": true, "subtype": "error_max_turns"}', "says that it failed: error_max_turns"),
        ('{"error": {"message": "quota"}}', "says that it failed: quota"),
        ('{"type": "error", "error": "gone"}', "says that it failed: gone"),
        ("All green.", "printed no JSON"),
        ("", "printed no JSON"),
        ('{"ok": 1}', "printed JSON without a reply in it"),
        ("[1, 2]", "printed no JSON"),
    ],
)
def test_what_is_said_when_there_is_no_reply(printed: str, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        read_json_reply(printed, "agent")


def test_an_answer_after_an_error_takes_it_back() -> None:
    assert read_json_reply('{"error": "retrying"}\n{"result": "fine"}', "agent").text == "fine"


@given(
    st.text()
    | st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)).map(json.dumps)
)
def test_anything_printed_is_a_reply_or_a_backend_error(printed: str) -> None:
    with contextlib.suppress(BackendError):
        assert isinstance(read_json_reply(printed, "agent"), AgentReply)
