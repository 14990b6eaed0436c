"""Errors of backends: why no reply came, with the failure class that decides about retries."""

from __future__ import annotations

from typing import Literal

from arc.base.errors import ArcError

BackendFailureClass = Literal["transient_infra", "deterministic", "budget_exhausted", "canceled", "structural"]
"""The part of the workflow's failure classes that a backend can cause."""


class BackendError(ArcError):
    """A backend could not answer a prompt."""

    code = "agent.backend"

    def __init__(
        self,
        message: str,
        *,
        failure_class: BackendFailureClass = "deterministic",
        hints: tuple[str, ...] = (),
        details: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hints=hints, details=details)
        self.failure_class: BackendFailureClass = failure_class


class ScriptError(ArcError):
    """A file of scripted replies cannot be used; the message names the file and the place in it."""

    code = "agent.script"
