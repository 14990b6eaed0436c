"""Run a program so that nothing of it is left afterwards: own session, streamed output, the whole family ended.

Who is "of it": members of the program's process group and session, processes that carry its marker in their environment
(`ARC_PROCESS_ID`, so a daemon that called `setsid` is found too), and children of any of these. The search reads `/proc`
(`arc.base.proctable`); where there is none, only the process group is ended. A process that removed the marker from its
environment, changed its session *and* lost its parent is not found.

Threads: `run_process` runs on the event loop; starting the program and reading `/proc` happen in threads. The leader is
reaped last, so its process id (and with it the group's) cannot be reused while signals are being sent.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from arc.base import proctable
from arc.base.errors import ArcError

T = TypeVar("T")
OutputCallback = Callable[[Literal["stdout", "stderr"], bytes], None]

MARKER_VARIABLE = "ARC_PROCESS_ID"
"""Environment variable with the markers of all programs (nested ones joined by `:`) that a process belongs to."""

GRACE_SECONDS = 2.0
"""From SIGTERM to SIGKILL."""

SETTLE_SECONDS = 0.25
"""How long what a program left running may take to end by itself (say a `tee` at the end of its input)."""

_DRAIN_SECONDS = 1.0
_STUCK_SECONDS = 20.0
_CHUNK = 65_536


class ProcessError(ArcError):
    """A program could not be started, or could not be ended."""

    code = "process.failed"


class ProgramMissingError(ProcessError):
    """The program does not exist or cannot be executed."""

    code = "process.program_missing"


class DirectoryMissingError(ProcessError):
    """The working directory does not exist."""

    code = "process.directory_missing"


@dataclass(frozen=True)
class ProcessResult:
    """How a program ended: exactly one of `exit_code` and `signal` is set.

    `timed_out`: it was ended at the limit. `leftovers` are the names of processes that it had left running in the background when it
    ended by itself; they were ended too. `duration_ms` is the time until the program (not its leftovers) ended.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    duration_ms: int
    leftovers: tuple[str, ...] = ()


async def run_process(
    argv: Sequence[str],
    *,
    cwd: str | Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout: float | None = None,
    output: OutputCallback,
    grace: float = GRACE_SECONDS,
) -> ProcessResult:
    """Run `argv` (no shell) to its end and end everything it started.

    `env` is the whole environment (`PATH` in it finds the program). With empty `stdin` the program reads end-of-file at once. `output`
    gets each piece as it arrives (at most 64 KiB) on the event loop's thread; it must not block; what it raises ends the program and
    is raised here. `timeout` and `grace` in seconds.

    On timeout and on cancellation: SIGTERM to the whole family, up to `grace` seconds, SIGKILL, until nobody is left. A second
    cancellation skips the grace.

    Raises:
        ProgramMissingError: no such program, or not executable.
        DirectoryMissingError: `cwd` is not a directory.
        ProcessError: not startable for another reason, or a process survived SIGKILL.
    """
    child = await _Child.start(argv, cwd, env, bool(stdin), grace)
    try:
        return await child.run(stdin, timeout, output)
    finally:
        await _through(child.release(), on_cancel=child.hurry)


async def end_processes(variable: str, value: str, *, grace: float = GRACE_SECONDS) -> tuple[str, ...]:
    """End every process that has `variable=value` in its environment (and its children), except this one and its ancestors.

    For what an arc process that was killed left running. Returns the names of the ended processes.
    """
    family = proctable.Family(leader=None, marker=f"{variable}={value}".encode(), since=0, whole_variable=True)
    return await _through(_end_family(family, grace, asyncio.Event()))


class _Child:
    """One started program; `run` once, then `release`, always."""

    def __init__(self, popen: subprocess.Popen[bytes], marker: str, grace: float) -> None:
        self._popen = popen
        self._grace = grace
        self._started = time.monotonic()
        self._hurry = asyncio.Event()
        self._ended = False
        self._family = proctable.Family(leader=popen.pid, marker=marker.encode(), since=proctable.start_time(popen.pid) or 0)
        self._exit = asyncio.create_task(_leader_exit(popen))
        self._streams: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, argv: Sequence[str], cwd: str | Path, env: Mapping[str, str], feed: bool, grace: float) -> _Child:
        marker = uuid.uuid4().hex
        outer = env.get(MARKER_VARIABLE)
        whole = {**env, MARKER_VARIABLE: f"{outer}:{marker}" if outer else marker}
        spawning = asyncio.get_running_loop().run_in_executor(None, partial(_spawn, tuple(argv), str(cwd), whole, feed))
        try:
            return cls(await asyncio.shield(spawning), marker, grace)
        except asyncio.CancelledError:
            # The thread goes on and may have started the program: wait for it and end that program before passing the cancellation on.
            with suppress(ProcessError):
                child = cls(await _through(spawning), marker, grace)
                await _through(child.release())
            raise

    def hurry(self) -> None:
        """Skip the grace between SIGTERM and SIGKILL."""
        self._hurry.set()

    async def run(self, stdin: bytes, timeout: float | None, output: OutputCallback) -> ProcessResult:
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        self._streams = {
            asyncio.create_task(_pump(self._popen.stdout.fileno(), partial(output, "stdout"))),
            asyncio.create_task(_pump(self._popen.stderr.fileno(), partial(output, "stderr"))),
        }
        if self._popen.stdin is not None:
            self._streams.add(asyncio.create_task(_feed(self._popen, stdin)))
        timed_out = not await self._wait_exit(timeout)
        duration_ms = round((time.monotonic() - self._started) * 1000)
        leftovers: tuple[str, ...] = ()
        if timed_out:
            await self._end_all()
        else:
            leftovers = await self._end_leftovers()
        self._ended = True
        await self._drain()
        code = self._popen.wait()
        return ProcessResult(code if code >= 0 else None, -code if code < 0 else None, timed_out, duration_ms, leftovers)

    async def _wait_exit(self, timeout: float | None) -> bool:
        """Wait for the leader's exit (True) or the limit (False), passing on what the output callback raises."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pending: set[asyncio.Task[None]] = {self._exit, *self._streams}
        while not self._exit.done():
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                return False
            done, pending = await asyncio.wait(pending, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        return True

    async def _end_all(self) -> None:
        if not proctable.AVAILABLE:
            self._signal_group(signal.SIGTERM)
            await asyncio.wait({self._exit}, timeout=self._grace)
            self._signal_group(signal.SIGKILL)
        await _end_family(self._family, self._grace, self._hurry)
        await self._exit

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)

    async def _end_leftovers(self) -> tuple[str, ...]:
        """End what the program left in the background: its work must not go on changing files after the node is done."""
        if not proctable.AVAILABLE:
            self._signal_group(signal.SIGKILL)
            return ()
        deadline = time.monotonic() + SETTLE_SECONDS
        while await asyncio.to_thread(self._family.members):
            if time.monotonic() >= deadline:
                return await _end_family(self._family, self._grace, self._hurry)
            await asyncio.sleep(0.01)
        return ()

    async def _drain(self) -> None:
        """Read the streams to their end, but not for ever: an unknown process may hold the pipe open."""
        if self._streams:
            done, late = await asyncio.wait(self._streams, timeout=_DRAIN_SECONDS)
            await _cancel(late)
            for task in done:
                task.result()

    async def release(self) -> None:
        """End whatever still runs, reap the leader, close the pipes. Idempotent."""
        try:
            if not self._ended:
                await self._end_all()
                self._ended = True
        finally:
            await _cancel({*self._streams, self._exit})
            for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
            self._popen.poll()


def _spawn(argv: tuple[str, ...], cwd: str, env: Mapping[str, str], feed: bool) -> subprocess.Popen[bytes]:
    if not argv or any("\0" in argument for argument in argv):
        raise ProcessError("an empty command or one with a NUL character cannot be started")
    try:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        if not Path(cwd).is_dir():
            raise DirectoryMissingError(f"the working directory `{cwd}` does not exist") from error
        if isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError) or error.errno == errno.ENOEXEC:
            reason = "was not found" if isinstance(error, FileNotFoundError) else f"cannot be executed ({error.strerror})"
            raise ProgramMissingError(f"the program `{argv[0]}` {reason}") from error
        raise ProcessError(f"`{argv[0]}` could not be started: {error.strerror or error}") from error
    except ValueError as error:
        raise ProcessError(f"`{argv[0]}` could not be started: {error}") from error


async def _leader_exit(popen: subprocess.Popen[bytes]) -> None:
    """Return when the leader has exited, without reaping it where the system allows that."""
    try:
        watch = os.pidfd_open(popen.pid)
    except (AttributeError, OSError):
        if hasattr(os, "waitid"):
            await asyncio.to_thread(os.waitid, os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
        else:
            await asyncio.to_thread(popen.wait)
        return
    try:
        await _ready(watch, write=False)
    finally:
        os.close(watch)


async def _pump(descriptor: int, output: Callable[[bytes], None]) -> None:
    """Hand on what arrives until end-of-file. One read per turn of the event loop, so no program can starve the others."""
    os.set_blocking(descriptor, False)
    while True:
        await _ready(descriptor, write=False)
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            continue
        if not data:
            return
        output(data)


async def _feed(popen: subprocess.Popen[bytes], data: bytes) -> None:
    """Write the program's input and close it; a program that does not read it is no error."""
    assert popen.stdin is not None
    descriptor = popen.stdin.fileno()
    os.set_blocking(descriptor, False)
    rest = memoryview(data)
    try:
        while rest:
            await _ready(descriptor, write=True)
            with suppress(BlockingIOError):
                rest = rest[os.write(descriptor, rest[:_CHUNK]) :]
    except BrokenPipeError:
        pass
    popen.stdin.close()


async def _ready(descriptor: int, *, write: bool) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    (loop.add_writer if write else loop.add_reader)(descriptor, wake)
    try:
        await future
    finally:
        (loop.remove_writer if write else loop.remove_reader)(descriptor)


async def _end_family(family: proctable.Family, grace: float, hurry: asyncio.Event) -> tuple[str, ...]:
    """SIGTERM to all, up to `grace` seconds, SIGKILL until nobody is left. Returns the names of those that were there."""
    names: dict[int, str] = {}
    begun = time.monotonic()
    asked: set[int] = set()
    while members := await asyncio.to_thread(family.members):
        names.update({member.pid: member.name for member in members})
        waited = time.monotonic() - begun
        if waited >= grace or hurry.is_set():
            if waited > grace + _STUCK_SECONDS:
                raise ProcessError(f"process {members[0].pid} (`{members[0].name}`) does not end on SIGKILL")
            family.signal(members, signal.SIGKILL)
            await asyncio.sleep(0.01)
            continue
        new = [member for member in members if member.pid not in asked]
        if new:
            family.signal(new, signal.SIGTERM)
            asked.update(member.pid for member in new)
        with suppress(TimeoutError):
            await asyncio.wait_for(hurry.wait(), 0.01 if waited < 0.2 else 0.05)
    return tuple(names.values())


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)


async def _through(work: Coroutine[Any, Any, T] | asyncio.Future[T], *, on_cancel: Callable[[], None] = lambda: None) -> T:
    """Await `work` to its end even if this task is cancelled meanwhile; the cancellation is raised afterwards."""
    future = asyncio.ensure_future(work)
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError:
            cancelled = True
            on_cancel()
    if cancelled:
        if not future.cancelled():
            future.exception()  # marks it as retrieved: the cancellation takes precedence
        raise asyncio.CancelledError
    return future.result()
