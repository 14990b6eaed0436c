"""Fan-in: the branches' files merged by the workspace, their context changes merged in declared order.

Merged are the branches of the block that joins here and that succeeded. A branch in conflict is an outcome, not an error: status fail,
preferred label `conflict`, context `parallel.conflict` = true and `parallel.conflicts` = list of `branch`, `ref`, `paths`; nothing of
that branch is merged, its ref holds all of it. Of context keys that several branches set, the later branch's value stays; the keys are
named in `parallel.overwritten`.

A fan-in with a `prompt` asks the model which branches to merge: the prompt node's handler gets the prompt and the results, its answer's
preferred label or suggested ids name branches (by id or target).
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from arc.base.json import JsonObject, JsonValue
from arc.workflow.engine.doors import NodeCall
from arc.workflow.engine.event_names import FAN_IN_CONFLICT, FAN_IN_MERGED
from arc.workflow.engine.frame import Frame, failed
from arc.workflow.engine.joins import join_of
from arc.workflow.engine.scope import Scope
from arc.workflow.model import Node
from arc.workflow.outcome import Outcome
from arc.workspace.protocol import MergeInput, MergeReport

SUCCEEDED = ("success", "partial_success")


async def run_fan_in(scope: Scope, frame: Frame, node: Node, call: NodeCall) -> Outcome:
    """Merge the branches of the block that was completed last among those that join here."""
    block = next((name for name in reversed(frame.completed) if _joins_at(frame, name, node.id)), None)
    results = frame.context.get(f"parallel.{block}.results") if block is not None else None
    if not isinstance(results, list):
        return Outcome("success", notes="no parallel block ended here; nothing to merge")
    chosen = results
    if node.prompt:
        picked = await _ask(scope, node, call, results)
        if isinstance(picked, Outcome):
            return picked
        chosen = picked
    outcome = await merge_results(scope, frame, call, chosen)
    partial = block is not None and frame.outcomes[block].status == "partial_success"
    if partial and outcome.status == "success":
        return replace(outcome, status="partial_success", notes=frame.outcomes[block].notes if block else "")
    return outcome


async def merge_results(scope: Scope, frame: Frame, call: NodeCall, results: list[JsonValue]) -> Outcome:
    """Merge files and context changes of the succeeded branches among `results`, in that order."""
    succeeded = [result for result in results if isinstance(result, dict) and result.get("status") in SUCCEEDED]
    inputs = [found for result in succeeded if (found := _merge_input(result)) is not None] if frame.workspace.isolated else []
    report = await frame.workspace.merge(inputs) if inputs else MergeReport((), ())
    in_conflict = {conflict.key for conflict in report.conflicts}
    merged = [str(result["id"]) for result in succeeded if result["id"] not in in_conflict]
    updates: JsonObject = {}
    overwritten: set[str] = set()
    for result in succeeded:
        if result["id"] in in_conflict:
            continue
        for part in ("outputs", "context_updates"):
            changes = result.get(part)
            if isinstance(changes, dict):
                overwritten |= updates.keys() & changes.keys()
                updates.update(changes)
    conflicts: list[JsonValue] = [{"branch": c.key, "ref": c.ref, "paths": [*c.paths]} for c in report.conflicts]
    updates["parallel.merged"] = [*merged]
    updates["parallel.overwritten"] = [*sorted(overwritten)]
    updates["parallel.conflict"] = bool(conflicts)
    updates["parallel.conflicts"] = conflicts
    scope.emit(FAN_IN_MERGED, call.path, call.ordinal, merged=[*merged], overwritten=[*sorted(overwritten)])
    for conflict in report.conflicts:
        scope.emit(FAN_IN_CONFLICT, call.path, call.ordinal, branch=conflict.key, ref=conflict.ref, paths=[*conflict.paths])
    if not conflicts:
        return Outcome("success", context_updates=updates)
    said = "; ".join(f"branch `{c.key}` (kept at `{c.ref}`) in {', '.join(f'`{path}`' for path in c.paths)}" for c in report.conflicts)
    return replace(failed(f"merge conflict: {said}"), preferred_label="conflict", context_updates=updates)


def _joins_at(frame: Frame, name: str, fan_in: str) -> bool:
    node = frame.graph.nodes.get(name)
    return node is not None and node.type == "parallel" and join_of(frame.graph, name) == fan_in


def _merge_input(result: JsonObject) -> MergeInput | None:
    ref, commit, base = result.get("ref"), result.get("commit"), result.get("base")
    if not (isinstance(ref, str) and isinstance(commit, str) and isinstance(base, str)) or commit == base:
        return None
    return MergeInput(str(result["id"]), ref, commit, base)


async def _ask(scope: Scope, node: Node, call: NodeCall, results: list[JsonValue]) -> list[JsonValue] | Outcome:
    """The results that the model names; an outcome if it failed or named none."""
    shown = msgspec.json.format(msgspec.json.encode(results), indent=1).decode()
    asking = replace(node, type="prompt", prompt=f"{node.prompt}\n\nThe branches' results:\n{shown}")
    answer = await scope.handlers.get("prompt").run(replace(call, node=asking))
    if not answer.succeeded:
        return answer
    named = {answer.preferred_label, *answer.suggested_next_ids}
    picked = [result for result in results if isinstance(result, dict) and (result["id"] in named or result["target"] in named)]
    if not picked:
        ids = ", ".join(f"`{result['id']}`" for result in results if isinstance(result, dict))
        return failed(f"the answer to the prompt of `{node.id}` names no branch (preferred label or suggested ids): {ids}")
    return [*picked]
