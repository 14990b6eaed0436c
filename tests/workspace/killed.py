"""What the tests of killed processes run in a process of their own: `python -m tests.workspace.killed SCENARIO REPOSITORY LOGS`.

Each scenario finds a run with a changed, a new and a deleted file in its worktree, and does one thing with it; `ARC_FAULT` says where it
dies.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

from arc.workspace.git.trailers import format_message
from arc.workspace.protocol import MergeInput
from tests.workspace.made import RUN, Run, attach, start


def half_done(files: Path) -> None:
    """Edits that a checkpoint must hold."""
    (files / "a.txt").write_text("changed\n")
    (files / "new").mkdir(exist_ok=True)
    (files / "new" / "file").write_text("new\n")
    (files / "dir" / "b.txt").unlink(missing_ok=True)


DONE = {"a.txt": ("100644", b"changed\n"), "new/file": ("100644", b"new\n")}
"""The files after `half_done`."""


async def merge(run: Run) -> None:
    """Two branches, merged and committed."""
    inputs = []
    for key in ("one", "two"):
        branch = await run.workspace.fork(3, "fan", key)
        base = branch.tip
        (branch.worktree.path / key).write_text(key)
        commit = branch.checkpoint(branch.stage(), format_message(RUN, f"fan:{key}/work", "success", 1, None), [])
        await branch.close()
        inputs.append(MergeInput(key, branch.branch, commit, base))
    await run.workspace.merge(inputs)
    run.checkpoint("join")


def main(scenario: str, repo: Path, logs: Path) -> None:
    if scenario == "create":
        start(repo, logs)
        return
    run = attach(Run(repo, workspace=None), logs)  # type: ignore[arg-type]
    if scenario == "attach":
        shutil.rmtree(run.workspace.admin_directory)
        run = attach(run, logs)
    elif scenario == "checkpoint":
        run.checkpoint("work")
    elif scenario == "aside":
        run.workspace.set_aside("interrupted-1-work", "killed")
        run.workspace.reset()
    elif scenario == "close":
        run.checkpoint("work")
        asyncio.run(run.workspace.close())
    elif scenario == "merge":
        asyncio.run(merge(run))


if __name__ == "__main__":
    main(sys.argv[1], Path(os.fsdecode(sys.argv[2])), Path(os.fsdecode(sys.argv[3])))
