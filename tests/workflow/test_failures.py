"""Failure classes come from how something ended; signatures recognise the same failure again."""

from __future__ import annotations

import signal

import pytest

from arc.agent.errors import BackendError
from arc.base.errors import NotFoundError
from arc.sandbox.errors import SandboxError, SandboxProgramError
from arc.sandbox.protocol import CommandResult
from arc.workflow.failures import HandlerError, InterviewError, classify_command, classify_exception, normalised, signature
from arc.workflow.outcome import Failure


@pytest.mark.parametrize(
    ("code", "failure_class"),
    [
        (1, "deterministic"),
        (2, "deterministic"),
        (126, "structural"),
        (127, "structural"),
        (128, "deterministic"),
        (137, "transient_infra"),
    ],
)
def test_exit_codes(code: int, failure_class: str) -> None:
    failure = classify_command(CommandResult(code, None, False, 5))
    assert failure is not None
    assert failure.failure_class == failure_class
    assert failure.message.startswith(f"exit code {code}")


def test_success_is_no_failure() -> None:
    assert classify_command(CommandResult(0, None, False, 5)) is None


def test_signals_and_timeouts_are_infrastructure() -> None:
    killed = classify_command(CommandResult(None, signal.SIGKILL, False, 5))
    assert killed == Failure("ended by SIGKILL", "transient_infra", "signal SIGKILL")
    late = classify_command(CommandResult(0, None, True, 1500))
    assert late is not None
    assert (late.failure_class, late.message) == ("transient_infra", "timed out after 1.5 s; all its processes were ended")


def test_different_exit_codes_have_different_signatures() -> None:
    failures = [classify_command(CommandResult(code, None, False, 5)) for code in (1, 2, 12)]
    assert len({signature("n", failure) for failure in failures if failure}) == 3


@pytest.mark.parametrize(
    ("error", "failure_class"),
    [
        (HandlerError("x", failure_class="budget_exhausted"), "budget_exhausted"),
        (HandlerError("x"), "deterministic"),
        (BackendError("x", failure_class="transient_infra"), "transient_infra"),
        (SandboxError("x"), "transient_infra"),
        (SandboxProgramError("x"), "structural"),
        (InterviewError("x"), "structural"),
        (NotFoundError("x"), "deterministic"),
        (OSError(28, "No space left on device"), "transient_infra"),
        (TimeoutError(), "transient_infra"),
        (ValueError("timeout 500 try again"), "deterministic"),
    ],
)
def test_typed_errors(error: Exception, failure_class: str) -> None:
    assert classify_exception(error).failure_class == failure_class


def test_an_unexpected_error_names_its_kind() -> None:
    assert classify_exception(KeyError("a")).message == "KeyError: 'a'"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("Exit  code\n 3", "exit code <n>"),
        ("commit 0123abcdef and DEADBEEF12", "commit <hex> and <hex>"),
        ("defaced facade", "defaced facade"),
        ("cannot open /tmp/pytest-of-me/x1/file.txt: gone", "cannot open <tmp>: gone"),
        ("cannot open /home/me/file.txt", "cannot open /home/me/file.txt"),
        ("line 12, column 3", "line <n>, column <n>"),
    ],
)
def test_normalisation(reason: str, expected: str) -> None:
    assert normalised(reason) == expected


def test_a_signature_is_bounded_and_uses_the_hint() -> None:
    assert signature("n", Failure("word " * 1_000)) == "n|deterministic|" + ("word " * 1_000)[:240]
    assert signature("n", Failure("took 5 s", "structural", "Hint 7")) == "n|structural|hint <n>"
