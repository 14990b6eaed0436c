"""The git program: the only module that starts it, always in a clean room.

Nothing of the caller's environment reaches it but the search path: no `GIT_*`, no HOME, no system or user configuration, no hooks, no
signing, no file system monitor, no background maintenance, no prompts, one fixed identity, messages in English. The repository's own
configuration is read (filters, attributes, object format); what in it could run a program around a commit is overridden.

Synchronous: call it in a thread from async code. Each start costs 2-4 ms.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from arc.base.errors import ArcError, NotFoundError

IDENTITY_NAME = "arc"
IDENTITY_EMAIL = "arc@local"

SETTINGS: tuple[str, ...] = (
    "core.hooksPath=/dev/null",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    "advice.addEmbeddedRepo=false",
    "core.quotePath=false",
    "protocol.allow=never",
    "submodule.recurse=false",
)
"""Overrides on every command line. They have the last word over the repository's own configuration."""


class GitMissingError(NotFoundError):
    """There is no git program on the search path."""

    code = "git.missing"


class GitError(ArcError):
    """The git program failed. `command` is its arguments, `stderr` what it said, `exit_code` negative for a signal."""

    code = "git.failed"

    def __init__(self, message: str, *, command: tuple[str, ...], exit_code: int, stderr: str) -> None:
        super().__init__(message, details=tuple(line for line in stderr.splitlines() if line.strip())[:20])
        self.command = command
        self.exit_code = exit_code
        self.stderr = stderr


class Git:
    """Runs git commands in one place.

    Args:
        directory: where the command starts.
        git_dir: the repository (a worktree's own administrative folder for a linked worktree); None = found from `directory`.
        work_tree: the top of the files; None = as the repository says.
        index: the index file to use; None = the repository's own.
        settings: further `name=value` configuration for each command (after, so stronger than, `SETTINGS`).
        trusted: the owner check of the directory was already answered (see `Repository.discover`).
    """

    def __init__(
        self,
        directory: Path,
        *,
        git_dir: Path | None = None,
        work_tree: Path | None = None,
        index: Path | None = None,
        settings: tuple[str, ...] = (),
        trusted: bool = False,
    ) -> None:
        self.directory = directory
        self._program = git_program()
        environment = {
            "PATH": os.pathsep.join(os.get_exec_path()),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_AUTHOR_NAME": IDENTITY_NAME,
            "GIT_AUTHOR_EMAIL": IDENTITY_EMAIL,
            "GIT_COMMITTER_NAME": IDENTITY_NAME,
            "GIT_COMMITTER_EMAIL": IDENTITY_EMAIL,
        }
        if git_dir is not None:
            environment["GIT_DIR"] = str(git_dir)
        if work_tree is not None:
            environment["GIT_WORK_TREE"] = str(work_tree)
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        self._environment = environment
        trust = ("safe.directory=*",) if trusted else ()
        self._settings = tuple(part for setting in (*SETTINGS, *trust, *settings) for part in ("-c", setting))

    def run(
        self,
        *args: str,
        input: bytes = b"",
        check: bool = True,
        extra_env: Mapping[str, str] | None = None,
        read_only: bool = False,
        holding: Sequence[int] = (),
    ) -> bytes:
        """Run one command and return its standard output.

        `read_only` tells git to take no locks of its own accord (no refreshed index is written back). `holding` are descriptors that git
        keeps open: a lock on one lasts until git has ended, also if this process is killed before.

        Raises:
            GitError: it ended with another status than 0, and `check` is set.
        """
        return self.finish(*args, input=input, check=check, extra_env=extra_env, read_only=read_only, holding=holding).stdout

    def finish(
        self,
        *args: str,
        input: bytes = b"",
        check: bool = True,
        extra_env: Mapping[str, str] | None = None,
        read_only: bool = False,
        holding: Sequence[int] = (),
    ) -> subprocess.CompletedProcess[bytes]:
        """As `run`, but return status, output and error output."""
        environment = {**self._environment, **(extra_env or {})}
        if read_only:
            environment["GIT_OPTIONAL_LOCKS"] = "0"
        result = subprocess.run(
            [self._program, *self._settings, *args],
            cwd=self.directory,
            env=environment,
            input=input,
            capture_output=True,
            check=False,
            pass_fds=tuple(holding),
        )
        if check and result.returncode != 0:
            stderr = result.stderr.decode(errors="replace")
            first = next((line for line in stderr.splitlines() if line.strip()), "no message")
            raise GitError(f"`git {args[0]}` failed: {first}", command=args, exit_code=result.returncode, stderr=stderr)
        return result

    def line(self, *args: str, read_only: bool = False) -> str:
        """The command's output as one line of text without its newline."""
        return os.fsdecode(self.run(*args, read_only=read_only)).removesuffix("\n")


def git_program() -> str:
    """Path of the git program.

    Raises:
        GitMissingError: there is none.
    """
    program = shutil.which("git")
    if program is None:
        raise GitMissingError("the `git` program is not on the search path", hints=("install git 2.34 or newer",))
    return program


def person_settings(directory: Path, *names: str) -> dict[str, tuple[str, ...]]:
    """What the person's own configuration (not the repository's, not the environment's `GIT_*`) says for these names.

    Only for questions about the person's checkout: which files they ignore everywhere, which directories they trust.
    """
    home = Path.home()
    environment = {"PATH": os.pathsep.join(os.get_exec_path()), "LC_ALL": "C", "HOME": str(home)}
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        result = subprocess.run(
            [git_program(), "config", "--global", "--path", "--null", "--get-all", name],
            cwd=directory,
            env=environment,
            capture_output=True,
            check=False,
        )
        if result.returncode == 0:
            found[name] = tuple(os.fsdecode(value) for value in result.stdout.split(b"\0")[:-1])
    return found
