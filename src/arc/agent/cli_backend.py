"""The `cli` backend: an external agent program (`claude -p`, `codex exec`, ...) that works in the workspace and prints its reply.

The program gets the prompt on stdin, or as an argument where the template has `{prompt}`; it runs in the workspace's directory through
the sandbox, so its output is redacted, its whole process family is ended on timeout or cancel, and it may run elsewhere than here.
Standard output is the reply (as it is, or read as JSON), standard error goes to the node's log. It keeps no conversations: for fidelity
`full` what was said in the thread is put before the prompt as a transcript.
"""

from __future__ import annotations

import codecs
import re
import time
from dataclasses import dataclass, field
from typing import Literal

from arc.agent.errors import BackendError
from arc.agent.json_reply import read_json_reply
from arc.agent.protocol import AgentEventSink, AgentReply, AgentRequest
from arc.sandbox.errors import SandboxProgramError
from arc.sandbox.protocol import Command, CommandResult, Sandbox, Stream

PLACEHOLDERS = ("prompt", "model", "provider", "node", "worktree", "reasoning_effort")
ARGUMENT_LIMIT = 120_000
"""Bytes of a prompt that is passed as an argument; the kernel takes no longer one (128 KiB on Linux)."""

TRANSCRIPT_LIMIT = 200_000
"""Characters of a thread's transcript; the newest exchanges are kept."""

REPLY_LIMIT = 20_000_000
"""Bytes of standard output; a program that prints more is ended."""

_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_STDERR_KEPT = 8_192


@dataclass(frozen=True)
class CliBackend:
    """`command` is the argv template of `[model] command`: placeholders are replaced inside each argument, no shell is involved.

    `reply` says how its standard output is read: as it is, or as JSON (`arc.agent.json_reply`), which also tells what a call cost.
    """

    command: tuple[str, ...]
    name: str = "cli"
    reply: Literal["text", "json"] = "text"

    def __post_init__(self) -> None:
        if not self.command:
            raise BackendError(
                "the `cli` backend has no command",
                failure_class="structural",
                hints=('set it in arc.toml: [model] backend = "cli", command = ["claude", "-p"]',),
            )

    async def run(self, request: AgentRequest, sandbox: Sandbox, emit: AgentEventSink) -> AgentReply:
        """Start the program, wait for its end, return what it printed.

        Raises:
            BackendError: it is not there (structural), exited with another code than 0 (deterministic), was ended by a signal or by
                the time limit (transient_infra), printed more than `REPLY_LIMIT`, or JSON was asked for and is not a reply.
        """
        prompt = whole_prompt(request)
        collected = _Collected(emit)
        command = Command(
            argv=self._argv(request, prompt, sandbox.directory),
            environment=request.environment,
            stdin=b"" if self._prompt_is_argument else prompt.encode("utf-8", "replace"),
            timeout=request.timeout,
        )
        started = time.monotonic()
        try:
            result = await sandbox.run(command, collected)
        except SandboxProgramError as error:
            raise BackendError(
                f"the agent program `{self.command[0]}` cannot be started: {error.message}",
                failure_class="structural",
                hints=("install it, or set another one in arc.toml: [model] command = [...]",),
            ) from error
        except _TooMuchError as error:
            raise BackendError(f"`{self.command[0]}` printed more than {REPLY_LIMIT} bytes and was ended") from error
        self._check(result, collected, time.monotonic() - started)
        printed = bytes(collected.stdout).decode("utf-8", "replace")
        return read_json_reply(printed, self.command[0]) if self.reply == "json" else AgentReply(printed.strip("\n"))

    async def close(self) -> None:
        """Nothing to end: no program outlives its call."""

    @property
    def _prompt_is_argument(self) -> bool:
        return any("{prompt}" in argument for argument in self.command)

    def _argv(self, request: AgentRequest, prompt: str, directory: str) -> tuple[str, ...]:
        if self._prompt_is_argument and len(prompt.encode("utf-8", "replace")) > ARGUMENT_LIMIT:
            raise BackendError(
                f"the prompt of `{request.node}` is too long for an argument ({len(prompt.encode('utf-8', 'replace'))} bytes)",
                failure_class="structural",
                hints=("leave `{prompt}` out of [model] command: the prompt then goes to standard input",),
            )
        values = {
            "prompt": prompt.replace("\0", ""),
            "model": request.choice.model or "",
            "provider": request.choice.provider or "",
            "node": request.node,
            "worktree": directory,
            "reasoning_effort": request.choice.reasoning_effort,
        }
        if request.choice.model is None and any("{model}" in argument for argument in self.command):
            raise BackendError(
                f"the command of the `cli` backend asks for `{{model}}`, but no model is chosen for `{request.node}`",
                failure_class="structural",
                hints=('give one: `--model NAME`, [model] model = "NAME", or the node\'s `model` attribute',),
            )
        # One pass: a placeholder inside the prompt's own text stays as it is.
        return tuple(_PLACEHOLDER.sub(lambda match: values[match.group(1)], argument) for argument in self.command)

    def _check(self, result: CommandResult, collected: _Collected, seconds: float) -> None:
        program = self.command[0]
        last = collected.last_stderr_line()
        said = f": {last}" if last else ""
        if result.timed_out:
            raise BackendError(f"`{program}` did not answer within {seconds:.0f} s and was ended", failure_class="transient_infra")
        if result.signal is not None:
            raise BackendError(f"`{program}` was ended by signal {result.signal}{said}", failure_class="transient_infra")
        if result.exit_code:
            raise BackendError(f"`{program}` exited with code {result.exit_code}{said}")


def whole_prompt(request: AgentRequest) -> str:
    """What a backend without threads of its own is asked: transcript of the thread, preamble, prompt."""
    parts = [transcript(request), request.preamble.strip(), request.prompt]
    return "\n\n".join(part for part in parts if part)


def transcript(request: AgentRequest) -> str:
    """What was said in the thread, oldest first; of a long one the newest exchanges that fit into `TRANSCRIPT_LIMIT` characters."""
    kept: list[str] = []
    room = TRANSCRIPT_LIMIT
    for exchange in reversed(request.history):
        text = f"### {exchange.node}: prompt\n{exchange.prompt}\n\n### {exchange.node}: reply\n{exchange.response}"
        if len(text) > room:
            kept.append(f"({len(request.history) - len(kept)} earlier exchanges are left out)")
            break
        kept.append(text)
        room -= len(text)
    return "## The conversation so far\n\n" + "\n\n".join(reversed(kept)) + "\n\n## Now" if kept else ""


class _TooMuchError(Exception):
    """The program printed more than fits; never leaves this module."""


@dataclass
class _Collected:
    """Output sink: standard output is kept, both streams are told as they arrive."""

    emit: AgentEventSink
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    decoders: dict[Stream, codecs.IncrementalDecoder] = field(default_factory=lambda: {"stdout": _utf8(), "stderr": _utf8()})

    def __call__(self, stream: Stream, data: bytes) -> None:
        # A character may be split over two pieces: the decoder keeps its first half for the next piece.
        self.emit("agent.output", {"stream": stream, "text": self.decoders[stream].decode(data)})
        if stream == "stdout":
            self.stdout += data
            if len(self.stdout) > REPLY_LIMIT:
                raise _TooMuchError("too much output")
        else:
            self.stderr += data
            del self.stderr[:-_STDERR_KEPT]

    def last_stderr_line(self) -> str:
        lines = [line.strip() for line in bytes(self.stderr).decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1][:400] if lines else ""


def _utf8() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")
