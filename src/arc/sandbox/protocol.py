"""The sandbox protocol: run a command, read and write files, close. The engine knows nothing else of where work happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

Stream = Literal["stdout", "stderr"]
OutputSink = Callable[[Stream, bytes], None]
"""Called from the event loop's thread with each piece of output as it arrives; must not block."""


@dataclass(frozen=True)
class Command:
    """A program to run. `argv` is executed directly (no shell is added).

    `cwd` is relative to the sandbox's `directory`; absolute paths are taken as they are. `environment` is added to the sandbox's own.
    `timeout` is in seconds, None = no limit.
    """

    argv: tuple[str, ...]
    cwd: str = "."
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    timeout: float | None = None


@dataclass(frozen=True)
class CommandResult:
    """How a command ended: exactly one of `exit_code` and `signal` is set. `timed_out` = the whole process group was killed at the limit.

    `leftovers` are the names of processes that it had left in the background; they were ended when it ended.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    duration_ms: int
    leftovers: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out


class Sandbox(Protocol):
    """A place where commands run and files lie. Methods are cancellable; a cancelled `run` kills its whole process group.

    Raises (all methods): `SandboxError` when the place itself fails (not when a command exits non-zero).
    """

    @property
    def directory(self) -> str:
        """Where relative paths start: the working directory inside the sandbox (absolute path there)."""
        ...

    async def run(self, command: Command, output: OutputSink) -> CommandResult: ...
    async def read(self, path: str) -> bytes: ...
    async def write(self, path: str, data: bytes) -> None: ...
    async def upload(self, local: Path, path: str) -> None: ...
    async def download(self, path: str, local: Path) -> None: ...
    async def close(self) -> None:
        """End every process still running in it. Idempotent."""
        ...


class SandboxProvider(Protocol):
    """Opens a sandbox over a directory of this machine (a worktree of a run or of a parallel branch)."""

    async def open(self, directory: Path) -> Sandbox: ...
