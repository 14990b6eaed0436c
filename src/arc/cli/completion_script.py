"""`arc completion SHELL`: print the script that a shell sources to complete arc's commands, runs and nodes."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from arc.cli import ui


def command(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="The shell to print it for")],
) -> None:
    """Print the completion script of a shell

    `arc --install-completion` writes it where your shell looks for it.

    \b
    Examples:
      source <(arc completion bash)
      arc completion zsh > ~/.zfunc/_arc
      arc completion fish > ~/.config/fish/completions/arc.fish
    """
    from arc.cli.frame import completion_script

    ui.out(completion_script(shell))
