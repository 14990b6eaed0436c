"""The run configuration: what a run's TOML, the project's `arc.toml` and the command line come to (docs/configuration.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

CONFIG_SCHEMA = 1


@dataclass(frozen=True)
class ModelConfig:
    """`[model]`. `backend`: `cli` (an external program: `command` is its argv template) or `scripted` (`script` is a file of replies).

    In `command`, `{prompt}`, `{model}`, `{node}` and `{worktree}` are replaced inside each argument; without `{prompt}` the prompt goes
    to stdin.
    """

    backend: str | None = None
    model: str | None = None
    provider: str | None = None
    reasoning_effort: str | None = None
    command: tuple[str, ...] = ()
    script: str | None = None
    reply: Literal["text", "json"] | None = None
    """How what `command` prints is read: `text` (also if None), or `json` as agent programs print it (docs/agents.md)."""


@dataclass(frozen=True)
class SetupConfig:
    """`[setup]`: shell commands run in the worktree before the first node (not again on a resume of a run that has a checkpoint)."""

    commands: tuple[str, ...] = ()
    timeout_ms: int = 300_000


@dataclass(frozen=True)
class HookConfig:
    """One `[[hooks]]`: a shell command before or after nodes. `nodes` are ids (empty = all). Exit 2 of a `before_node` hook blocks."""

    event: Literal["before_node", "after_node"]
    command: str
    nodes: tuple[str, ...] = ()
    timeout_ms: int = 60_000


@dataclass(frozen=True)
class CheckpointConfig:
    """`[checkpoint]`: globs of paths that checkpoints leave out (gitignore-style, relative to the repository)."""

    exclude_globs: tuple[str, ...] = ()


@dataclass(frozen=True)
class EnvironmentConfig:
    """`[environment]`: `variables` are set for every command; `[environment] pass` limits what is inherited (empty = everything)."""

    variables: dict[str, str] = field(default_factory=dict)
    pass_through: tuple[str, ...] = ()


@dataclass(frozen=True)
class SandboxConfig:
    """`[sandbox]`: where commands run."""

    provider: Literal["local"] = "local"


@dataclass(frozen=True)
class RunConfig:
    """Everything a run was configured with. Stored in run.json and manifest.json, secrets redacted."""

    schema: int = CONFIG_SCHEMA
    graph: str = ""
    goal: str | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    model: ModelConfig = field(default_factory=ModelConfig)
    setup: SetupConfig = field(default_factory=SetupConfig)
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    hooks: tuple[HookConfig, ...] = ()
    handlers: dict[str, str] = field(default_factory=dict)
    """Node type -> `module:attribute` of a user's handler."""
    auto_approve: bool = False
