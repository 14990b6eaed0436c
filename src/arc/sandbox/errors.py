"""Errors of sandboxes: the place itself failed, not a command in it."""

from __future__ import annotations

from typing import ClassVar, Literal

from arc.base.errors import ArcError

SandboxFailureClass = Literal["transient_infra", "deterministic", "structural"]
"""The part of the workflow's failure classes that a place can cause."""


class SandboxError(ArcError):
    """The sandbox could not do what was asked; `failure_class` says whether trying again may help."""

    code = "sandbox.failed"
    failure_class: ClassVar[SandboxFailureClass] = "transient_infra"


class SandboxClosedError(SandboxError):
    """The sandbox was closed, before or during the call."""

    code = "sandbox.closed"


class SandboxProgramError(SandboxError):
    """The program does not exist in the sandbox or cannot be executed there."""

    code = "sandbox.program_missing"
    failure_class = "structural"


class SandboxPathError(SandboxError):
    """A path does not exist, is of the wrong kind, or a relative one leads out of the sandbox's directory."""

    code = "sandbox.path"
    failure_class = "structural"
