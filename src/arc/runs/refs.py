"""The refs of runs: their names, and which runs a repository has refs of, read from its files in a millisecond.

The scan needs neither the git program nor libgit2: `arc run list` and every command that names a run begin with it, and nearly always the
answer is that the repository around knows no run that this home does not know. Only the `files` ref format is read, as everywhere in arc.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

RUN_BRANCHES = "refs/heads/arc/run/"
METADATA = "refs/arc/"


@dataclass(frozen=True)
class RunRefs:
    """Where a run is in a repository: full ref names, the base commit (None if unknown: then nothing is hidden), and the commit it started
    from (the base, or with `--snapshot-dirty` the snapshot on top of it)."""

    run_id: str
    run_branch: str
    metadata: str
    base_sha: str | None
    start_sha: str | None

    @classmethod
    def of(cls, run_id: str, base_sha: str | None, snapshot_sha: str | None = None) -> RunRefs:
        return cls(run_id, f"{RUN_BRANCHES}{run_id}", f"{METADATA}{run_id}", base_sha, snapshot_sha or base_sha)

    @property
    def branches(self) -> str:
        """Prefix of the refs of parallel branches."""
        return f"refs/heads/arc/branch/{self.run_id}/"

    @property
    def aside(self) -> str:
        """Prefix of the refs of work set aside."""
        return f"refs/arc-aside/{self.run_id}/"


def common_dir_around(directory: Path) -> Path | None:
    """The common folder of the repository that holds `directory`, by the files alone; None outside of one, and inside of a bare one.

    Who owns it and whether git can read it is not asked: that is for those who open it.
    """
    place = directory.absolute()
    for folder in (place, *place.parents):
        git = folder / ".git"
        if git.is_file():
            return _linked(git)
        if _is_git_dir(git):
            return git.resolve()
        if _is_git_dir(folder):
            return None
    return None


def scan_runs(common_dir: Path) -> frozenset[str]:
    """Ids of the runs that have a metadata branch there. What cannot be read holds none."""
    names = set(_packed(common_dir))
    with contextlib.suppress(OSError):
        names.update(entry.name for entry in os.scandir(common_dir / "refs" / "arc") if entry.is_file())
    return frozenset(name for name in names if not name.endswith(".lock"))


def _packed(common_dir: Path) -> list[str]:
    try:
        data = (common_dir / "packed-refs").read_bytes()
    except OSError:
        return []
    mark = b" " + METADATA.encode()
    if mark not in data:
        return []
    found = (line.partition(mark)[2] for line in data.split(b"\n") if mark in line)
    return [name.decode(errors="replace") for name in found if name and b"/" not in name]


def _is_git_dir(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def _linked(file: Path) -> Path | None:
    """What a `.git` file (a linked worktree, a submodule) leads to."""
    try:
        git_dir = file.parent / file.read_text(errors="surrogateescape").strip().removeprefix("gitdir:").strip()
        common = git_dir / "commondir"
        return (git_dir / common.read_text(errors="surrogateescape").strip() if common.is_file() else git_dir).resolve()
    except OSError:
        return None
