"""The local sandbox: commands run as processes of this machine, in a directory of it.

It confines nothing that a command does: it is a place, not a prison. What it promises is that commands see a clean environment, that
their output is redacted, and that nothing they started is left when they have ended.

Threads: methods run on the event loop; file work is done in threads.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from arc.base.processes import DirectoryMissingError, ProcessError, ProcessResult, ProgramMissingError, run_process
from arc.base.redact import Redactor, StreamRedactor
from arc.sandbox.errors import SandboxClosedError, SandboxError, SandboxPathError, SandboxProgramError
from arc.sandbox.protocol import Command, CommandResult, OutputSink, Stream

T = TypeVar("T")

GIT_LOCAL_VARIABLES = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NAMESPACE",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""What `git rev-parse --local-env-vars` lists: left in, `git` in a command would work on the caller's repository, not the worktree."""

_ARC_INTERNAL = frozenset({"ARC_FAULT", "ARC_FAULT_ACTION"})


@dataclass(frozen=True)
class LocalSandboxes:
    """Opens local sandboxes. Commands inherit `environ` without Git's repository-local variables, then `variables` are set.

    With a `redactor`, the output of commands is redacted before anyone sees it.
    """

    environ: Mapping[str, str]
    redactor: Redactor | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    async def open(self, directory: Path) -> LocalSandbox:
        """A sandbox over `directory`.

        Raises:
            SandboxPathError: it is not a directory.
        """
        directory = await asyncio.to_thread(lambda: Path(os.path.abspath(directory)))
        if not await asyncio.to_thread(directory.is_dir):
            raise SandboxPathError(f"the directory `{directory}` does not exist")
        inherited = {name: value for name, value in self.environ.items() if name not in GIT_LOCAL_VARIABLES | _ARC_INTERNAL}
        return LocalSandbox(directory, {**inherited, **self.variables}, self.redactor)


class LocalSandbox:
    """One directory with the commands that run in it. Made by `LocalSandboxes.open`."""

    def __init__(self, directory: Path, environment: Mapping[str, str], redactor: Redactor | None) -> None:
        self._directory = directory
        self._environment = dict(environment)
        self._redactor = redactor
        self._running: set[asyncio.Task[ProcessResult]] = set()
        self._closed = False

    @property
    def directory(self) -> str:
        return str(self._directory)

    async def run(self, command: Command, output: OutputSink) -> CommandResult:
        """Run a command and everything it starts to its end (see `arc.base.processes`)."""
        self._check_open()
        sink = _RedactingSink(self._redactor, output) if self._redactor is not None else None
        task = asyncio.create_task(
            run_process(
                command.argv,
                cwd=self._directory / command.cwd,
                env={**self._environment, "PWD": str(self._directory / command.cwd), **command.environment},
                stdin=command.stdin,
                timeout=command.timeout,
                output=output if sink is None else sink,
            )
        )
        self._running.add(task)
        try:
            result = await self._outcome(task, command)
        finally:
            self._running.discard(task)
            if sink is not None:
                sink.close()
        return CommandResult(result.exit_code, result.signal, result.timed_out, result.duration_ms, result.leftovers)

    async def _outcome(self, task: asyncio.Task[ProcessResult], command: Command) -> ProcessResult:
        try:
            return await task
        except asyncio.CancelledError:
            # Either the caller was cancelled (then the await above has cancelled the command too) or `close` ended the command.
            caller = asyncio.current_task()
            if self._closed and (caller is None or not caller.cancelling()):
                raise SandboxClosedError(f"the sandbox was closed while `{command.argv[0]}` was running") from None
            raise
        except ProgramMissingError as error:
            raise SandboxProgramError(error.message) from error
        except DirectoryMissingError as error:
            raise SandboxPathError(f"the working directory `{command.cwd}` does not exist") from error
        except ProcessError as error:
            raise SandboxError(error.message) from error

    async def read(self, path: str) -> bytes:
        """The content of a file.

        Raises:
            SandboxPathError: it does not exist, is no file, or is a relative path that leads out of the directory.
        """
        return await self._file_work(path, Path.read_bytes)

    async def write(self, path: str, data: bytes) -> None:
        """Make `data` the content of a file; missing directories are made, an existing file keeps its mode. Raises as `read` does."""

        def work(target: Path) -> None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

        await self._file_work(path, work)

    async def upload(self, local: Path, path: str) -> None:
        """Copy a file of this machine, with its mode, to `path` in the sandbox. Raises as `read` does."""

        def work(target: Path) -> None:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(local, target)

        await self._file_work(path, work)

    async def download(self, path: str, local: Path) -> None:
        """Copy the file `path` of the sandbox, with its mode, to this machine. Raises as `read` does."""

        def work(source: Path) -> None:
            shutil.copy(source, local)

        await self._file_work(path, work)

    async def close(self) -> None:
        self._closed = True
        running = set(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.gather(*running, return_exceptions=True)

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxClosedError(f"the sandbox over `{self._directory}` is closed")

    async def _file_work(self, path: str, work: Callable[[Path], T]) -> T:
        self._check_open()

        def whole() -> T:
            return work(_confined(self._directory, path))

        try:
            return await asyncio.to_thread(whole)
        except OSError as error:
            if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError | PermissionError):
                raise SandboxPathError(f"`{path}`: {error.strerror}") from error
            raise SandboxError(f"`{path}`: {error.strerror or error}") from error


def _confined(directory: Path, path: str) -> Path:
    """The file that `path` means: absolute paths as they are, relative ones must stay inside `directory`, through symlinks too."""
    if "\0" in path or path == "":
        raise SandboxPathError("an empty path, or one with a NUL character, names no file")
    if os.path.isabs(path):
        return Path(path)
    real = Path(os.path.realpath(directory / path))
    if not real.is_relative_to(os.path.realpath(directory)):
        raise SandboxPathError(f"`{path}` leads out of the working directory")
    return real


class _RedactingSink:
    """Redacts each stream on its way to the sink; what is held back comes at `close`."""

    def __init__(self, redactor: Redactor, output: OutputSink) -> None:
        self._output = output
        self._streams: dict[Stream, StreamRedactor] = {"stdout": redactor.stream(), "stderr": redactor.stream()}

    def __call__(self, stream: Stream, data: bytes) -> None:
        self._pass(stream, self._streams[stream].feed(data))

    def close(self) -> None:
        for stream, redactor in self._streams.items():
            self._pass(stream, redactor.close())

    def _pass(self, stream: Stream, data: bytes) -> None:
        if data:
            self._output(stream, data)
