"""One execution of one node: log, hooks, fidelity, attempts with their timeout and retries, and the outcome that comes of it.

Nothing here moves the walk or touches the frame; `Scope.checkpoint` records what is returned.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from dataclasses import dataclass, replace

from arc.base.clock import rfc3339
from arc.base.errors import ArcError, CorruptError
from arc.base.json import JsonObject, decode, encode_line
from arc.sandbox.protocol import Sandbox
from arc.workflow.engine.doors import NodeCall, NodeLog
from arc.workflow.engine.event_names import NODE_COMPLETED, NODE_FAILED, NODE_RETRYING, NODE_STARTED
from arc.workflow.engine.fidelity import build_preamble, choose_fidelity, choose_thread
from arc.workflow.engine.frame import Execution, Frame, copy_object, failed
from arc.workflow.engine.retry import RetryPolicy, is_retried, policy_of
from arc.workflow.engine.scope import Scope
from arc.workflow.failures import classify_exception, signature
from arc.workflow.model import Fidelity, Node
from arc.workflow.outcome import Failure, Outcome

NO_PREAMBLE = frozenset({"start", "exit", "conditional", "command", "human", "wait", "parallel", "parallel.fan_in", "stack.manager_loop"})
"""Node types that read no preamble; for all others (agents, prompts, users' own types) it is built."""

KNOWN_WAITS = frozenset({"wait"})
"""Node types whose whole point is to last: the watchdog is paused."""

OWN_TIMEOUT = frozenset({"human"})
"""Node types for which `timeout` is not a failure but part of what they do (the default choice)."""


SELF_TIMED = frozenset({"command", "agent", "prompt"})
"""Node types whose handlers end their processes at the timeout themselves and keep the output; the engine steps in only if they do not."""

SELF_TIMED_GRACE = 15.0
"""Seconds that those handlers have beyond the timeout, for ending a process group politely."""


@dataclass(frozen=True)
class _Stage:
    """What stays the same over the attempts of one execution."""

    scope: Scope
    frame: Frame
    node: Node
    path: str
    ordinal: int
    visit: int
    fidelity: Fidelity
    thread: str
    log: NodeLog
    began: float


async def execute(scope: Scope, frame: Frame, node: Node) -> Execution:
    """Execute the node that the frame stands before. Never raises for a node's failure; cancellation and failures of the run's own
    storage pass."""
    opened = frame.opened
    goes_on = opened is not None and opened.node_id == node.id
    ordinal = (opened.execution or opened.ordinal) if opened is not None and goes_on else scope.take_ordinal()
    path, visit = frame.path(node.id), frame.visit(node.id)
    workflow = frame.graph.workflow
    thread = choose_thread(frame.incoming, node, workflow, frame.current)
    lost = frame.resumed and node.type not in NO_PREAMBLE and not frame.threads.history(thread)
    fidelity = choose_fidelity(frame.incoming, node, workflow, previous_lost=lost or not frame.fresh)
    stage = _Stage(
        scope,
        frame,
        node,
        path,
        ordinal,
        visit,
        fidelity,
        thread,
        scope.services.logs.open(ordinal, path),
        scope.services.clock.monotonic(),
    )
    scope.emit(NODE_STARTED, path, ordinal, type=node.type, label=node.label, visit=visit, fidelity=fidelity, thread=thread)
    started_at = rfc3339(scope.services.clock.now())
    record: JsonObject = {"node": path, "ordinal": ordinal, "visit": visit, "status": "running", "started_at": started_at}
    try:
        stage.log.status(record)
        outcome, attempts = await _run_with_hooks(stage)
        outcome = _finish(stage, outcome)
        stage.log.status({**record, **_summary(outcome, attempts)})
    except asyncio.CancelledError:
        stage.log.status({**record, "status": "canceled", "duration_ms": _elapsed_ms(stage)})
        raise
    finally:
        stage.log.close()
    _tell(stage, outcome, attempts)
    return Execution(ordinal, attempts, outcome, fidelity)


async def _run_with_hooks(stage: _Stage) -> tuple[Outcome, int]:
    """The hooks around the attempts; a hook's own failure fails the node."""
    hooks, node = stage.scope.services.hooks, stage.node
    try:
        sandbox = await stage.frame.workspace.sandbox()
        verdict = await hooks.before_node(node, stage.path, stage.ordinal, sandbox, _context(stage, 1))
    except Exception as error:  # noqa: BLE001 - the node runner turns everything into an outcome
        return _raised(stage, error), 1
    if verdict.decision == "skip":
        return Outcome("skipped", notes=verdict.reason), 1
    if verdict.decision == "block":
        return failed(verdict.reason or "blocked by a `before_node` hook"), 1
    outcome, attempts = await _attempts(stage, sandbox)
    try:
        await hooks.after_node(node, stage.path, stage.ordinal, sandbox, outcome)
    except Exception as error:  # noqa: BLE001 - as above
        return _raised(stage, error), attempts
    return outcome, attempts


async def _attempts(stage: _Stage, sandbox: Sandbox) -> tuple[Outcome, int]:
    """Attempt until it succeeds, must not be retried, or the policy's attempts are used up."""
    scope, node = stage.scope, stage.node
    is_block = node.type in scope.blocks
    policy = RetryPolicy(1) if is_block else policy_of(node, stage.frame.graph.workflow)  # the nodes inside a block retry, not the block
    jitter = random.Random(f"{scope.services.seed}:{stage.ordinal}:retry")
    attempt = 1
    while True:
        outcome = await _attempt(stage, sandbox, attempt)
        if not is_retried(node, outcome):
            return outcome, attempt
        if attempt >= policy.attempts:
            return _exhausted(node, outcome, attempt), attempt
        delay = policy.delay(attempt, jitter)
        failure = outcome.failure or Failure("the node asked for a retry")
        scope.emit(
            NODE_RETRYING,
            stage.path,
            stage.ordinal,
            attempt=attempt,
            of=policy.attempts,
            delay_ms=int(delay * 1000),
            message=failure.message,
            failure_class=failure.failure_class,
        )
        with scope.activity.paused():
            await scope.services.clock.sleep(delay)
        attempt += 1


async def _attempt(stage: _Stage, sandbox: Sandbox, attempt: int) -> Outcome:
    """One call of the handler, within the node's timeout."""
    limit = None if stage.node.timeout_ms is None or stage.node.type in OWN_TIMEOUT else stage.node.timeout_ms / 1000
    if limit is not None and stage.node.type in SELF_TIMED:
        limit += SELF_TIMED_GRACE
    try:
        async with asyncio.timeout(limit) as timer:
            if stage.node.type in KNOWN_WAITS:
                with stage.scope.activity.paused():
                    outcome = await _call(stage, sandbox, attempt)
            else:
                outcome = await _call(stage, sandbox, attempt)
    except TimeoutError as error:
        if timer.expired():
            return failed(f"node `{stage.path}` did not end within its timeout of {stage.node.timeout_ms} ms", "transient_infra")
        return _raised(stage, error)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody cancelled this walk: something that the handler awaited was, and a silent end here would look like one of the walk.
        return failed(f"the handler of node `{stage.path}` raised CancelledError although the run was not cancelled", "structural")
    except SystemExit as error:
        return failed(f"the handler of node `{stage.path}` called sys.exit({error.code!r})", "structural")
    except Exception as error:  # noqa: BLE001 - the node runner turns everything into an outcome
        return _raised(stage, error)
    if not isinstance(outcome, Outcome):
        return failed(f"the handler of node `{stage.path}` returned {type(outcome).__name__} instead of an Outcome", "structural")
    try:
        decode(encode_line(outcome), Outcome, f"the outcome of node `{stage.path}`")
    except (CorruptError, TypeError, ValueError, OverflowError, RecursionError) as error:
        # Found out here, because a state that holds it could not be written or not be read again.
        return failed(f"the handler of node `{stage.path}` returned an Outcome that no checkpoint can hold: {error}", "structural")
    return outcome


async def _call(stage: _Stage, sandbox: Sandbox, attempt: int) -> Outcome:
    scope, frame, node = stage.scope, stage.frame, stage.node
    preamble = ""
    if node.type not in NO_PREAMBLE:
        completed, outcomes = frame.history()
        preamble = build_preamble(
            stage.fidelity, workflow=frame.graph.workflow, completed=completed, outcomes=outcomes, context=frame.context
        )
    call = NodeCall(
        node=node,
        path=stage.path,
        ordinal=stage.ordinal,
        visit=stage.visit,
        attempt=attempt,
        workflow=frame.graph.workflow,
        context=_context(stage, attempt),
        preamble=preamble,
        thread=stage.thread,
        workspace=frame.workspace,
        sandbox=sandbox,
        log=stage.log,
        services=scope.services,
        threads=frame.threads,
    )
    block = scope.blocks.get(node.type)
    return await (block(scope, frame, node, call) if block else scope.handlers.get(node.type).run(call))


def _context(stage: _Stage, attempt: int) -> JsonObject:
    """The handler's own copy of the context, with what only this process knows (the work directory never enters a checkpoint)."""
    context = copy_object(stage.frame.context)
    context["internal.run_id"] = stage.scope.services.run_id
    context["internal.work_dir"] = str(stage.frame.workspace.directory)
    context["internal.fidelity"] = stage.fidelity
    context["internal.thread_id"] = stage.thread
    context["internal.node_visit_count"] = stage.visit
    context[f"internal.retry_count.{stage.node.id}"] = attempt - 1
    return context


def _exhausted(node: Node, outcome: Outcome, attempts: int) -> Outcome:
    """What an outcome that would be retried comes to when no attempt is left."""
    if node.allow_partial:
        notes = f"accepted as partial success after {attempts} attempts (`allow_partial`)"
        return replace(outcome, status="partial_success", notes=_join_notes(outcome.notes, notes))
    if outcome.status == "retry":
        said = outcome.failure or Failure(f"node `{node.id}` asked for a retry in each of its {attempts} attempts")
        return replace(outcome, status="fail", failure=said)
    return outcome


def _finish(stage: _Stage, outcome: Outcome) -> Outcome:
    """Apply `auto_status`, give a failure its signature, set the duration."""
    node = stage.node
    if outcome.status == "fail" and node.auto_status:
        said = outcome.failure.message if outcome.failure else "it failed"
        outcome = replace(
            outcome, status="success", notes=_join_notes(outcome.notes, f"success by `auto_status` although: {said}"), failure=None
        )
    if outcome.status == "fail":
        failure = outcome.failure or Failure(f"node `{stage.path}` failed")
        outcome = replace(outcome, failure=replace(failure, failure_signature=signature(node.id, failure)))
    return replace(outcome, duration_ms=_elapsed_ms(stage))


def _raised(stage: _Stage, error: Exception) -> Outcome:
    """The outcome of an exception; what arc does not know is a structural failure, its traceback is in the node's log."""
    if isinstance(error, ArcError):
        return Outcome("fail", failure=classify_exception(error))
    stage.log.output("stderr", "".join(traceback.format_exception(error)).encode())
    return failed(f"node `{stage.path}` raised {type(error).__name__}: {error}", "structural")


def _summary(outcome: Outcome, attempts: int) -> JsonObject:
    failure: JsonObject | None = None
    if outcome.failure is not None:
        failure = {
            "message": outcome.failure.message,
            "failure_class": outcome.failure.failure_class,
            "failure_signature": outcome.failure.failure_signature,
        }
    return {
        "status": outcome.status,
        "attempts": attempts,
        "duration_ms": outcome.duration_ms,
        "preferred_label": outcome.preferred_label,
        "notes": outcome.notes,
        "failure": failure,
    }


def _tell(stage: _Stage, outcome: Outcome, attempts: int) -> None:
    scope, common = stage.scope, {"visit": stage.visit, "attempts": attempts, "duration_ms": outcome.duration_ms}
    if outcome.status == "fail" and outcome.failure is not None:
        failure = outcome.failure
        scope.emit(
            NODE_FAILED,
            stage.path,
            stage.ordinal,
            message=failure.message,
            failure_class=failure.failure_class,
            failure_signature=failure.failure_signature,
            **common,
        )
        return
    usage = outcome.usage
    scope.emit(
        NODE_COMPLETED,
        stage.path,
        stage.ordinal,
        status=outcome.status,
        preferred_label=outcome.preferred_label,
        usage=None
        if usage is None
        else {"model": usage.model, "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost": usage.cost},
        **common,
    )


def _elapsed_ms(stage: _Stage) -> int:
    return int((stage.scope.services.clock.monotonic() - stage.began) * 1000)


def _join_notes(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
