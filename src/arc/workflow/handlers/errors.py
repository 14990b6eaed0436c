"""Errors of the handler registry; those of handlers at work are in `arc.workflow.failures`."""

from __future__ import annotations

from arc.base.errors import ArcError, ExitStatus


class HandlerLoadError(ArcError):
    """A user's handler cannot be loaded: its module or attribute is missing, or it is no handler."""

    code = "workflow.handler_load"
    status = ExitStatus.USAGE


class UnknownTypeError(ArcError):
    """No handler is registered for a node type."""

    code = "workflow.unknown_type"
