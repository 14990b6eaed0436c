"""The `human` node: asks a person to choose an outgoing edge.

An answer that matches no choice is asked again; it never counts as the first one. `timeout` is this node's own affair: when nobody
answers in time, `human.default_choice` is taken, and without one the node fails. (The engine sets no timeout around it.)
"""

from __future__ import annotations

import asyncio

from arc.base.json import JsonObject
from arc.workflow.engine.doors import Answer, Choice, Interviewer, NodeCall, Question
from arc.workflow.failures import HandlerError
from arc.workflow.handlers.choices import Gate, gate_of
from arc.workflow.handlers.event_names import HUMAN_ANSWERED, HUMAN_ASKED, HUMAN_REJECTED, HUMAN_TIMEOUT
from arc.workflow.handlers.interviewers import AutoApprove
from arc.workflow.outcome import Failure, Outcome

PATIENT_SOURCES = frozenset({"console", "file"})
"""Doors with a person behind them: asked again as often as it takes."""

TRIES = 3
"""Answers that any other door may give before the node fails."""


class HumanHandler:
    """Handler of `human` nodes; a dry run takes the first choice."""

    async def run(self, call: NodeCall) -> Outcome:
        gate = gate_of(call.workflow, call.node, call.context)
        if not gate.choices and gate.freeform is None:
            raise HandlerError(f"the human node `{call.node.id}` has no outgoing edge to choose", failure_class="structural")
        default = _default(call, gate)
        question = Question(
            id=str(call.ordinal),
            node=call.path,
            text=call.node.prompt or call.node.label or call.node.id,
            choices=gate.choices,
            freeform=gate.freeform is not None,
            default=None if default is None else default.label,
            timeout=None if call.node.timeout_ms is None else call.node.timeout_ms / 1000,
        )
        call.emit(HUMAN_ASKED, _shown(question, call.node.timeout_ms))
        interviewer: Interviewer = AutoApprove() if call.services.dry_run else call.services.interviewer
        try:
            async with asyncio.timeout(question.timeout) as timer:
                return await _ask(call, gate, question, interviewer)
        except TimeoutError:
            if not timer.expired():
                raise
        return _timed_out(call, default)


async def _ask(call: NodeCall, gate: Gate, question: Question, interviewer: Interviewer) -> Outcome:
    """Ask until an answer can be used."""
    tries = 0
    while True:
        answer = await interviewer.ask(question)
        text = answer.text.strip()
        choice = gate.find(text)
        if choice is not None:
            return _taken(call, choice, answer)
        if gate.freeform is not None and text:
            chosen = Choice("freeform", gate.freeform.label, gate.freeform.target)
            return _taken(call, chosen, answer)
        reason = f"`{text}` is none of: {gate.labels()}" if text else f"an empty answer is none of: {gate.labels() or 'any text'}"
        call.emit(HUMAN_REJECTED, {"text": answer.text, "source": answer.source, "reason": reason})
        interviewer.reject(question, answer, reason)
        tries += 1
        if answer.source not in PATIENT_SOURCES and tries >= TRIES:
            raise HandlerError(f"no usable answer after {tries} tries: {reason}")


def _default(call: NodeCall, gate: Gate) -> Choice | None:
    wanted = call.node.human_default_choice
    if wanted is None:
        return None
    choice = gate.find(wanted)
    if choice is None:
        raise HandlerError(
            f"`human.default_choice` of `{call.node.id}` is `{wanted}`, which is none of: {gate.labels()}", failure_class="structural"
        )
    return choice


def _taken(call: NodeCall, choice: Choice, answer: Answer) -> Outcome:
    call.emit(HUMAN_ANSWERED, {"text": answer.text, "source": answer.source, "label": choice.label, "target": choice.target})
    return _chosen(call, choice, answer.text.strip(), f"answered by {answer.source}")


def _chosen(call: NodeCall, choice: Choice, text: str, notes: str) -> Outcome:
    updates: JsonObject = {
        "human.gate.selected": choice.key,
        "human.gate.label": choice.label,
        "human.gate.text": text,
        f"response.{call.node.id}": text if choice.key == "freeform" else choice.label,
    }
    return Outcome(
        "success", preferred_label=choice.label or None, suggested_next_ids=(choice.target,), context_updates=updates, notes=notes
    )


def _timed_out(call: NodeCall, default: Choice | None) -> Outcome:
    call.emit(HUMAN_TIMEOUT, {"default": None if default is None else default.label})
    if default is not None:
        return _chosen(call, default, "", "nobody answered in time; the default choice was taken")
    seconds = (call.node.timeout_ms or 0) / 1000
    return Outcome("fail", failure=Failure(f"nobody answered within {seconds:g} s and there is no `human.default_choice`", "deterministic"))


def _shown(question: Question, timeout_ms: int | None) -> JsonObject:
    return {
        "question": question.text,
        "choices": [{"key": choice.key, "label": choice.label, "target": choice.target} for choice in question.choices],
        "freeform": question.freeform,
        "default": question.default,
        "timeout_ms": timeout_ms,
    }
