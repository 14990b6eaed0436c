"""The node types that do no work themselves: start, exit, conditional, wait."""

from __future__ import annotations

from arc.workflow.engine.doors import NodeCall
from arc.workflow.failures import HandlerError
from arc.workflow.handlers.event_names import WAIT_STARTED
from arc.workflow.outcome import Outcome


class PassHandler:
    """`start`, `exit` and `conditional`: success at once; the engine routes."""

    async def run(self, call: NodeCall) -> Outcome:
        return Outcome("success")


class WaitHandler:
    """`wait`: success after `duration`. A run that is resumed in the middle waits the whole duration again; a dry run does not wait."""

    async def run(self, call: NodeCall) -> Outcome:
        duration = call.node.duration_ms
        if duration is None:
            raise HandlerError(f"the wait node `{call.node.id}` has no `duration`", failure_class="structural")
        if call.services.dry_run:
            return Outcome("success", notes="dry run: not waited")
        call.emit(WAIT_STARTED, {"duration_ms": duration})
        await call.services.clock.sleep(duration / 1000)
        return Outcome("success")
