"""A project whose workflow has every kind of node that holds state, processes that are killed in it, and the checks after the resume.

Each node appends to a file of the project (so that a node that ran twice on its own edits would show), and to a ledger outside of it
when it begins and when it is done (so that every execution is counted).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from arc.runs.agree import branch_of
from arc.runs.store import RunFolder, parse_checkpoint, shown_status
from arc.workflow.state import FrameState
from tests.conftest import MakeRepo, Repo

ROOT = Path(__file__).parents[2]

WORKFLOW = """
digraph whole {
  goal = "every kind of state"
  start [shape=Mdiamond]
  exit  [shape=Msquare]
  plan  [shape=parallelogram, script="sh step.sh plan"]
  edit  [prompt="edit"]
  fan   [shape=component, max_parallel=2]
  l1    [shape=parallelogram, script="sh step.sh l1"]
  l2    [shape=parallelogram, script="sh step.sh l2"]
  r1    [shape=parallelogram, script="sh step.sh r1"]
  r2    [shape=parallelogram, script="sh step.sh r2"]
  join  [shape=tripleoctagon]
  child [shape=house, stack.child_workflow="child.dot", manager.max_cycles=1, manager.poll_interval=10ms]
  last  [shape=parallelogram, script="sh step.sh last"]
  start -> plan -> edit -> fan
  fan -> l1 -> l2 -> join
  fan -> r1 -> r2 -> join
  join -> child -> last -> exit
}
"""

CHILD = """
digraph inner {
  start [shape=Mdiamond]
  exit  [shape=Msquare]
  c1    [shape=parallelogram, script="sh step.sh c1"]
  c2    [shape=parallelogram, script="sh step.sh c2"]
  start -> c1 -> c2 -> exit
}
"""

STEP = """
name=$1
echo "begin $name" >> "$LEDGER"
echo "half $name" >> "$name.txt"
echo "$name" > untracked-$name.txt
if [ "$HANG" = "$name" ] && [ ! -e "$LEDGER.hung" ]; then
  touch "$LEDGER.hung"
  echo "stray" > stray.txt
  exec sleep 600
fi
echo "whole $name" >> "$name.txt"
echo "done $name" >> "$LEDGER"
"""

RUN = """
schema = 1
graph = "whole.dot"
[model]
backend = "cli"
command = ["/bin/sh", "step.sh", "edit"]
[setup]
commands = ["echo setup >> .cache-setup"]
"""

NODES = ("plan", "edit", "l1", "l2", "r1", "r2", "c1", "c2", "last")


@dataclass(frozen=True)
class Ended:
    """How a driver process ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL


@dataclass(frozen=True)
class Project:
    """A repository with the workflow, a home for its runs, a ledger."""

    repo: Repo
    room: Path

    @property
    def home(self) -> Path:
        return self.room / "arc-home"

    @property
    def ledger(self) -> Path:
        return self.room / "ledger"

    def environ(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        return {
            **os.environ,
            "ARC_HOME": str(self.home),
            "LEDGER": str(self.ledger),
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            **(extra or {}),
        }

    def popen(self, verb: str, target: str, extra: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.runs.driver", verb, target],
            cwd=self.repo.path,
            env=self.environ(extra),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def drive(self, verb: str, target: str = "run.toml", extra: Mapping[str, str] | None = None) -> Ended:
        with self.popen(verb, target, extra) as process:
            stdout, stderr = process.communicate(timeout=60)
        return Ended(process.returncode, stdout.strip(), stderr)

    def kill_in(self, node: str) -> None:
        """Start the run, and kill it when the node has done half of its work."""
        process = self.popen("start", "run.toml", {"HANG": node})
        deadline = time.monotonic() + 60
        while not Path(f"{self.ledger}.hung").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()

    def clone(self, room: Path, *refs: str) -> Project:
        """A clone of the project's main branch that fetched these refs, with a home of its own."""
        room.mkdir()
        self.repo.git("clone", "-q", "--no-local", "--single-branch", str(self.repo.path), str(room / "clone"))
        clone = Repo(room / "clone")
        for ref in refs:
            clone.git("fetch", "-q", "origin", f"{ref}:{ref}")
        return Project(clone, room)

    def run_ids(self) -> list[str]:
        return sorted(os.listdir(self.home / "runs")) if (self.home / "runs").is_dir() else []

    def folder(self) -> RunFolder:
        (run_id,) = self.run_ids()
        return RunFolder(self.home / "runs" / run_id)

    def begun(self) -> Counter[str]:
        return self._count("begin")

    def done(self) -> Counter[str]:
        return self._count("done")

    def _count(self, word: str) -> Counter[str]:
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return Counter(line.partition(" ")[2] for line in lines if line.startswith(f"{word} "))


@dataclass(frozen=True)
class Checkout:
    """The caller's checkout, byte for byte as far as a run could touch it."""

    head: str
    index: bytes
    status: str
    stash: str
    branches: str

    @classmethod
    def of(cls, repo: Repo) -> Checkout:
        return cls(
            repo.git("rev-parse", "HEAD"),
            (repo.path / ".git/index").read_bytes(),
            repo.git("--no-optional-locks", "status", "--porcelain"),
            repo.git("stash", "list"),
            repo.git("symbolic-ref", "HEAD"),
        )


def make_project(repo: MakeRepo, room: Path) -> Project:
    made = repo(
        {
            "whole.dot": WORKFLOW,
            "child.dot": CHILD,
            "step.sh": STEP,
            "run.toml": RUN,
            ".gitignore": ".cache-*\n",
            "README.md": "# project\n",
        }
    )
    return Project(made, room)


def completed_nodes(folder: RunFolder) -> Counter[str]:
    """Nodes that the disk's checkpoint says have completed, in all frames; of closed blocks too, by their outcome."""
    checkpoint = folder.read_checkpoint()
    if checkpoint is None:
        return Counter()
    found: Counter[str] = Counter()

    def frame(state: FrameState) -> None:
        found.update(state.completed_nodes)
        block = state.open_block
        if block is not None:
            for branch in block.branches:
                frame(branch.frame)
            if block.child is not None:
                frame(block.child)
        if "fan" in state.completed_nodes:
            found.update(("l1", "l2", "r1", "r2"))
        if "child" in state.completed_nodes:
            found.update(("c1", "c2"))

    frame(checkpoint.to_state().root)
    return found


def check_agreement(project: Project) -> None:
    """State and files of the ended run agree, Git is sound, the caller's checkout is not touched."""
    folder, repo = project.folder(), project.repo
    record = folder.read_record()
    assert record.status == "success"
    assert shown_status(folder) == "success"
    branch, metadata = f"arc/run/{folder.run_id}", f"refs/arc/{folder.run_id}"
    trailers = repo.git("log", "-1", "--format=%(trailers:key=Arc-Checkpoint,valueonly)", branch).strip()
    named = parse_checkpoint(repo.git("show", f"{trailers}:checkpoint.json").encode(), "named")
    newest = parse_checkpoint(repo.git("show", f"{metadata}:checkpoint.json").encode(), "newest")
    assert named.ordinal == newest.ordinal
    assert branch_of(newest) is None
    assert newest.git_tree_sha == repo.git("rev-parse", f"{branch}^{{tree}}")
    disk = folder.read_checkpoint()
    assert disk is not None
    assert disk.git_commit_sha == repo.git("rev-parse", branch)
    assert disk.status == newest.status == "success"
    broken = [line for line in repo.git("fsck", "--full", "--no-dangling").splitlines() if line]
    assert broken == []
    ordinals = [name.partition("-")[0] for name in os.listdir(folder.nodes)]
    assert len(ordinals) == len(set(ordinals)), "two executions share an ordinal"
    events = [json.loads(line) for line in folder.events_file.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    sequences = [event["sequence"] for event in events]
    assert sequences == sorted(sequences)
    assert not folder.worktree.exists(), "everything was committed, so the worktree goes"
    listed = repo.git("worktree", "list", "--porcelain")
    assert listed.count("worktree ") == 1, listed
    assert repo.git("for-each-ref", "refs/heads/arc/branch") == "", "all branches are merged: the fan-in has them as parents"


def check_files(project: Project, nodes: Sequence[str] = NODES) -> None:
    """The files of the run branch are those of a run that was never killed."""
    branch = f"arc/run/{project.folder().run_id}"
    files = set(project.repo.git("ls-tree", "-r", "--name-only", branch).splitlines())
    expected = {f"{node}.txt" for node in nodes} | {f"untracked-{node}.txt" for node in nodes}
    base = set(project.repo.git("ls-tree", "-r", "--name-only", "main").splitlines())
    assert files == expected | base
    for node in nodes:
        assert project.repo.git("show", f"{branch}:{node}.txt") == f"half {node}\nwhole {node}", node
