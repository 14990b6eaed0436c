"""The local sandbox: its environment, its files, its commands, its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from arc.base.redact import Redactor
from arc.sandbox.errors import SandboxClosedError, SandboxPathError, SandboxProgramError
from arc.sandbox.local import GIT_LOCAL_VARIABLES, LocalSandbox, LocalSandboxes
from arc.sandbox.protocol import Command, CommandResult

T = TypeVar("T")


def inside(
    directory: Path,
    work: Callable[[LocalSandbox], Coroutine[Any, Any, T]],
    *,
    environ: Mapping[str, str] | None = None,
    redactor: Redactor | None = None,
    variables: Mapping[str, str] | None = None,
) -> T:
    async def scenario() -> T:
        sandbox = await LocalSandboxes({**os.environ, **(environ or {})}, redactor, variables or {}).open(directory)
        try:
            return await work(sandbox)
        finally:
            await sandbox.close()

    return asyncio.run(scenario(), debug=True)


def output_of(directory: Path, script: str, **options: Any) -> str:
    """What a shell script prints in a sandbox."""
    pieces: list[bytes] = []
    command = Command(("sh", "-c", script), environment=options.pop("environment", {}), cwd=options.pop("cwd", "."))
    inside(directory, lambda sandbox: sandbox.run(command, lambda _stream, data: pieces.append(data)), **options)
    return b"".join(pieces).decode()


def test_the_environment_is_inherited_then_configured_then_the_command_s(tmp_path: Path) -> None:
    environ = {"A": "inherited", "B": "inherited", "C": "inherited"}
    said = output_of(
        tmp_path, 'echo "$A $B $C"', environ=environ, variables={"B": "configured", "C": "configured"}, environment={"C": "own"}
    )
    assert said == "inherited configured own\n"


def test_git_s_local_variables_and_arc_s_faults_are_not_inherited(tmp_path: Path) -> None:
    environ = {**dict.fromkeys(GIT_LOCAL_VARIABLES, "x"), "ARC_FAULT": "x", "GIT_AUTHOR_NAME": "me", "GIT_SSH_COMMAND": "ssh"}
    names = {line.partition("=")[0] for line in output_of(tmp_path, "env", environ=environ).splitlines()}
    assert not names & (GIT_LOCAL_VARIABLES | {"ARC_FAULT"})
    assert {"GIT_AUTHOR_NAME", "GIT_SSH_COMMAND"} <= names


def test_the_list_is_the_one_that_git_has(tmp_path: Path) -> None:
    listed = set(output_of(tmp_path, "git rev-parse --local-env-vars").split())
    assert listed <= GIT_LOCAL_VARIABLES


def test_working_directories(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert output_of(tmp_path, "pwd; echo $PWD", cwd="sub") == f"{tmp_path / 'sub'}\n" * 2
    with pytest.raises(SandboxPathError, match="the working directory `nowhere` does not exist"):
        output_of(tmp_path, "pwd", cwd="nowhere")


def test_a_missing_program_and_a_missing_directory(tmp_path: Path) -> None:
    async def missing(sandbox: LocalSandbox) -> CommandResult:
        return await sandbox.run(Command(("no-such-program",)), lambda _stream, _data: None)

    with pytest.raises(SandboxProgramError, match="`no-such-program` was not found") as caught:
        inside(tmp_path, missing)
    assert caught.value.failure_class == "structural"
    with pytest.raises(SandboxPathError, match="does not exist"):
        asyncio.run(LocalSandboxes({}).open(tmp_path / "nowhere"))


def test_output_is_redacted_before_anyone_sees_it(tmp_path: Path) -> None:
    script = "printf hunter2; sleep 0.05; printf 'hunter2 rest'; printf 'hunter2hunter2\\n' >&2"
    said = output_of(tmp_path, script, redactor=Redactor({"P": "hunter2hunter2"}))
    assert sorted(said.replace("\n", "").split("«redacted:P»")) == ["", "", " rest"]


def test_files_come_back_as_written(tmp_path: Path) -> None:
    async def scenario(sandbox: LocalSandbox) -> bytes:
        await sandbox.write("a/b/c.bin", b"\x00\xff")
        return await sandbox.read("a/b/c.bin")

    assert inside(tmp_path, scenario) == b"\x00\xff"


def test_writing_keeps_the_mode_and_upload_and_download_carry_it(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.write_text("x")
    other.chmod(0o755)

    async def scenario(sandbox: LocalSandbox) -> None:
        await sandbox.upload(other, "in/tool")
        await sandbox.write("in/tool", b"y")
        await sandbox.download("in/tool", tmp_path / "back")

    inside(work, scenario)
    assert ((tmp_path / "back").read_text(), (tmp_path / "back").stat().st_mode & 0o777) == ("y", 0o755)


@pytest.mark.parametrize("path", ["../out.txt", "a/../../out.txt", "link/out.txt", "file-link", "", "a\0b"])
def test_relative_paths_do_not_lead_out(tmp_path: Path, path: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "out.txt").write_text("outside")
    (work / "link").symlink_to(tmp_path)
    (work / "file-link").symlink_to(tmp_path / "out.txt")
    for action in (lambda s: s.read(path), lambda s: s.write(path, b"changed")):
        with pytest.raises(SandboxPathError):
            inside(work, action)
    assert (tmp_path / "out.txt").read_text() == "outside"


def test_absolute_paths_are_taken_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "out.txt").write_text("outside")
    assert inside(tmp_path / "work", lambda sandbox: sandbox.read(str(tmp_path / "out.txt"))) == b"outside"


@pytest.mark.parametrize("path", ["missing.txt", ".", "file/below"])
def test_what_is_no_file(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SandboxPathError, match=path.replace(".", r"\.")):
        inside(tmp_path, lambda sandbox: sandbox.read(path))


def test_close_ends_what_runs_and_refuses_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        sandbox = await LocalSandboxes(os.environ).open(tmp_path)
        arrived = asyncio.Event()
        command = Command(("sh", "-c", "echo up; sleep 300"))
        running = asyncio.create_task(sandbox.run(command, lambda _stream, _data: arrived.set()))
        await asyncio.wait_for(arrived.wait(), 20)
        await sandbox.close()
        await sandbox.close()
        with pytest.raises(SandboxClosedError, match="was closed while `sh` was running"):
            await running
        with pytest.raises(SandboxClosedError):
            await sandbox.run(command, lambda _stream, _data: None)

    asyncio.run(scenario(), debug=True)
