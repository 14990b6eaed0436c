"""`arc run start`: start a run of a workflow, or go on with one from a checkpoint file or a run branch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arc.base.errors import UsageError
from arc.cli.model_options import AgentCommand, AutoApprove, Backend, Model, Provider, model_config

Workflow = Annotated[Path | None, typer.Argument(metavar="WORKFLOW", help="A workflow (`.dot`) or a run configuration (`.toml`)")]
Goal = Annotated[str | None, typer.Option("--goal", metavar="TEXT", help="What the run is for: `$goal` in prompts")]
Inputs = Annotated[list[str] | None, typer.Option("-i", "--input", metavar="KEY=VALUE", help="A value for `$KEY` (can be repeated)")]
Labels = Annotated[list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="A label to find the run by (can be repeated)")]
Script = Annotated[Path | None, typer.Option("--script", metavar="FILE", help="Replies and edits of the scripted backend")]
LogsDir = Annotated[Path | None, typer.Option("--logs-dir", metavar="DIR", help="The run's folder [default: ~/.arc/runs/RUN_ID]")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Walk the graph; execute nothing, write nothing to the repository")]
SnapshotDirty = Annotated[bool, typer.Option("--snapshot-dirty", help="Take uncommitted work as checkpoint 0 and run in a worktree")]
Resume = Annotated[Path | None, typer.Option("--resume", metavar="CHECKPOINT", help="Go on from a `checkpoint.json`")]
RunBranch = Annotated[
    str | None, typer.Option("--run-branch", metavar="BRANCH", help="Go on with the run of this branch; needs no WORKFLOW")
]


def command(
    workflow: Workflow = None,
    goal: Goal = None,
    inputs: Inputs = None,
    labels: Labels = None,
    model: Model = None,
    provider: Provider = None,
    backend: Backend = None,
    agent_command: AgentCommand = None,
    script: Script = None,
    logs_dir: LogsDir = None,
    dry_run: DryRun = False,
    auto_approve: AutoApprove = False,
    snapshot_dirty: SnapshotDirty = False,
    resume: Resume = None,
    run_branch: RunBranch = None,
) -> int:
    """Start a run of a workflow

    The run gets a branch and a worktree of its own; your checkout stays as it is. Ctrl-C stops it so that it can be resumed.

    \b
    Examples:
      arc run start review.dot --goal "Fix the flaky test" --agent-command "claude -p"
      arc run start review.dot -i issue=42 --label team=core
      arc run start --run-branch arc/run/01JKXYZ7C8T9V2W4X6Y8Z0A1B3
    """
    from arc.cli.running import execute
    from arc.runs.world import StartRequest

    if resume is not None or run_branch is not None:
        from arc.cli.run_resume import resume_from

        if resume is not None and run_branch is not None:
            raise UsageError("`--resume` and `--run-branch` say two different things: give one")
        _refuse_with_resume(
            "--resume" if resume is not None else "--run-branch",
            goal=goal,
            input=inputs,
            label=labels,
            **{"script": script, "logs-dir": logs_dir, "dry-run": dry_run, "snapshot-dirty": snapshot_dirty},
        )
        changed = model_config(model, provider, backend, agent_command, None)
        return resume_from(checkpoint=resume, branch=run_branch, workflow=workflow, model=changed, auto_approve=auto_approve)
    if workflow is None:
        raise UsageError("a workflow is missing", hints=("arc run start review.dot", "arc run start --run-branch arc/run/RUN_ID"))
    request = StartRequest(
        source=workflow,
        directory=Path.cwd(),
        goal=goal,
        inputs=pairs(inputs, "--input"),
        labels=pairs(labels, "--label"),
        model=model_config(model, provider, backend, agent_command, script),
        logs_dir=logs_dir,
        dry_run=dry_run,
        auto_approve=auto_approve,
        snapshot_dirty=snapshot_dirty,
    )

    from arc.runs.start import start_run

    return execute(lambda world: start_run(request, world))


def _refuse_with_resume(way: str, **options: object) -> None:
    """A run goes on as it was started: options that decide about that are refused by name, not passed over."""
    names = [f"`--{name}`" for name, value in options.items() if value not in (None, False, [])]
    if not names:
        return
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    verb = "does" if len(names) == 1 else "do"
    raise UsageError(
        f"{listed} {verb} not go with `{way}`: a run goes on as it was started",
        hints=("to change its inputs: `arc run fork RUN @last -i KEY=VALUE`",),
    )


def pairs(words: list[str] | None, option: str) -> dict[str, str]:
    """`KEY=VALUE` words as a mapping. Raises `UsageError` for a word without `=`, and for a key given twice."""
    found: dict[str, str] = {}
    for word in words or ():
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"`{option} {word}` is not KEY=VALUE", hints=(f"{option} {key or 'KEY'}=VALUE",))
        if key in found:
            raise UsageError(f"`{option} {key}=…` is given twice")
        found[key] = value
    return found
