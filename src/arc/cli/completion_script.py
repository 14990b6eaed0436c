"""`arc completion SHELL`: print the script that a shell sources to complete arc's commands, runs and nodes."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import typer


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
    from arc.cli.main import build

    # typer's own way to get the script: the instruction in the variable that the script itself will use
    os.environ["_ARC_COMPLETE"] = f"source_{shell}"
    build().main([], prog_name="arc")
