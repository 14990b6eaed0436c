"""Why a node failed: failure classes from exit codes, signals, timeouts and typed errors, and signatures that recognise a repetition.

Nothing here looks at a command's output: a log that contains "timeout" or "500" says nothing about the failure.

| what happened | class |
|---|---|
| exit code 126 or 127 (a program of the script cannot be executed, is not there), program missing, bad path | `structural` |
| any other exit code | `deterministic` |
| ended by a signal, also one that the shell reports as exit code 128 + signal | `transient_infra` |
| time limit | `transient_infra` |
| an error with a `failure_class` (`HandlerError`, `BackendError`, `SandboxError`) | that class |
| any other error of the operating system | `transient_infra` |
| any other error | `deterministic` |
"""

from __future__ import annotations

import re
import signal

from arc.base.errors import ArcError
from arc.sandbox.protocol import CommandResult
from arc.workflow.outcome import Failure, FailureClass

SIGNATURE_LENGTH = 240
_CLASSES: dict[str, FailureClass] = {
    "transient_infra": "transient_infra",
    "deterministic": "deterministic",
    "budget_exhausted": "budget_exhausted",
    "compilation_loop": "compilation_loop",
    "canceled": "canceled",
    "structural": "structural",
}


class HandlerError(ArcError):
    """A handler cannot do its work; `failure_class` decides about retries and limits. For users' handlers too."""

    code = "workflow.handler"

    def __init__(
        self,
        message: str,
        *,
        failure_class: FailureClass = "deterministic",
        hints: tuple[str, ...] = (),
        details: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hints=hints, details=details)
        self.failure_class = failure_class


class InterviewError(ArcError):
    """Nobody can be asked: no terminal and no other door to a person, or a prepared list of answers is at its end."""

    code = "workflow.interview"
    failure_class: FailureClass = "structural"


def classify_command(result: CommandResult) -> Failure | None:
    """The failure that a command's end means; None if it succeeded."""
    if result.timed_out:
        return Failure(f"timed out after {result.duration_ms / 1000:.1f} s; all its processes were ended", "transient_infra", "timeout")
    if result.signal is not None:
        return Failure(f"ended by {signal_name(result.signal)}", "transient_infra", f"signal {signal_name(result.signal)}")
    code = result.exit_code or 0
    if code == 0:
        return None
    if code in (126, 127):
        what = "a program it calls was not found" if code == 127 else "a program it calls cannot be executed"
        return Failure(f"exit code {code}: {what}", "structural", f"exit code {_spelled(code)}")
    if 128 < code < 160:
        name = signal_name(code - 128)
        return Failure(f"exit code {code}: a process was ended by {name}", "transient_infra", f"signal {name}")
    return Failure(f"exit code {code}", "deterministic", f"exit code {_spelled(code)}")


def classify_exception(error: BaseException) -> Failure:
    """The failure that an exception of a handler means. The exception's text is only shown, never searched."""
    message = error.message if isinstance(error, ArcError) else _described(error)
    declared = _CLASSES.get(str(getattr(error, "failure_class", "")))
    if declared is not None:
        return Failure(message, declared)
    if isinstance(error, OSError):  # TimeoutError is one
        return Failure(message, "transient_infra")
    return Failure(message, "deterministic")


def signature(node_id: str, failure: Failure) -> str:
    """`node|class|reason`, the same for failures that differ only in numbers, hashes, temporary paths or spacing."""
    return f"{node_id}|{failure.failure_class}|{normalised(failure.failure_signature or failure.message)}"


def normalised(reason: str) -> str:
    """Lower case; temporary paths, hexadecimal numbers and digits replaced by placeholders; at most `SIGNATURE_LENGTH` characters."""
    text = reason.lower()
    text = re.sub(r"(?<![^\s\"'`(=:,\[])(?:/private)?(?:/var)?/(?:tmp|folders)/[^\s\"'`):,;\]]+", "<tmp>", text)
    text = re.sub(r"\b(?:0x)?(?=[0-9a-f]*[0-9])[0-9a-f]{7,64}\b", "<hex>", text)
    text = re.sub(r"[0-9]+", "<n>", text)
    return " ".join(text.split())[:SIGNATURE_LENGTH]


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `signal 99` for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _described(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _spelled(code: int) -> str:
    """The code in letters, because signatures replace digits and two different exit codes are two different failures."""
    return "-".join(("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")[int(digit)] for digit in str(code))
