"""A project with blocks inside blocks: a parallel block in a branch, a child workflow in a branch, a parallel block in that child."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from arc.runs.store import RunFolder
from arc.workflow.state import FrameState
from tests.conftest import MakeRepo
from tests.runs.killing import RUN, STEP, Project


def step(name: str) -> str:
    return f'{name} [shape=parallelogram, script="sh step.sh {name}"]'


OUTER = f"""
digraph outer {{
  start [shape=Mdiamond]; exit [shape=Msquare]
  fan [shape=component, max_parallel=2]
  {step("x1")}; {step("x2")}
  infan [shape=component, max_parallel=2]; {step("i1")}; {step("i2")}; ijoin [shape=tripleoctagon]
  kid [shape=house, stack.child_workflow="kid.dot", manager.max_cycles=1, manager.poll_interval=10ms]
  {step("y2")}
  join [shape=tripleoctagon]
  {step("last")}
  start -> fan
  fan -> x1 -> infan; infan -> i1 -> ijoin; infan -> i2 -> ijoin; ijoin -> x2 -> join
  fan -> kid -> y2 -> join
  join -> last -> exit
}}
"""

KID = f"""
digraph kid {{
  start [shape=Mdiamond]; exit [shape=Msquare]
  {step("c1")}
  kfan [shape=component, max_parallel=2]; {step("p1")}; {step("p2")}; kjoin [shape=tripleoctagon]
  start -> c1 -> kfan; kfan -> p1 -> kjoin; kfan -> p2 -> kjoin; kjoin -> exit
}}
"""

NODES = ("x1", "i1", "i2", "x2", "c1", "p1", "p2", "y2", "last")

INSIDE = {"fan": ("x1", "i1", "i2", "x2", "c1", "p1", "p2", "y2"), "infan": ("i1", "i2"), "kid": ("c1", "p1", "p2"), "kfan": ("p1", "p2")}
"""What a completed block has inside it."""


def make_nested(repo: MakeRepo, room: Path) -> Project:
    files = {
        "outer.dot": OUTER,
        "kid.dot": KID,
        "step.sh": STEP,
        "run.toml": RUN.replace("whole.dot", "outer.dot"),
        ".gitignore": ".cache-*\n",
    }
    return Project(repo(files), room)


def completed_nodes(folder: RunFolder) -> Counter[str]:
    """Nodes that the disk's checkpoint says have completed, in all frames, open or closed."""
    checkpoint = folder.read_checkpoint()
    found: set[str] = set()

    def frame(state: FrameState) -> None:
        for node in state.completed_nodes:
            found.update((node, *INSIDE.get(node, ())))
        block = state.open_block
        if block is not None:
            for inner in (*(branch.frame for branch in block.branches), *((block.child,) if block.child is not None else ())):
                frame(inner)

    if checkpoint is not None:
        frame(checkpoint.to_state().root)
    return Counter({node: 1 for node in NODES if node in found})
