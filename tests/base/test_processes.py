"""Programs run to their end, and nothing of them is left: real processes, real signals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from arc.base.processes import (
    MARKER_VARIABLE,
    DirectoryMissingError,
    ProcessError,
    ProcessResult,
    ProgramMissingError,
    end_processes,
    run_process,
)

T = TypeVar("T")
PATH = os.environ["PATH"]


class Output:
    """Collects what a program prints."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, bytes]] = []

    def __call__(self, stream: str, data: bytes) -> None:
        self.pieces.append((stream, data))

    @property
    def out(self) -> bytes:
        return b"".join(data for stream, data in self.pieces if stream == "stdout")

    @property
    def err(self) -> bytes:
        return b"".join(data for stream, data in self.pieces if stream == "stderr")


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end on an event loop of its own, with asyncio's checks on."""
    return asyncio.run(work, debug=True)


def shell(script: str, tmp_path: Path, output: Output | None = None, **options: Any) -> Coroutine[Any, Any, ProcessResult]:
    environment = {**os.environ, **options.pop("env", {})}
    return run_process(("sh", "-c", script), cwd=tmp_path, env=environment, output=output or Output(), **options)


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def eventually(check: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


async def appears(path: Path) -> str:
    """The content of a file that a program will write."""

    def wait() -> str:
        assert eventually(lambda: path.exists() and path.read_text().endswith("\n"), 20), path
        return path.read_text()

    return await asyncio.to_thread(wait)


def test_exit_code_and_both_streams(tmp_path: Path) -> None:
    output = Output()
    result = finished(shell("echo out; echo err >&2; exit 3", tmp_path, output))
    assert (result.exit_code, result.signal, result.timed_out, result.leftovers) == (3, None, False, ())
    assert (output.out, output.err) == (b"out\n", b"err\n")


def test_an_exit_by_signal_is_reported_as_a_signal(tmp_path: Path) -> None:
    result = finished(shell("kill -KILL $$", tmp_path))
    assert (result.exit_code, result.signal) == (None, signal.SIGKILL)


def test_output_arrives_while_the_program_runs(tmp_path: Path) -> None:
    """The program waits for a file that is made when its first line arrives: it would hang if output came at the end."""
    go = tmp_path / "go"
    arrived = Output()

    def output(stream: str, data: bytes) -> None:
        arrived(stream, data)
        go.touch()

    script = "echo first; while [ ! -e go ]; do sleep 0.01; done; echo second"
    result = finished(run_process(("sh", "-c", script), cwd=tmp_path, env=os.environ, output=output, timeout=30))
    assert not result.timed_out
    assert arrived.out == b"first\nsecond\n"


def test_standard_input(tmp_path: Path) -> None:
    output = Output()
    data = bytes(range(256)) * 8_000
    finished(shell("cat", tmp_path, output, stdin=data))
    assert output.out == data


def test_empty_input_is_the_end_of_file(tmp_path: Path) -> None:
    assert finished(shell("cat; echo done", tmp_path, timeout=30)).exit_code == 0


def test_a_program_that_does_not_read_its_input_is_no_error(tmp_path: Path) -> None:
    assert finished(shell("exit 4", tmp_path, stdin=b"x" * 5_000_000)).exit_code == 4


def test_binary_output_without_a_line_end_is_unchanged(tmp_path: Path) -> None:
    output = Output()
    finished(shell(r"printf '\377\000\376no newline'", tmp_path, output))
    assert output.out == b"\xff\x00\xfeno newline"


@pytest.mark.slow
def test_fifty_megabytes_arrive_in_bounded_pieces(tmp_path: Path) -> None:
    sizes: list[int] = []

    def output(_stream: str, data: bytes) -> None:
        sizes.append(len(data))

    asyncio.run(run_process(("head", "-c", "50000000", "/dev/zero"), cwd=tmp_path, env=os.environ, output=output))
    assert sum(sizes) == 50_000_000
    assert max(sizes) <= 65_536


def test_missing_program_and_missing_directory_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ProgramMissingError, match="`no-such-program` was not found"):
        finished(run_process(("no-such-program",), cwd=tmp_path, env={"PATH": PATH}, output=Output()))
    with pytest.raises(DirectoryMissingError, match="no-such-folder"):
        finished(run_process(("true",), cwd=tmp_path / "no-such-folder", env={"PATH": PATH}, output=Output()))
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    with pytest.raises(ProgramMissingError, match="cannot be executed"):
        finished(run_process((str(tmp_path / "plain"),), cwd=tmp_path, env={"PATH": PATH}, output=Output()))


@pytest.mark.parametrize("argv", [(), ("a\0b",)])
def test_what_no_program_can_be(argv: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(ProcessError):
        finished(run_process(argv, cwd=tmp_path, env={"PATH": PATH}, output=Output()))


def test_a_too_long_argument_is_a_process_error(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="could not be started"):
        finished(run_process(("true", "x" * 3_000_000), cwd=tmp_path, env={"PATH": PATH}, output=Output()))


def test_the_program_is_found_through_the_given_path(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "only-here"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    output = Output()
    finished(run_process(("only-here",), cwd=tmp_path, env={"PATH": f"{tool.parent}:{PATH}"}, output=output))
    assert output.out == b"found\n"


def test_timeout_ends_a_family_that_ignores_sigterm(tmp_path: Path) -> None:
    script = "trap '' TERM; (trap '' TERM; sleep 300; sleep 300) & echo $! > child; while :; do sleep 300; done"

    async def scenario() -> ProcessResult:
        return await shell(script, tmp_path, timeout=0.5, grace=0.2)

    result = finished(scenario())
    assert (result.timed_out, result.signal) == (True, signal.SIGKILL)
    assert gone(int((tmp_path / "child").read_text()))


def test_timeout_lets_a_program_clean_up(tmp_path: Path) -> None:
    result = finished(shell("trap 'echo cleaned > cleaned; exit 0' TERM; while :; do sleep 0.05; done", tmp_path, timeout=0.5))
    assert (result.timed_out, result.exit_code) == (True, 0)
    assert (tmp_path / "cleaned").read_text() == "cleaned\n"


def test_a_daemon_with_its_own_session_is_found_and_ended(tmp_path: Path) -> None:
    """`setsid` leaves group and session; the marker in its environment is still there, and its children have a parent."""
    script = "setsid sh -c 'env -u " + MARKER_VARIABLE + " sleep 300 & echo $! > inner; wait' & while [ ! -s inner ]; do sleep 0.01; done"
    result = finished(shell(script, tmp_path, grace=0.5))
    assert result.exit_code == 0
    assert not result.timed_out
    assert sorted(set(result.leftovers)) == ["sh", "sleep"]
    assert gone(int((tmp_path / "inner").read_text()))


def test_background_work_ends_with_the_program(tmp_path: Path) -> None:
    """A command's work must not go on changing files after its checkpoint."""
    script = "(while :; do date >> log; sleep 0.01; done) & while [ ! -s log ]; do sleep 0.01; done"
    result = finished(shell(script, tmp_path))
    assert result.exit_code == 0
    assert "sh" in result.leftovers
    size = (tmp_path / "log").stat().st_size
    time.sleep(0.1)
    assert (tmp_path / "log").stat().st_size == size


def test_a_process_that_ends_by_itself_in_time_is_no_leftover(tmp_path: Path) -> None:
    output = Output()
    result = finished(shell("(sleep 0.05; echo late) & exit 0", tmp_path, output))
    assert result.leftovers == ()
    assert output.out == b"late\n"


def test_a_pipe_held_by_a_stranger_does_not_hang(tmp_path: Path) -> None:
    """A process without marker, group, session and parent of the program holds its pipe open. Here it is started by this test."""
    holder: list[int] = []

    async def scenario() -> ProcessResult:
        running = asyncio.create_task(shell("echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done; echo said", tmp_path, output))
        leader = int(await appears(tmp_path / "pid"))
        target = os.open(f"/proc/{leader}/fd/1", os.O_WRONLY)
        holder.append(target)
        (tmp_path / "go").touch()
        return await asyncio.wait_for(running, 20)

    output = Output()
    try:
        assert finished(scenario()).exit_code == 0
        assert output.out == b"said\n"
    finally:
        for descriptor in holder:
            os.close(descriptor)


def test_cancellation_ends_the_family_and_is_passed_on(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        running = asyncio.create_task(shell("sleep 300 & echo $$ $! > pids; wait", tmp_path))
        pids = [int(pid) for pid in (await appears(tmp_path / "pids")).split()]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return pids

    assert all(gone(pid) for pid in finished(scenario()))


def test_a_second_cancellation_skips_the_grace(tmp_path: Path) -> None:
    async def scenario() -> int:
        running = asyncio.create_task(
            shell("trap 'echo asked > asked' TERM; echo $$ > pid; while :; do sleep 0.02; done", tmp_path, grace=600)
        )
        pid = int(await appears(tmp_path / "pid"))
        running.cancel()
        await appears(tmp_path / "asked")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 60)
        return pid

    assert gone(finished(scenario()))


def test_cancellation_while_the_program_is_being_started(tmp_path: Path) -> None:
    async def scenario() -> None:
        running = asyncio.create_task(shell("touch started; sleep 300", tmp_path))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    finished(scenario())  # the clean room fails if a process is left


def test_an_error_of_the_output_callback_ends_the_program(tmp_path: Path) -> None:
    def output(_stream: str, _data: bytes) -> None:
        raise OSError("disk full")

    async def scenario() -> None:
        await run_process(("sh", "-c", "echo $$ > pid; echo x; sleep 300"), cwd=tmp_path, env=os.environ, output=output)

    with pytest.raises(OSError, match="disk full"):
        finished(scenario())
    assert gone(int((tmp_path / "pid").read_text()))


def test_the_event_loop_goes_on_meanwhile(tmp_path: Path) -> None:
    """A task of this loop makes the file that the program waits for."""

    async def scenario() -> ProcessResult:
        running = asyncio.create_task(shell("echo up > up; while [ ! -e go ]; do sleep 0.01; done", tmp_path, timeout=30))
        await appears(tmp_path / "up")
        (tmp_path / "go").touch()
        return await running

    assert finished(scenario()).exit_code == 0


def test_no_descriptor_and_no_zombie_is_left(tmp_path: Path) -> None:
    async def scenario() -> tuple[set[str], set[str]]:
        await shell("true", tmp_path)  # the loop's own threads and descriptors are made by now
        before = set(os.listdir("/proc/self/fd"))
        for script in ("cat", "exit 1", "kill -9 $$", "sleep 60 & exit 0"):
            await shell(script, tmp_path, stdin=b"x" * 100_000)
        return before, set(os.listdir("/proc/self/fd"))

    before, after = finished(scenario())
    assert after == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_programs_inside_programs_are_ended_with_the_outer_one(tmp_path: Path) -> None:
    """An inner run adds its marker to the outer one's instead of replacing it."""
    output = Output()
    finished(shell(f'echo "${MARKER_VARIABLE}"', tmp_path, output, env={MARKER_VARIABLE: "outer"}))
    outer, inner = output.out.decode().strip().split(":")
    assert outer == "outer"
    assert len(inner) == 32


ORPHAN_MAKER = """
import os, subprocess, sys
orphan = subprocess.Popen(
    ["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL, env={**os.environ, "ARC_RUN_ID": sys.argv[1]}
)
print(orphan.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_processes_of_a_dead_owner_are_found_by_their_variable(tmp_path: Path) -> None:
    """What an arc that was killed with SIGKILL left running: nobody is its parent any more."""
    done = subprocess.run([sys.executable, "-c", ORPHAN_MAKER, "01RUN"], stdout=subprocess.PIPE, cwd=tmp_path, check=False, timeout=60)
    assert finished(end_processes("ARC_RUN_ID", "01RU")) == ()
    assert finished(end_processes("ARC_RUN_ID", "01RUN")) == ("sleep",)
    assert eventually(lambda: gone(int(done.stdout)))
