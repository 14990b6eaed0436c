"""The options that say who answers prompts and gates: of a start, and of a resume that goes on otherwise."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arc.base.errors import UsageError
from arc.cli.completion import complete_words

if TYPE_CHECKING:
    from arc.runs.config import ModelConfig

Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Model of nodes that name none")]
Provider = Annotated[str | None, typer.Option("--provider", metavar="NAME", help="Provider of nodes that name none")]
Backend = Annotated[
    str | None,
    typer.Option(
        "--backend", metavar="NAME", help="Who answers prompts: cli or scripted", autocompletion=complete_words("cli", "scripted")
    ),
]
AgentCommand = Annotated[
    str | None, typer.Option("--agent-command", metavar="COMMAND", help='The agent program of the cli backend, such as "claude -p"')
]
AutoApprove = Annotated[bool, typer.Option("--auto-approve", help="Take the first choice at every human gate")]


def model_config(
    model: str | None, provider: str | None, backend: str | None, agent_command: str | None, script: Path | None
) -> ModelConfig:
    """What the options say about models. `--agent-command` means the cli backend, `--script` the scripted one."""
    from arc.runs.config import ModelConfig

    if agent_command is not None and script is not None:
        raise UsageError("`--agent-command` and `--script` are two different backends: give one")
    implied = "cli" if agent_command is not None else "scripted" if script is not None else None
    if backend is not None and implied is not None and backend != implied:
        raise UsageError(f"`--backend {backend}` does not go with `{'--agent-command' if implied == 'cli' else '--script'}`")
    try:
        words = tuple(shlex.split(agent_command)) if agent_command is not None else ()
    except ValueError as error:
        raise UsageError(f"`--agent-command` cannot be split into words: {error}") from error
    if agent_command is not None and not words:
        raise UsageError("`--agent-command` is empty", hints=('--agent-command "claude -p"',))
    return ModelConfig(
        backend=backend or implied, model=model, provider=provider, command=words, script=str(script.absolute()) if script else None
    )
