"""The clean room that every test runs in, and the fixtures that all rooms share.

- Each test gets an empty HOME, ARC_HOME and XDG folders; no GIT_*, ARC_* or key-like variable reaches it.
- `repo(...)` makes a real Git repository with files; `arc(...)` runs the real command in a process, `arc.inside(...)` in this one.
- A process that a test leaves behind fails it. Under CI a skipped test fails too: what CI cannot test must be known;
  only what needs root may be skipped.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

MARK = "ARC_TEST_MARK"
"""Environment variable whose value names the test; every process that a test starts inherits it."""

SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")


def pytest_report_header() -> list[str]:
    """What can be tested here."""

    def version(*command: str) -> str:
        if shutil.which(command[0]) is None:
            return "MISSING"
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).strip().splitlines()[0]

    user = "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"
    return [f"arc: {version('git', '--version')}; {version('dot', '-V')}; {user}; {os.cpu_count()} CPUs; CI={os.environ.get('CI', '')}"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Under CI=true a skip is a failure, but for what the user of CI is not allowed to do (reasons that begin with `only root`)."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    allowed = isinstance(report.longrepr, tuple) and report.longrepr[2].startswith("Skipped: only root")
    if report.skipped and not allowed and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
    return report  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def clean_room(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home and a scrubbed environment; afterwards, no process of the test may be left. Gives the room's folder."""
    room = tmp_path_factory.mktemp("room")
    for name in list(os.environ):
        if name.startswith(("GIT_", "ARC_", "XDG_", "_ARC", "_TYPER")) or any(word in name.upper() for word in SECRET_WORDS):
            monkeypatch.delenv(name)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "PAGER", "EDITOR", "VISUAL", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    home = room / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ARC_HOME", str(room / "arc-home"))
    for name in ("CONFIG", "DATA", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield room
    left = _end_processes(mark)
    assert not left, f"the test left processes behind: {left}"


def marked_processes(mark: str) -> dict[int, str]:
    """Live processes (not this one) that inherited the mark, with their command lines."""
    found: dict[int, str] = {}
    wanted = f"{MARK}={mark}".encode()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            if wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found[int(name)] = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue  # ended meanwhile, or not ours
    return found


def _end_processes(mark: str) -> dict[int, str]:
    """Processes still alive a moment after the test; they are killed."""
    deadline = time.monotonic() + 2
    while (left := marked_processes(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return left


@dataclass(frozen=True)
class Repo:
    """A real repository made for a test. `git` uses its own identity; the repository's configuration has none."""

    path: Path

    def git(self, *args: str, input: bytes | None = None, check: bool = True, env: Mapping[str, str] | None = None) -> str:
        """Run git in it; its stdout without the last newline."""
        identity = {
            f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "T"), ("EMAIL", "t@example.org"))
        }
        done = subprocess.run(
            ["git", *args], cwd=self.path, input=input, capture_output=True, check=False, env={**os.environ, **identity, **(env or {})}
        )
        if check and done.returncode:
            raise AssertionError(f"git {' '.join(args)}: {done.stderr.decode('utf-8', 'replace')}")
        return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file (folders are made)."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def read(self, name: str) -> str:
        return (self.path / name).read_text("utf-8")

    def commit(self, message: str = "change") -> str:
        """Commit everything; the commit's id."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")


MakeRepo = Callable[..., Repo]


@pytest.fixture
def repo(tmp_path: Path) -> MakeRepo:
    """Makes repositories: `repo({"a.txt": "A\\n"}, name="project", commit=True)`; without files it has a README.md."""

    def make(files: Mapping[str, str | bytes] | None = None, *, name: str = "project", commit: bool = True) -> Repo:
        path = tmp_path / name
        path.mkdir(parents=True)
        made = Repo(path)
        made.git("init", "-q", "-b", "main")
        for file, content in (files if files is not None else {"README.md": "# project\n"}).items():
            made.write(file, content)
        if commit:
            made.commit("first")
        return made

    return make


@dataclass(frozen=True)
class Ran:
    """How a command ended: all its output and its exit status (negative: killed by that signal)."""

    stdout: str
    stderr: str
    status: int

    def ok(self) -> Ran:
        """This result, if the status is 0."""
        assert self.status == 0, f"status {self.status}\nstdout:\n{self.stdout}\nstderr:\n{self.stderr}"
        return self

    def json(self) -> Any:
        """stdout as one JSON document."""
        import json

        return json.loads(self.stdout)


@dataclass(frozen=True)
class Arc:
    """The command, run for real."""

    cwd: Path

    def __call__(
        self, *args: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, input: str | None = None, timeout: float = 120
    ) -> Ran:
        """Run `arc ARGS` in a process of its own and wait."""
        done = subprocess.run(
            [sys.executable, "-m", "arc", *args],
            cwd=cwd or self.cwd,
            env={**os.environ, **(env or {})},
            input="" if input is None else input,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=timeout,
            check=False,
        )
        return Ran(done.stdout, done.stderr, done.returncode)

    def start(self, *args: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start `arc ARGS` and return the process (the test ends it)."""
        return subprocess.Popen(
            [sys.executable, "-m", "arc", *args],
            cwd=cwd or self.cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",
        )

    def inside(self, *args: str) -> Ran:
        """Run `arc ARGS` in this process (faster; no signals, no terminal, stdin is not read)."""
        from arc.cli import ui
        from arc.cli.main import run as run_command

        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape") for _ in range(2)]
        before = Path.cwd()
        ui.state.__dict__.update(ui.Options().__dict__)
        try:
            os.chdir(self.cwd)
            with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
                try:
                    status = run_command(args)
                except SystemExit as exit:
                    status = exit.code if isinstance(exit.code, int) else 1
        finally:
            os.chdir(before)
            ui.state.__dict__.update(ui.Options().__dict__)
        for stream in streams:
            stream.flush()
        out, err = (stream.buffer.getvalue().decode("utf-8", "surrogateescape") for stream in streams)
        return Ran(out, err, int(status))


@pytest.fixture
def arc(tmp_path: Path) -> Arc:
    """The command, started in the test's `tmp_path` unless `cwd=` says otherwise."""
    return Arc(tmp_path)
