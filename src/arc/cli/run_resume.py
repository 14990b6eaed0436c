"""`arc run resume`: continue a run from its folder, or (as options of `arc run start`) from a checkpoint file or a run branch."""

from __future__ import annotations

from pathlib import Path

from arc.cli import options


def command(run: options.Run) -> int:
    """Continue an interrupted, failed or canceled run

    Finished nodes never run twice. The node that was interrupted runs again; edits it had half done are set aside in a ref and named.

    \b
    Examples:
      arc run resume 01JKXYZ
      arc run resume 01JKXYZ --json
    """
    from arc.cli.running import execute
    from arc.runs.claim import ResumeTarget
    from arc.runs.resume import resume_run

    target = ResumeTarget(run=run, directory=Path.cwd())
    return execute(lambda world: resume_run(target, world))


def resume_from(*, checkpoint: Path | None, branch: str | None, workflow: Path | None) -> int:
    """The same from `arc run start --resume CHECKPOINT` and `--run-branch BRANCH`."""
    from arc.cli.running import execute
    from arc.runs.claim import ResumeTarget
    from arc.runs.resume import resume_run

    target = ResumeTarget(checkpoint=checkpoint, branch=branch, workflow=workflow, directory=Path.cwd())
    return execute(lambda world: resume_run(target, world))
