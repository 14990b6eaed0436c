"""The loop of one frame: execute the next node, decide where to go, take the checkpoint, until the walk ends."""

from __future__ import annotations

from functools import partial

from arc.workflow.engine.advance import Told, advance
from arc.workflow.engine.execution import execute
from arc.workflow.engine.frame import Frame, WalkEnd
from arc.workflow.engine.scope import Scope


async def walk(scope: Scope, frame: Frame) -> WalkEnd:
    """Walk the frame to its end. The next node starts only after the checkpoint of the one before has returned."""
    while (end := frame.end()) is None:
        assert frame.next is not None
        node = frame.graph.nodes[frame.next]
        execution = await execute(scope, frame, node)
        told: Told = []
        seed = f"{scope.services.seed}:{execution.ordinal}"
        move = partial(advance, frame, node, execution.outcome, told, seed=seed, dry_run=scope.services.dry_run)
        await scope.checkpoint(frame, node, execution, move)
        for name, properties in told:
            scope.emit(name, frame.path(node.id), execution.ordinal, **properties)
    return end
