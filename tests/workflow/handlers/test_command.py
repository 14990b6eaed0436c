"""Command nodes: real scripts in a real directory."""

from __future__ import annotations

import json

import pytest

from arc.workflow.failures import HandlerError
from arc.workflow.handlers.capture import Capture
from arc.workflow.handlers.command import CommandHandler
from tests.workflow.handlers.support import Bench


def node(script: str, **attributes: str) -> str:
    extra = "".join(f", {name}={json.dumps(value)}" for name, value in attributes.items())
    return f"start -> n -> exit\n n [shape=parallelogram, script={json.dumps(script)}{extra}]"


def test_output_goes_to_the_log_and_to_the_context(bench: Bench) -> None:
    outcome = bench.run(node("echo out; echo err >&2"))
    assert outcome.status == "success"
    assert outcome.context_updates == {"command.output": "out\n", "command.stderr": "err\n", "command.exit_code": 0, "response.n": "out\n"}
    assert bench.log.streams == {"stdout": b"out\n", "stderr": b"err\n"}
    assert [event.name for event in bench.events] == ["command.started", "command.completed"]


@pytest.mark.parametrize(
    ("script", "failure_class", "message"),
    [
        ("echo timeout 500 try again; exit 3", "deterministic", "exit code 3"),
        ("no-such-program-at-all", "structural", "exit code 127: a program it calls was not found"),
        ("kill -KILL $$", "transient_infra", "ended by SIGKILL"),
        ("sh -c 'kill -TERM $$'; exit $?", "transient_infra", "exit code 143: a process was ended by SIGTERM"),
    ],
)
def test_the_failure_class_comes_from_how_it_ended(bench: Bench, script: str, failure_class: str, message: str) -> None:
    outcome = bench.run(node(script))
    assert outcome.status == "fail"
    assert outcome.failure is not None
    assert (outcome.failure.failure_class, outcome.failure.message) == (failure_class, message)


def test_a_timeout_keeps_the_output_so_far(bench: Bench) -> None:
    outcome = bench.run(node("echo begun; sleep 300", timeout="500ms"))
    assert outcome.failure is not None
    assert outcome.failure.failure_class == "transient_infra"
    assert outcome.failure.message.startswith("timed out after 0.5 s")
    assert outcome.context_updates["command.output"] == "begun\n"


def test_python(bench: Bench) -> None:
    outcome = bench.run(node("import os\nprint(os.environ['ARC_NODE_ID'])", language="python"))
    assert outcome.context_updates["command.output"] == "n\n"


def test_what_a_script_learns_about_its_run(bench: Bench) -> None:
    names = "ARC_RUN_ID ARC_GOAL ARC_NODE_ID ARC_NODE_PATH ARC_ORDINAL ARC_VISIT ARC_ATTEMPT"
    script = f'for name in {names}; do eval echo \\"\\$$name\\"; done'
    outcome = bench.run(node(script), goal="ship it", visit=2, attempt=3)
    assert str(outcome.context_updates["command.output"]).splitlines() == ["01RUN", "ship it", "n", "n", "7", "2", "3"]


def test_working_directory(bench: Bench) -> None:
    (bench.directory / "sub dir").mkdir()
    outcome = bench.run(node("pwd", working_directory="sub dir"))
    assert outcome.context_updates["command.output"] == f"{bench.directory / 'sub dir'}\n"


def test_a_background_process_is_ended_and_reported(bench: Bench) -> None:
    outcome = bench.run(node("sleep 300 & exit 0"))
    assert outcome.status == "success"
    assert bench.named("command.leftovers") == [{"processes": ["sleep"]}]


def test_the_outcome_file_routes_and_sets_context(bench: Bench) -> None:
    routing = {"preferred_next_label": "Ship", "suggested_next_ids": ["exit"], "context_updates": {"risk": "low"}, "notes": "fine"}
    outcome = bench.run(node(f"printf '%s' '{json.dumps(routing)}' > \"$ARC_OUTCOME_FILE\""))
    assert (outcome.status, outcome.preferred_label, outcome.suggested_next_ids, outcome.notes) == ("success", "Ship", ("exit",), "fine")
    assert outcome.context_updates["risk"] == "low"
    assert list(bench.logs.iterdir()) == []  # it may hold secrets; what counts is in the outcome


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "the outcome file is not valid JSON"),
        ("[1]", "the outcome file does not hold a JSON object"),
        ('{"outcome": "perhaps"}', "the outcome file cannot be used: `outcome` is"),
        ('{"context_updates": {"internal.x": 1}}', "the context key `internal.x` belongs to the engine"),
        ('{"outcome": "failed", "failure_reason": "not today"}', "not today"),
    ],
)
def test_an_outcome_file_that_says_or_means_failure(bench: Bench, content: str, message: str) -> None:
    outcome = bench.run(node(f"printf '%s' '{content}' > \"$ARC_OUTCOME_FILE\""))
    assert outcome.status == "fail"
    assert outcome.failure is not None
    assert message in outcome.failure.message
    assert outcome.failure.failure_class == "deterministic"


def test_an_exit_code_wins_over_the_outcome_file(bench: Bench) -> None:
    outcome = bench.run(node('echo \'{"outcome": "success"}\' > "$ARC_OUTCOME_FILE"; exit 2'))
    assert outcome.status == "fail"


def test_the_output_is_not_read_as_routing(bench: Bench) -> None:
    outcome = bench.run(node("""echo '{"outcome": "fail", "preferred_next_label": "x"}'"""))
    assert (outcome.status, outcome.preferred_label) == ("success", None)


def test_a_large_output_is_cut_in_the_context_only(bench: Bench) -> None:
    script = "i=0; while [ $i -lt 2000 ]; do echo line$i; i=$((i+1)); done"
    outcome = bench.run(node(script), handler=CommandHandler(limit=1_000))
    text = str(outcome.context_updates["command.output"])
    assert text.startswith("line0\n")
    assert text.endswith("line1999\n")
    assert "bytes left out" in text
    assert len(bench.log.streams["stdout"].splitlines()) == 2_000
    assert bench.named("command.truncated") == [{"stream": "stdout", "bytes": len(bench.log.streams["stdout"]), "kept": 1_000}]


def test_output_that_is_not_utf8(bench: Bench) -> None:
    outcome = bench.run(node(r"printf 'a\377b'"))
    assert outcome.context_updates["command.output"] == "a\ufffdb"
    assert bench.log.streams["stdout"] == b"a\xffb"


def test_a_dry_run_executes_nothing(bench: Bench) -> None:
    bench.dry_run = True
    outcome = bench.run(node("touch made"))
    assert (outcome.status, outcome.notes) == ("success", "dry run: not executed")
    assert list(bench.directory.iterdir()) == []


def test_a_script_too_long_for_an_argument(bench: Bench) -> None:
    with pytest.raises(HandlerError, match="longer than 120000 bytes") as caught:
        bench.run(node("#" * 130_000))
    assert caught.value.failure_class == "structural"


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 99, 200_000])
@pytest.mark.parametrize("piece", [1, 7, 65_536])
def test_capture_keeps_beginning_and_end(size: int, piece: int) -> None:
    if size // piece > 20_000:
        piece = 7
    data = bytes(97 + index % 26 for index in range(size))
    capture = Capture(10)
    for at in range(0, size, piece):
        capture.add(data[at : at + piece])
    text = capture.text()
    if size <= 10:
        assert text == data.decode()
    else:
        assert text == f"{data[:5].decode()}\n[... {size - 10} bytes left out; the node's log has all of it ...]\n{data[-5:].decode()}"
    assert capture.truncated == (size > 10)
