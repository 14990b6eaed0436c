"""What the workspace tests share: real repositories, a run in a worktree, the model of what a commit must hold, byte-identity."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from arc.sandbox.protocol import Sandbox
from arc.workspace.git.metadata import MetadataBranch
from arc.workspace.git.repository import Repository
from arc.workspace.git.trailers import format_message
from arc.workspace.git.workspace import GitWorkspace
from arc.workspace.notices import Notice

RUN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
BRANCH = f"refs/heads/arc/run/{RUN}"


class NoSandboxes:
    """Workspace tests run no commands."""

    async def open(self, directory: Path) -> Sandbox:
        raise NotImplementedError


def git(folder: Path, *args: str, check: bool = True) -> str:
    """Run git as a person would (identity given, hooks and configuration of the repository in force)."""
    command = ["git", "-c", "user.name=person", "-c", "user.email=person@local", "-c", "protocol.file.allow=always", *args]
    result = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert not check or result.returncode == 0, result.stderr.decode(errors="replace")
    return os.fsdecode(result.stdout)


def make_repository(folder: Path, files: dict[str, bytes] | None = None) -> Path:
    """A repository with these files committed."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for name, data in (files or {"a.txt": b"a\n", "dir/b.txt": b"b\n"}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    return folder


def fingerprint(repo: Path) -> dict[str, str]:
    """All that arc must leave alone in the caller's checkout: index, HEAD, stash, config, hooks, and every file with its times."""
    found: dict[str, str] = {}
    for name in ("index", "HEAD", "config", "refs/stash", "logs/HEAD", "info/exclude", "ORIG_HEAD", "index.lock", "info/sparse-checkout"):
        place = repo / ".git" / name
        found[f".git/{name}"] = hashlib.sha256(place.read_bytes()).hexdigest() if place.exists() else "absent"
    for root, folders, files in os.walk(os.fsencode(repo)):
        if b".git" in folders and root == os.fsencode(repo):
            folders.remove(b".git")
        for entry in [*files, *folders]:
            place_bytes = os.path.join(root, entry)
            status = os.lstat(place_bytes)
            found[repr(place_bytes)] = f"{status.st_mode:o} {status.st_size} {status.st_mtime_ns} {status.st_ino}"
    for hook in sorted((repo / ".git" / "hooks").glob("*")):
        found[f"hook {hook.name}"] = hashlib.sha256(hook.read_bytes()).hexdigest()
    return found


@dataclass
class Run:
    """A run in a worktree of a repository."""

    repo: Path
    workspace: GitWorkspace
    notices: list[Notice] = field(default_factory=list)
    count: int = 0

    @property
    def files(self) -> Path:
        return self.workspace.worktree.path

    def checkpoint(self, node: str = "work") -> str:
        """One checkpoint as the runs room takes it."""
        self.count += 1
        staged = self.workspace.stage()
        update = MetadataBranch(self.workspace.repository, RUN).prepare({"checkpoint.json": b"{}\n"}, f"checkpoint {self.count}")
        message = format_message(RUN, node, "success", self.count, update.new)
        return self.workspace.checkpoint(staged, message, [update])

    def tree(self, commit: str | None = None) -> dict[str, tuple[str, bytes]]:
        """Path -> (mode, content) of everything in a commit (default: the tip)."""
        commit = commit or self.workspace.tip
        found: dict[str, tuple[str, bytes]] = {}
        for record in git(self.repo, "ls-tree", "-r", "-z", commit).split("\0")[:-1]:
            header, path = record.split("\t", 1)
            mode, kind, name = header.split(" ")
            data = b""
            if kind == "blob":
                data = subprocess.run(["git", "cat-file", "blob", name], cwd=self.repo, capture_output=True, check=True).stdout
            found[path] = (mode, data)
        return found

    def codes(self) -> list[str]:
        return [notice.code for notice in self.notices]


def start(repo: Path, logs: Path, exclude_globs: Sequence[str] = (), subdirectory: str = ".") -> Run:
    """Start a run on the repository's HEAD."""
    repository = Repository.discover(repo)
    assert repository is not None
    commit = repository.head_commit()
    assert commit is not None
    notices: list[Notice] = []
    workspace = GitWorkspace.create(
        repository,
        run_id=RUN,
        path=logs / "worktree",
        ref=BRANCH,
        commit=commit,
        subdirectory=subdirectory,
        exclude_globs=exclude_globs,
        sandboxes=NoSandboxes(),
        notices=notices.append,
    )
    return Run(repo, workspace, notices)


def attach(run: Run, logs: Path) -> Run:
    """Attach to the run's branch again, as a resume does."""
    repository = Repository.discover(run.repo)
    assert repository is not None
    notices: list[Notice] = []
    workspace = GitWorkspace.attach(
        repository,
        run_id=RUN,
        path=logs / "worktree",
        ref=BRANCH,
        subdirectory=".",
        exclude_globs=(),
        sandboxes=NoSandboxes(),
        notices=notices.append,
    )
    return Run(run.repo, workspace, notices, run.count)
