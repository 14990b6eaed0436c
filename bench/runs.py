"""Cost of one whole checkpoint against porcelain `git add -A && git commit -q`, side by side.

    python bench/runs.py [--files 100,2000,20000,100000] [--rounds 20] [--changed 5] [--edit KIND] [--json] [--parts]

Two equal repositories per size, in a temporary folder; each round changes the same files in both, then measures A and B one after the
other, in alternating order. A (arc): two durable writes of checkpoint.json, staging, metadata commit, run commit, ref transaction, HEAD and
index of the worktree put right. B (porcelain): the two git commands with git's own defaults, caches warm. Medians; the ratio is A / B.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import pygit2

from arc.base.atomic import write_atomic
from arc.sandbox.protocol import Sandbox
from arc.workspace.git.metadata import MetadataBranch
from arc.workspace.git.repository import Repository
from arc.workspace.git.trailers import format_message
from arc.workspace.git.workspace import GitWorkspace
from arc.workspace.notices import Notice

Result = TypeVar("Result")
RUN_ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
STATE = json.dumps({"current_node": "work", "completed_nodes": ["start", "work"], "context_values": {"output": "x" * 4000}}).encode()


@dataclass(frozen=True)
class Row:
    """One size: medians in milliseconds, their ratio, and the quartiles of the rounds' own ratios."""

    files: int
    arc_ms: float
    porcelain_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float


class NoSandboxes:
    """The benchmark runs no commands."""

    async def open(self, directory: Path) -> Sandbox:
        raise NotImplementedError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="100,2000,20000,100000")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--changed", type=int, default=5)
    parser.add_argument(
        "--edit",
        choices=["write", "rename", "new"],
        default="write",
        help="how files change: rewritten in place, replaced by a rename, or rewritten and one new file each round",
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--parts", action="store_true", help="where the time of a checkpoint goes, on stderr")
    options = parser.parse_args()
    rows = []
    for files in (int(part) for part in options.files.split(",")):
        with tempfile.TemporaryDirectory(prefix="arc-bench-") as folder:
            rows.append(measure(Path(folder), files, options.rounds, options.changed, options.edit, options.parts))
        if not options.json:
            row = rows[-1]
            if len(rows) == 1:
                print(f"{'files':>8} {'arc ms':>9} {'porcelain ms':>13} {'ratio':>6}   quartiles")
            print(
                f"{row.files:>8} {row.arc_ms:>9.1f} {row.porcelain_ms:>13.1f} {row.ratio:>6.2f}   {row.ratio_low:.2f}-{row.ratio_high:.2f}"
            )
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    return 0 if all(row.ratio <= 0.6 for row in rows if row.files >= 20_000) else 1


def measure(folder: Path, files: int, rounds: int, changed: int, edit: str, parts: bool) -> Row:
    """Build both repositories and alternate."""
    plain = folder / "plain"
    generate(plain, files)
    source = folder / "source"
    shutil.copytree(plain, source)
    repository = Repository.discover(source)
    assert repository is not None
    commit = repository.head_commit()
    assert commit is not None
    notices: list[Notice] = []
    workspace = GitWorkspace.create(
        repository,
        run_id=RUN_ID,
        path=folder / "logs" / "worktree",
        ref=f"refs/heads/arc/run/{RUN_ID}",
        commit=commit,
        subdirectory=".",
        exclude_globs=(),
        sandboxes=NoSandboxes(),
        notices=notices.append,
    )
    metadata = MetadataBranch(repository, RUN_ID)
    checkpoint = Checkpoint(workspace, metadata, folder / "logs" / "checkpoint.json")
    arc_times: list[float] = []
    porcelain_times: list[float] = []
    for number in range(rounds + 3):
        change(plain, files, changed, number, edit)
        change(workspace.worktree.path, files, changed, number, edit)
        jobs: list[tuple[list[float], Callable[[], None]]] = [(arc_times, checkpoint.take), (porcelain_times, lambda: porcelain(plain))]
        for times, job in jobs if number % 2 else reversed(jobs):
            begin = time.perf_counter()
            job()
            times.append(time.perf_counter() - begin)
    assert not notices, notices
    check_equal(workspace, plain)
    if parts:
        for name, values in checkpoint.parts.items():
            print(f"  {files} {name}: {statistics.median(values[3:]) * 1000:.1f} ms", file=sys.stderr)
    arc_times, porcelain_times = arc_times[3:], porcelain_times[3:]  # the first rounds fill caches on both sides
    ratios = sorted(a / b for a, b in zip(arc_times, porcelain_times, strict=True))
    quarter = len(ratios) // 4
    arc, git = statistics.median(arc_times), statistics.median(porcelain_times)
    return Row(files, arc * 1000, git * 1000, arc / git, ratios[quarter], ratios[-1 - quarter])


class Checkpoint:
    """The cycle of `arc.runs.checkpoints`, without the engine around it."""

    def __init__(self, workspace: GitWorkspace, metadata: MetadataBranch, file: Path) -> None:
        self.workspace, self.metadata, self.file = workspace, metadata, file
        self.number = 0
        self.parts: dict[str, list[float]] = {}

    def take(self) -> None:
        """Steps 1 to 4."""
        self.number += 1
        state = STATE + b" " * self.number
        self.part("1 disk", lambda: write_atomic(self.file, state))
        staged = self.part("2 stage", self.workspace.stage)
        update = self.part("2 metadata", lambda: self.metadata.prepare({"checkpoint.json": state}, f"checkpoint {self.number}"))
        message = format_message(RUN_ID, "work", "success", self.number, update.new)
        self.part("3 commit", lambda: self.workspace.checkpoint(staged, message, [update]))
        self.part("4 disk", lambda: write_atomic(self.file, state))

    def part(self, name: str, work: Callable[[], Result]) -> Result:
        begin = time.perf_counter()
        result = work()
        self.parts.setdefault(name, []).append(time.perf_counter() - begin)
        return result


def generate(folder: Path, files: int) -> None:
    """A repository of that many small files, 50 to a folder, committed by porcelain."""
    for number in range(files):
        place = path_of(folder, number)
        if number % 50 == 0:
            place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"file {number}\n" * 20)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")


def path_of(folder: Path, number: int) -> Path:
    return folder / "src" / f"m{number // 500:03d}" / f"d{number // 50 % 10}" / f"f{number:06d}.txt"


def change(folder: Path, files: int, changed: int, number: int, edit: str) -> None:
    """Change that many files, spread over the folders, others in each round."""
    for index in range(changed):
        target = path_of(folder, (number * 977 + index * (files // changed) + index) % files)
        if edit == "rename":
            beside = target.with_suffix(".new")
            beside.write_text(f"round {number}, change {index}\n" * 20)
            beside.rename(target)
        else:
            target.write_text(f"round {number}, change {index}\n" * 20)
    if edit == "new":
        path_of(folder, number * 977 % files).with_name(f"new{number:06d}.txt").write_text(f"new in round {number}\n" * 20)


def porcelain(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "work")


def git(folder: Path, *args: str) -> None:
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@local", "-c", "gc.auto=0", "-c", "maintenance.auto=false")
    subprocess.run(["git", *identity, *args], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def check_equal(workspace: GitWorkspace, plain: Path) -> None:
    """Both sides must have committed the same files."""
    result = subprocess.run(["git", "rev-parse", "HEAD^{tree}"], cwd=plain, check=True, capture_output=True, text=True)
    assert str(workspace.repository.pygit2[workspace.tip].peel(pygit2.Tree).id) == result.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
