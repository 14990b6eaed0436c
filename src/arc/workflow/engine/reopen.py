"""A walk that ended in a failure, put back before what failed, when its run is resumed."""

from __future__ import annotations

from dataclasses import replace

from arc.workflow.engine.advance import go_to_exit
from arc.workflow.engine.frame import LAST_STAGE, WALK_FAILURE, Frame
from arc.workflow.engine.limits import visit_refusal
from arc.workflow.engine.scope import Scope


def reopen_failed(scope: Scope, frame: Frame) -> None:
    """Put the walk back before the node that failed (same visit); a walk that did not end in a failure is left alone.

    If that node is a block whose parts are still in the state, it goes on with those that did not succeed, as a new execution. A walk that
    a limit had ended stays ended; one that unsatisfied goal gates had ended looks at them again.
    """
    dry_run = scope.services.dry_run
    if frame.context.pop(WALK_FAILURE, None) is None:
        end, last = frame.end(), frame.context.get(LAST_STAGE)
        if end is not None and end.status == "fail" and frame.stops and isinstance(last, str):  # a failed branch may stand at its join
            _again(scope, frame, last)
    elif frame.next is None:
        _again(scope, frame, frame.current)
    elif frame.next == frame.graph.workflow.exit:
        go_to_exit(frame, dry_run=dry_run)
    else:
        refused = visit_refusal(frame, frame.graph.nodes[frame.next], dry_run=dry_run)
        if refused is not None:
            frame.fail(refused)


def _again(scope: Scope, frame: Frame, node_id: str | None) -> None:
    if node_id != frame.current:
        frame.incoming = None
    frame.next, frame.again = node_id, True
    if frame.opened is not None and frame.opened.node_id == node_id:
        frame.opened = replace(frame.opened, execution=scope.take_ordinal())
        frame.reopening = True
