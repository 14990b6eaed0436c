"""The `scripted` backend: replies and file edits from a TOML file, for demonstrations and tests. The edits are real.

    schema = 1

    [[reply]]
    node = "plan"                   # the node's id, or its whole path (`fan:left/plan`)
    visit = 2                       # only at this visit (optional), `attempt` likewise
    text = "Two steps are enough."  # the reply

    [[reply.edit]]
    path = "src/app.py"             # relative to the working directory, never outside it
    write = "print('hi')\\n"         # or append = "...", or replace = "old" with = "new", or delete = true, or mode = "755"

Of several entries that fit a call the most specific one is taken: the whole path before the id, then `visit` and `attempt`, then the
first in the file. A call that no entry fits is an error. Order of work: `delay_ms`, edits, `command`, then `fail` or the reply.
docs/agents.md describes every key.
"""

from __future__ import annotations

import re
import tomllib
from typing import Literal

import msgspec

from arc.agent.errors import BackendError, BackendFailureClass, ScriptError
from arc.agent.protocol import AgentEventSink, AgentReply, AgentRequest, Usage
from arc.base.clock import Clock, SystemClock
from arc.sandbox.errors import SandboxError, SandboxPathError
from arc.sandbox.protocol import Command, Sandbox, Stream

SCRIPT_SCHEMA = 1


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"replacement": "with"}):
    """One change of one file. Exactly one of `write`, `append`, `replace` (with `replacement`, in TOML `with`) and `delete`; `mode`
    (octal digits, say "755") alone or after one of the first three."""

    path: str
    write: str | None = None
    append: str | None = None
    replace: str | None = None
    replacement: str | None = None
    delete: bool = False
    mode: str | None = None

    def problem(self) -> str | None:
        """Why this edit makes no sense; None if it does."""
        actions = [self.write is not None, self.append is not None, self.replace is not None, self.delete]
        if sum(actions) > 1 or (not any(actions) and self.mode is None) or (self.delete and self.mode is not None):
            return (
                f"the edit of `{self.path}` must have exactly one of write, append, replace, delete (and may have mode, except with delete)"
            )
        if (self.replace is None) != (self.replacement is None) or self.replace == "":
            return f"the edit of `{self.path}` must have both replace (not empty) and with"
        if self.mode is not None and not re.fullmatch(r"[0-7]{3,4}", self.mode):
            return f'the edit of `{self.path}` has mode "{self.mode}", not three or four octal digits'
        if self.path.startswith("/") or ".." in self.path.split("/") or self.path in ("", "."):
            return f"the path `{self.path}` is not inside the working directory"
        return None


class Fail(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"failure_class": "class"}):
    """The call fails instead of replying, with this message and failure class (`class` in TOML)."""

    message: str = "the script says that this call fails"
    failure_class: BackendFailureClass = "deterministic"


class ReplyUsage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the call is said to have cost. `cost` in US dollars."""

    model: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"edits": "edit"}):
    """One entry of the file. `command` is run by `sh -c` in the working directory; if it fails, the call fails."""

    node: str
    visit: int | None = None
    attempt: int | None = None
    text: str = ""
    delay_ms: int = 0
    edits: tuple[Edit, ...] = ()
    command: str | None = None
    fail: Fail | None = None
    usage: ReplyUsage | None = None

    def fits(self, request: AgentRequest) -> bool:
        """Whether this entry may answer the call."""
        return (
            self.node in (request.node, _node_id(request.node))
            and self.visit in (None, request.visit)
            and self.attempt in (None, request.attempt)
        )

    def specificity(self, request: AgentRequest) -> tuple[bool, int]:
        """The larger, the better it fits a call that it fits."""
        return self.node == request.node, (self.visit is not None) + (self.attempt is not None)


class _Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"replies": "reply"}):
    schema: Literal[1]
    replies: tuple[Reply, ...] = ()


class ScriptedBackend:
    """Answers from a script. Deterministic: what it does depends on the call alone, not on earlier calls."""

    name = "scripted"

    def __init__(self, replies: tuple[Reply, ...], source: str, clock: Clock | None = None) -> None:
        self._replies = replies
        self._source = source
        self._clock = clock or SystemClock()

    @classmethod
    def load(cls, text: str, source: str, clock: Clock | None = None) -> ScriptedBackend:
        """Read a script; `source` names it in errors.

        Raises:
            ScriptError: not TOML, an unknown schema or key, a wrong type, or an edit that makes no sense; names the line.
        """
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ScriptError(f"{source}: not valid TOML: {error}") from error
        if data.get("schema") != SCRIPT_SCHEMA:
            raise ScriptError(
                f"{source}:1: this is not a script of schema {SCRIPT_SCHEMA}", hints=(f"begin it with `schema = {SCRIPT_SCHEMA}`",)
            )
        try:
            script = msgspec.convert(data, _Script)
        except msgspec.ValidationError as error:
            place = re.search(r"\$\.reply\[(\d+)\]", str(error))
            line = _line_of_reply(text, int(place.group(1))) if place else 1
            raise ScriptError(f"{source}:{line}: {error}") from error
        for index, reply in enumerate(script.replies):
            for problem in filter(None, (edit.problem() for edit in reply.edits)):
                raise ScriptError(f"{source}:{_line_of_reply(text, index)}: {problem}")
        return cls(script.replies, source, clock)

    async def run(self, request: AgentRequest, sandbox: Sandbox, emit: AgentEventSink) -> AgentReply:
        """Do what the fitting entry says.

        Raises:
            BackendError: no entry fits (structural); an edit or the command failed (deterministic); the entry says `fail` (its class).
        """
        reply = self._find(request)
        if (reply.edits or reply.command) and not request.tools:
            raise BackendError(f"{self._source}: `{request.node}` is a prompt node; it may not change files", failure_class="structural")
        if reply.delay_ms:
            await self._clock.sleep(reply.delay_ms / 1000)
        for edit in reply.edits:
            await self._edit(edit, request, sandbox)
            emit("agent.edit", {"path": edit.path})
        if reply.command is not None:
            await self._command(reply.command, request, sandbox, emit)
        if reply.fail is not None:
            raise BackendError(reply.fail.message, failure_class=reply.fail.failure_class)
        usage = reply.usage
        return AgentReply(
            reply.text,
            None
            if usage is None
            else Usage(model=usage.model, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost=usage.cost),
        )

    async def close(self) -> None:
        """Nothing to end."""

    def _find(self, request: AgentRequest) -> Reply:
        fitting = [reply for reply in self._replies if reply.fits(request)]
        if not fitting:
            raise BackendError(
                f"{self._source} has no reply for `{request.node}`, visit {request.visit}, attempt {request.attempt}",
                failure_class="structural",
                hints=(f'add one: [[reply]] node = "{_node_id(request.node)}", visit = {request.visit}, text = "..."',),
            )
        return max(fitting, key=lambda reply: reply.specificity(request))

    async def _edit(self, edit: Edit, request: AgentRequest, sandbox: Sandbox) -> None:
        try:
            if edit.write is not None:
                await sandbox.write(edit.path, edit.write.encode())
            elif edit.append is not None:
                await sandbox.write(edit.path, await _content(sandbox, edit.path) + edit.append.encode())
            elif edit.replace is not None and edit.replacement is not None:
                await self._replace(edit.path, edit.replace.encode(), edit.replacement.encode(), sandbox)
            else:
                await sandbox.read(edit.path)  # refuses a path that does not exist or leads out of the directory
            if edit.delete:
                await self._tool(("rm", "-f", "--", edit.path), request, sandbox)
            if edit.mode is not None:
                await self._tool(("chmod", edit.mode, "--", edit.path), request, sandbox)
        except SandboxError as error:
            raise BackendError(f"{self._source}: the edit of `{edit.path}` failed: {error.message}") from error

    async def _replace(self, path: str, old: bytes, new: bytes, sandbox: Sandbox) -> None:
        content = await sandbox.read(path)
        if content.count(old) != 1:
            raise BackendError(f"{self._source}: the text to replace stands {content.count(old)} times in `{path}`, not once")
        await sandbox.write(path, content.replace(old, new))

    async def _tool(self, argv: tuple[str, ...], request: AgentRequest, sandbox: Sandbox) -> None:
        result = await sandbox.run(Command(argv, environment=request.environment), lambda _stream, _data: None)
        if not result.ok:
            raise BackendError(f"{self._source}: `{' '.join(argv)}` failed")

    async def _command(self, script: str, request: AgentRequest, sandbox: Sandbox, emit: AgentEventSink) -> None:
        def output(stream: Stream, data: bytes) -> None:
            emit("agent.output", {"stream": stream, "text": data.decode("utf-8", "replace")})

        try:
            result = await sandbox.run(Command(("sh", "-c", script), environment=request.environment, timeout=request.timeout), output)
        except SandboxError as error:
            raise BackendError(f"{self._source}: the command of `{request.node}` failed: {error.message}") from error
        if not result.ok:
            how = f"signal {result.signal}" if result.signal is not None else f"exit code {result.exit_code}"
            raise BackendError(f"{self._source}: the command of `{request.node}` ended with {how}")


async def _content(sandbox: Sandbox, path: str) -> bytes:
    """A file's content, empty if it does not exist yet (a path that leads out is refused by the write that follows)."""
    try:
        return await sandbox.read(path)
    except SandboxPathError:
        return b""


def _node_id(path: str) -> str:
    return path.rpartition("/")[2]


def _line_of_reply(text: str, index: int) -> int:
    """The line of the `index`-th `[[reply]]`. A line inside a multi-line string that only looks like one does not count: what stands
    before a real one is valid TOML with `index` replies."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"\s*\[\[\s*reply\s*\]\]", line):
            try:
                before = tomllib.loads("\n".join(lines[:number]))
            except tomllib.TOMLDecodeError:
                continue
            if len(before.get("reply", [])) == index:
                return number + 1
    return 1
