"""`arc run resume`: continue a run from its folder, or (as options of `arc run start`) from a checkpoint file or a run branch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from arc.cli import options
from arc.cli.model_options import AgentCommand, AutoApprove, Backend, Model, Provider, model_config

if TYPE_CHECKING:
    from arc.runs.config import ModelConfig


def command(
    run: options.Run,
    model: Model = None,
    provider: Provider = None,
    backend: Backend = None,
    agent_command: AgentCommand = None,
    auto_approve: AutoApprove = False,
) -> int:
    """Continue an interrupted, failed or canceled run

    Finished nodes never run twice. The node that was interrupted runs again; edits it had half done are set aside in a ref and named.
    A run goes on as it was started; the options say what is different from here on.

    \b
    Examples:
      arc run resume 01JKXYZ
      arc run resume 01JKXYZ --agent-command "claude -p"
    """
    from arc.cli.running import execute
    from arc.runs.claim import ResumeTarget
    from arc.runs.resume import resume_run

    changed = model_config(model, provider, backend, agent_command, None)
    target = ResumeTarget(run=run, directory=Path.cwd(), model=changed, auto_approve=auto_approve)
    return execute(lambda world: resume_run(target, world))


def resume_from(
    *, checkpoint: Path | None, branch: str | None, workflow: Path | None, model: ModelConfig | None = None, auto_approve: bool = False
) -> int:
    """The same from `arc run start --resume CHECKPOINT` and `--run-branch BRANCH`."""
    from arc.cli.running import execute
    from arc.runs.claim import ResumeTarget
    from arc.runs.config import ModelConfig
    from arc.runs.resume import resume_run

    target = ResumeTarget(
        checkpoint=checkpoint,
        branch=branch,
        workflow=workflow,
        directory=Path.cwd(),
        model=model or ModelConfig(),
        auto_approve=auto_approve,
    )
    return execute(lambda world: resume_run(target, world))
