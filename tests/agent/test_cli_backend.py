"""The `cli` backend with real programs: how they are asked, and what their end means."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc.agent import cli_backend
from arc.agent.cli_backend import CliBackend, transcript, whole_prompt
from arc.agent.errors import BackendError
from arc.agent.protocol import AgentReply, Exchange, ModelChoice, Usage
from arc.base.json import JsonObject
from tests.agent.support import REQUEST, ask


def test_the_prompt_goes_to_standard_input(tmp_path: Path) -> None:
    assert ask(CliBackend(("cat",)), tmp_path, preamble="Goal: g").text == "Goal: g\n\nPlan it"


def test_placeholders_are_replaced_inside_arguments_without_a_shell(tmp_path: Path) -> None:
    backend = CliBackend(("printf", "%s|", "{prompt}", "--model={model}", "{node}", "{worktree}", "{reasoning_effort}", "{other}"))
    reply = ask(backend, tmp_path, prompt="$(echo no); {model}", choice=ModelChoice(model="m-1", reasoning_effort="low"))
    assert reply.text == f"$(echo no); {{model}}|--model=m-1|plan|{tmp_path}|low|{{other}}|"


def test_with_the_prompt_as_argument_standard_input_is_empty(tmp_path: Path) -> None:
    assert ask(CliBackend(("sh", "-c", "cat; echo done", "{prompt}")), tmp_path).text == "done"


def test_it_works_in_the_workspace_and_knows_its_run(tmp_path: Path) -> None:
    reply = ask(
        CliBackend(("sh", "-c", 'echo made > made.txt; echo "$ARC_NODE_ID in $PWD"')), tmp_path, environment={"ARC_NODE_ID": "plan"}
    )
    assert reply.text == f"plan in {tmp_path}"
    assert (tmp_path / "made.txt").read_text() == "made\n"


def test_output_is_told_as_it_arrives(tmp_path: Path) -> None:
    told: list[tuple[str, JsonObject]] = []
    ask(CliBackend(("sh", "-c", "echo thinking >&2; echo answer")), tmp_path, told)
    assert ("agent.output", {"stream": "stderr", "text": "thinking\n"}) in told
    assert ("agent.output", {"stream": "stdout", "text": "answer\n"}) in told


@pytest.mark.parametrize(
    ("script", "failure_class", "message"),
    [
        ("echo timeout 500; echo first >&2; echo 'no credit' >&2; exit 4", "deterministic", "`sh` exited with code 4: no credit"),
        ("exit 4", "deterministic", "`sh` exited with code 4"),
        ("kill -KILL $$", "transient_infra", "`sh` was ended by signal 9"),
    ],
)
def test_how_it_ended_decides_the_failure_class(tmp_path: Path, script: str, failure_class: str, message: str) -> None:
    with pytest.raises(BackendError) as caught:
        ask(CliBackend(("sh", "-c", script)), tmp_path)
    assert (caught.value.failure_class, caught.value.message) == (failure_class, message)


def test_a_time_limit_is_infrastructure(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="did not answer within") as caught:
        ask(CliBackend(("sleep", "300")), tmp_path, timeout=0.3)
    assert caught.value.failure_class == "transient_infra"


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="the agent program `no-such-agent` cannot be started") as caught:
        ask(CliBackend(("no-such-agent", "-p")), tmp_path)
    assert caught.value.failure_class == "structural"
    assert caught.value.hints


def test_an_empty_command_is_refused() -> None:
    with pytest.raises(BackendError, match="has no command"):
        CliBackend(())


def test_a_model_that_the_command_needs_but_nobody_chose(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="no model is chosen for `plan`"):
        ask(CliBackend(("echo", "{model}")), tmp_path)


def test_a_prompt_too_long_for_an_argument(tmp_path: Path) -> None:
    long = "x" * 130_000
    with pytest.raises(BackendError, match="too long for an argument"):
        ask(CliBackend(("echo", "{prompt}")), tmp_path, prompt=long)
    assert ask(CliBackend(("cat",)), tmp_path, prompt=long).text == long


def test_an_endless_reply_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_backend, "REPLY_LIMIT", 100_000)
    with pytest.raises(BackendError, match="printed more than 100000 bytes and was ended"):
        ask(CliBackend(("yes",)), tmp_path)


def test_a_thread_is_a_transcript_before_the_prompt() -> None:
    from dataclasses import replace

    request = replace(REQUEST, history=(Exchange("a", "one", "1"), Exchange("b", "two", "2")))
    text = whole_prompt(request)
    assert text.index("### a: prompt\none") < text.index("### a: reply\n1") < text.index("### b: prompt\ntwo") < text.index("Plan it")
    assert whole_prompt(REQUEST) == "Plan it"


def test_a_long_transcript_keeps_the_newest() -> None:
    from dataclasses import replace

    history = tuple(Exchange(f"n{index}", "p" * 30_000, "r" * 30_000) for index in range(6))
    text = transcript(replace(REQUEST, history=history))
    assert "(3 earlier exchanges are left out)" in text
    assert "### n5: reply" in text
    assert "### n2: reply" not in text


def test_json_is_read_where_it_is_asked_for(tmp_path: Path) -> None:
    printed = '{"result": "All green.", "usage": {"input_tokens": 3, "output_tokens": 4}, "total_cost_usd": 0.5}'
    assert ask(CliBackend(("echo", printed), reply="json"), tmp_path) == AgentReply(
        "All green.", Usage(input_tokens=3, output_tokens=4, cost=0.5)
    )
    assert ask(CliBackend(("echo", printed)), tmp_path).text == printed
    with pytest.raises(BackendError, match="`echo` printed no JSON"):
        ask(CliBackend(("echo", "All green."), reply="json"), tmp_path)
