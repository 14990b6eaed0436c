"""Which backend answers a run's prompts, made from the configuration; and the check, before anything starts, that every node that
needs a model has one. Nothing is ever simulated unless the run is a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from arc.agent.protocol import Backend
from arc.runs.config import RunConfig
from arc.runs.errors import NoBackendError, SourceError
from arc.workflow.handlers.agent import models_needed
from arc.workflow.model import Workflow

SCRIPT_SOURCE = "[model] script"
"""Name under which a script of replies is kept among the run's sources, so that a resume elsewhere has it."""


@dataclass(frozen=True)
class Backends:
    """Backends by name, and which one answers nodes that name none."""

    by_name: Mapping[str, Backend] = field(default_factory=dict)
    default: str | None = None


def read_script(config: RunConfig) -> str | None:
    """The text of `[model] script`, None if none is configured. Raises `SourceError`."""
    if config.model.script is None or config.model.backend != "scripted":
        return None
    try:
        return Path(config.model.script).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SourceError(f"the script of replies `{config.model.script}` cannot be read: {reason}") from error


def make_backends(config: RunConfig, script: str | None, *, dry_run: bool) -> Backends:
    """The configured backend. `script` is the text for the scripted one.

    Raises:
        NoBackendError: the backend is named but what it needs is not given.
    """
    if dry_run:
        from arc.agent.dry_run import DryRunBackend

        return Backends({"dry_run": DryRunBackend()}, "dry_run")
    model = config.model
    if model.backend == "cli":
        from arc.agent.cli_backend import CliBackend

        if not model.command:
            raise NoBackendError("the backend `cli` needs a command", hints=('in arc.toml: [model] command = ["claude", "-p"]',))
        return Backends({"cli": CliBackend(model.command, reply=model.reply or "text")}, "cli")
    if model.backend == "scripted":
        from arc.agent.scripted_backend import ScriptedBackend

        if script is None:
            raise NoBackendError("the backend `scripted` needs a script", hints=('in arc.toml: [model] script = "replies.toml"',))
        return Backends({"scripted": ScriptedBackend.load(script, model.script or SCRIPT_SOURCE)}, "scripted")
    return Backends()


def check_models(workflow: Workflow, backends: Backends) -> None:
    """Every node that needs a model has a backend.

    Raises:
        NoBackendError: names the first one that has none, and the remedies.
    """
    if "dry_run" in backends.by_name:
        return
    for node in models_needed(workflow):
        where = str(node.position)
        wanted = node.choice.backend or backends.default
        if wanted is None:
            raise NoBackendError(
                f"node `{node.id}` ({where}) needs a model and no backend is configured; nothing was started",
                hints=(
                    'configure an agent program in arc.toml: [model] command = ["claude", "-p"]',
                    'or give it now: --agent-command "claude -p"',
                    "or look at the workflow without running it: --dry-run",
                ),
            )
        if wanted not in backends.by_name:
            known = ", ".join(f"`{name}`" for name in backends.by_name) or "none"
            raise NoBackendError(f"node `{node.id}` ({where}) asks for the backend `{wanted}`, configured: {known}; nothing was started")
