"""Parallel blocks: branches walked in their own workspaces, bounded by `max_parallel`, joined by a policy.

Each outgoing edge whose condition holds (or that has none) is a branch, except an edge straight to the join. A branch starts with a copy
of the context, walks its own frame up to the join, and is checkpointed after every node like any frame; its workspace is closed when it
ends. When the policy is decided the branches that still run are cancelled; what they had not committed is set aside by their workspace.
Every way to fail is in `join_policy`.

A resume finds the block in the state: ended branches stay ended, running ones go on in their frame. Of a block that had failed and ended
the walk, the branches that succeeded stay as they are; the others go on, a failed one at the node that failed.

The block's outcome carries `parallel.results` (also as `parallel.<node id>.results`): for each branch in declared order `id`, `target`,
`status`, `reason`, `nodes` (completed, in order), `outputs` (`response.*`, `command.*`, `human.*` keys it set), `context_updates` (other
keys it set or changed), and `ref`, `commit`, `base` where the branch has a Git branch. The walk then goes to the join, whose fan-in
merges. A block whose join is not a fan-in of its own merges by itself at its end.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace

from arc.base.errors import ArcError
from arc.base.json import JsonObject, JsonValue
from arc.workflow.engine.doors import NodeCall
from arc.workflow.engine.event_names import BRANCH_COMPLETED, BRANCH_STARTED, PARALLEL_COMPLETED, PARALLEL_STARTED
from arc.workflow.engine.fan_in import merge_results
from arc.workflow.engine.frame import Block, Branch, Frame, copy_object, differences, failed
from arc.workflow.engine.join_policy import describe, judge
from arc.workflow.engine.joins import join_of
from arc.workflow.engine.limits import visit_refusal
from arc.workflow.engine.reopen import reopen_failed
from arc.workflow.engine.scope import Scope, uninterrupted
from arc.workflow.engine.walk import walk
from arc.workflow.language.conditions import Facts
from arc.workflow.model import Edge, Node
from arc.workflow.outcome import Outcome
from arc.workflow.state import BranchState, OpenBlock

OUTPUTS = ("response.", "command.", "human.")
"""Prefixes of the context keys that a branch's `outputs` hold."""


@dataclass
class _Block:
    """One run of a block's branches."""

    scope: Scope
    frame: Frame
    node: Node
    call: NodeCall
    block: Block
    join: str | None
    limit: asyncio.Semaphore
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    decided: bool = False

    def judge(self) -> None:
        """Cancel what still runs as soon as the policy is decided."""
        statuses = [branch.status for branch in self.block.branches]
        if self.decided or judge(self.node.join_policy, self.node.error_policy, statuses) is None:
            return
        self.decided = True
        for branch in self.block.branches:
            if branch.status in ("waiting", "running") and branch.key in self.tasks:
                self.tasks[branch.key].cancel()


async def run_parallel(scope: Scope, frame: Frame, node: Node, call: NodeCall) -> Outcome:
    """Run the block's branches to its verdict."""
    join = join_of(frame.graph, node.id)
    opened, frame.opened = frame.opened, None
    if opened is not None:
        block = _reopen(scope, frame, node, join, opened)
    else:
        block = _open(frame, node, call.ordinal, join, dry_run=scope.services.dry_run)
    if not block.branches:
        return failed(f"the parallel block `{call.path}` has no branch to run: every edge leads to the join or has a false condition")
    frame.block = block
    run = _Block(scope, frame, node, call, block, join, asyncio.Semaphore(max(node.max_parallel, 1)))
    scope.emit(
        PARALLEL_STARTED,
        call.path,
        call.ordinal,
        branches=[branch.key for branch in block.branches],
        max_parallel=node.max_parallel,
        join_policy=describe(node.join_policy),
        join=join,
    )
    await _run_branches(run)
    return await _conclude(run)


def _open(frame: Frame, node: Node, ordinal: int, join: str | None, *, dry_run: bool) -> Block:
    last = frame.last_outcome
    facts = Facts(last.status if last else "", (last.preferred_label if last else None) or "", frame.context)
    edges = [
        edge for edge in frame.graph.outgoing(node.id) if edge.target != join and (edge.condition is None or edge.condition.evaluate(facts))
    ]
    branches = [_branch(frame, node, key, edge, join) for key, edge in zip(_keys(edges), edges, strict=True)]
    for branch in branches:  # a branch's first node is entered here and not by routing, so its visits are looked at here
        refused = visit_refusal(branch.frame, frame.graph.nodes[branch.target], dry_run=dry_run)
        if refused is not None:
            branch.frame.fail(refused)
    return Block("parallel", node.id, ordinal, branches)


def _keys(edges: list[Edge]) -> list[str]:
    """The target's id; for further edges to the same target `id#2`, `id#3`."""
    seen: Counter[str] = Counter()
    keys = []
    for edge in edges:
        seen[edge.target] += 1
        keys.append(edge.target if seen[edge.target] == 1 else f"{edge.target}#{seen[edge.target]}")
    return keys


def _branch(frame: Frame, node: Node, key: str, edge: Edge | None, join: str | None) -> Branch:
    """A branch that has not started: its frame stands before the edge's target."""
    target = edge.target if edge is not None else key.partition("#")[0]
    stops = frame.stops | {frame.graph.workflow.exit} | ({join} if join is not None else set())
    context = copy_object(frame.context)
    context["internal.branch"] = key
    inner = Frame(
        frame.graph,
        frame.workspace,
        prefix=f"{frame.prefix}{node.id}:{key}/",
        parent=frame,
        host=frame,
        enclosing=frame.enclosing | {node.id},
        stops=stops,
        allowed=frame.graph.reachable((target,), stops),
        threads=frame.threads.fork(),
        next=target,
        visits=dict(frame.visits),
        context=context,
        loop_signatures=dict(frame.loop_signatures),
        restart_signatures=dict(frame.restart_signatures),
        incoming=edge,
        resumed=frame.resumed,
    )
    return Branch(key, target, inner)


def _reopen(scope: Scope, frame: Frame, node: Node, join: str | None, opened: OpenBlock) -> Block:
    branches = [_restored(frame, node, join, state) for state in opened.branches]
    if frame.reopening:
        frame.reopening = False
        for branch in branches:
            branch.canceled = False
            reopen_failed(scope, branch.frame)
    return Block("parallel", node.id, opened.ordinal, branches, execution=opened.execution)


def _restored(frame: Frame, node: Node, join: str | None, state: BranchState) -> Branch:
    branch = _branch(frame, node, state.key, None, join)
    branch.frame.restore(state.frame)
    branch.started, branch.canceled = state.status != "waiting", state.status == "canceled"
    branch.ref, branch.base = state.ref, state.base_sha
    return branch


async def _run_branches(run: _Block) -> None:
    pending = [branch for branch in run.block.branches if branch.status in ("waiting", "running")]
    run.judge()
    if run.decided:  # a resume just after the decision: nothing more is started, half-done work is set aside
        for branch in pending:
            await _set_aside(run, branch)
        return
    async with asyncio.TaskGroup() as group:
        for branch in pending:
            run.tasks[branch.key] = group.create_task(_run_branch(run, branch))


async def _run_branch(run: _Block, branch: Branch) -> None:
    try:
        async with run.limit:
            await _walk_branch(run, branch)
    except asyncio.CancelledError:
        if run.decided:
            branch.canceled = True
            _tell_end(run, branch)
        raise


async def _walk_branch(run: _Block, branch: Branch) -> None:
    scope, call, frame = run.scope, run.call, branch.frame
    try:
        frame.workspace = await run.frame.workspace.fork(run.block.ordinal, run.node.id, branch.key)
    except ArcError as error:
        branch.started = True
        frame.fail(f"no workspace for branch `{branch.key}`: {error.message}")
        _tell_end(run, branch)
        run.judge()
        return
    if branch.base is None:
        branch.base = frame.commit = frame.workspace.commit
    branch.ref, branch.started = frame.workspace.ref, True
    scope.emit(BRANCH_STARTED, call.path, call.ordinal, branch=branch.key, target=branch.target, ref=branch.ref)
    try:
        await walk(scope, frame)
        _tell_end(run, branch)
        run.judge()
    finally:
        await _close(run, branch)


async def _set_aside(run: _Block, branch: Branch) -> None:
    if branch.started:
        branch.frame.workspace = await run.frame.workspace.fork(run.block.ordinal, run.node.id, branch.key)
        await _close(run, branch)
    branch.canceled = True
    _tell_end(run, branch)


async def _close(run: _Block, branch: Branch) -> None:
    """Close the branch's workspace; trouble there is told but loses nothing: the branch's ref is kept."""
    try:
        await uninterrupted(branch.frame.workspace.close())
    except ArcError as error:
        message = f"the workspace of branch `{branch.key}` could not be closed: {error.message}"
        run.scope.notice("warning", "branch_close", message, run.call.path, run.call.ordinal)


def _tell_end(run: _Block, branch: Branch) -> None:
    end = branch.frame.end()
    reason = end.reason if end is not None and not branch.canceled else ""
    commit = branch.frame.workspace.commit if branch.ref is not None else None
    run.scope.emit(BRANCH_COMPLETED, run.call.path, run.call.ordinal, branch=branch.key, status=branch.status, commit=commit, reason=reason)


async def _conclude(run: _Block) -> Outcome:
    """The block's outcome, with the results of its branches; merged here if no fan-in does it."""
    node, branches = run.node, run.block.branches
    verdict = judge(node.join_policy, node.error_policy, [branch.status for branch in branches])
    assert verdict is not None, "every branch has ended"
    by_status = {
        name: [branch.key for branch in branches if branch.status in statuses]
        for name, statuses in (("succeeded", ("success", "partial_success")), ("failed", ("fail",)), ("canceled", ("canceled",)))
    }
    ended: dict[str, JsonValue] = {name: [*keys] for name, keys in by_status.items()}
    run.scope.emit(PARALLEL_COMPLETED, run.call.path, run.call.ordinal, status=verdict.status, **ended)
    results: list[JsonValue] = [_result(run, branch) for branch in branches]
    updates: JsonObject = {
        "parallel.results": results,
        f"parallel.{node.id}.results": results,
        "parallel.failed": [*by_status["failed"]],
    }
    if verdict.status == "fail":
        reasons = "; ".join(f"`{branch.key}`: {end.reason}" for branch in branches if (end := branch.frame.end()) and end.reason)
        outcome = failed(verdict.reason + (f" ({reasons})" if reasons else ""))
        return replace(outcome, context_updates=updates)
    outcome = Outcome(verdict.status, notes=verdict.reason, context_updates=updates)
    owns_fan_in = run.join is not None and run.join not in run.frame.stops and run.frame.graph.nodes[run.join].type == "parallel.fan_in"
    if owns_fan_in:
        return outcome
    merged = await merge_results(run.scope, run.frame, run.call, results)
    status = outcome.status if merged.status == "success" else merged.status
    return replace(merged, status=status, notes=outcome.notes or merged.notes, context_updates={**updates, **merged.context_updates})


def _result(run: _Block, branch: Branch) -> JsonObject:
    changes = differences(run.frame.context, branch.frame.context)
    end = branch.frame.end()
    located = branch.ref is not None and branch.started
    return {
        "id": branch.key,
        "target": branch.target,
        "status": branch.status,
        "reason": end.reason if end is not None and not branch.canceled else "",
        "nodes": [*branch.frame.completed],
        "outputs": {key: value for key, value in changes.items() if key.startswith(OUTPUTS)},
        "context_updates": {key: value for key, value in changes.items() if not key.startswith(OUTPUTS)},
        "ref": branch.ref if located else None,
        "commit": branch.frame.commit if located else None,
        "base": branch.base if located else None,
    }
