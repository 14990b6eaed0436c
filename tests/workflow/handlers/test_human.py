"""Human gates: choices from edges, answers that match, answers that do not, and nobody there."""

from __future__ import annotations

import asyncio

import pytest

from arc.workflow.engine.doors import Answer, Question
from arc.workflow.failures import HandlerError, InterviewError
from arc.workflow.handlers.choices import gate_of, split_label
from arc.workflow.handlers.interviewers import AutoApprove, FirstOf, QueueInterviewer
from tests.workflow.handlers.support import Bench, workflow

GATE = """
start -> n
n [shape=hexagon, label="Ship it?"]
n -> ship [label="[A] Approve"]
n -> fix [label="R) Request changes"]
n -> exit [label="S - Stop"]
ship -> exit
fix -> exit
"""
FREE = GATE + 'n -> fix [label="Something else", freeform=true]'


class Nobody:
    """Never answers."""

    async def ask(self, question: Question) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    def reject(self, question: Question, answer: Answer, reason: str) -> None: ...


class Broken(Nobody):
    """Nobody can be asked through this door."""

    async def ask(self, question: Question) -> Answer:
        raise InterviewError("no terminal")


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("[A] Approve", ("A", "Approve")),
        ("r) Reject", ("R", "Reject")),
        ("S - Stop", ("S", "Stop")),
        ("Approve - now", (None, "Approve - now")),
        ("e-mail it", (None, "e-mail it")),
        ("[]", (None, "[]")),
        ("[A]", (None, "[A]")),
    ],
)
def test_accelerators(label: str, expected: tuple[str | None, str]) -> None:
    assert split_label(label) == expected


def test_choices_have_different_keys() -> None:
    text = 'start -> n\n n [shape=hexagon]\n n -> a [label="Same"]\n n -> b [label="Some"]\n n -> c [label="[S] Third"]\n n -> d\n'
    flow = workflow(text + 'a -> exit b -> exit c -> exit d -> exit d [label="Say"]')
    gate = gate_of(flow, flow.nodes["n"], {})
    assert [(choice.key, choice.label, choice.target) for choice in gate.choices] == [
        ("A", "Same", "a"),
        ("O", "Some", "b"),
        ("S", "Third", "c"),
        ("Y", "Say", "d"),
    ]


def test_an_edge_whose_condition_would_stay_false_is_no_choice() -> None:
    text = """start -> n  n [shape=hexagon]
    n -> a [label="Yes", condition="preferred_label=Yes"]
    n -> b [label="Failed", condition="outcome=fail"]
    n -> exit [label="No"]
    a -> exit b -> exit"""
    flow = workflow(text)
    assert [choice.label for choice in gate_of(flow, flow.nodes["n"], {}).choices] == ["Yes", "No"]


@pytest.mark.parametrize("answer", ["a", " A ", "approve", "Approve", "[A] Approve", "ship", "A) approve"])
def test_an_answer_by_key_label_or_target(bench: Bench, answer: str) -> None:
    bench.interviewer = QueueInterviewer([answer])
    outcome = bench.run(GATE)
    assert (outcome.status, outcome.preferred_label, outcome.suggested_next_ids) == ("success", "Approve", ("ship",))
    assert outcome.context_updates["human.gate.selected"] == "A"
    assert outcome.context_updates["human.gate.label"] == "Approve"
    assert outcome.context_updates["human.gate.text"] == answer.strip()


def test_the_question(bench: Bench) -> None:
    bench.interviewer = queue = QueueInterviewer(["r"])
    bench.run(GATE)
    (question,) = queue.asked
    assert (question.id, question.node, question.text, question.freeform, question.default) == ("7", "n", "Ship it?", False, None)
    assert [event.name for event in bench.events] == ["human.asked", "human.answered"]


def test_an_unmatched_answer_asks_again(bench: Bench) -> None:
    bench.interviewer = queue = QueueInterviewer(["perhaps", "", "stop"])
    outcome = bench.run(GATE)
    assert outcome.suggested_next_ids == ("exit",)
    assert [reason for _, reason in queue.rejected] == [
        "`perhaps` is none of: [A] Approve, [R] Request changes, [S] Stop",
        "an empty answer is none of: [A] Approve, [R] Request changes, [S] Stop",
    ]
    assert len(bench.named("human.rejected")) == 2


def test_unmatched_answers_never_pick_the_first_choice(bench: Bench) -> None:
    bench.interviewer = QueueInterviewer(["x"] * 10)
    with pytest.raises(HandlerError, match="no usable answer after 3 tries"):
        bench.run(GATE)


def test_any_other_text_takes_the_freeform_edge(bench: Bench) -> None:
    bench.interviewer = QueueInterviewer(["make it blue"])
    outcome = bench.run(FREE)
    assert outcome.suggested_next_ids == ("fix",)
    assert outcome.preferred_label == "Something else"
    assert outcome.context_updates["human.gate.text"] == "make it blue"
    assert outcome.context_updates["human.gate.selected"] == "freeform"


def test_a_matching_answer_is_not_freeform(bench: Bench) -> None:
    bench.interviewer = QueueInterviewer(["Approve"])
    assert bench.run(FREE).suggested_next_ids == ("ship",)


def test_timeout_takes_the_default_choice(bench: Bench) -> None:
    bench.interviewer = Nobody()
    outcome = bench.run(GATE.replace("hexagon", 'hexagon, timeout=50ms, human.default_choice="fix"'))
    assert (outcome.status, outcome.preferred_label, outcome.suggested_next_ids) == ("success", "Request changes", ("fix",))
    assert bench.named("human.timeout") == [{"default": "Request changes"}]


def test_timeout_without_a_default_fails(bench: Bench) -> None:
    bench.interviewer = Nobody()
    outcome = bench.run(GATE.replace("hexagon", "hexagon, timeout=50ms"))
    assert outcome.status == "fail"
    assert outcome.failure is not None
    assert outcome.failure.message == "nobody answered within 0.05 s and there is no `human.default_choice`"
    assert outcome.failure.failure_class == "deterministic"


def test_a_default_that_is_no_choice_fails_before_asking(bench: Bench) -> None:
    bench.interviewer = queue = QueueInterviewer(["a"])
    with pytest.raises(HandlerError, match=r"`human\.default_choice` of `n` is `later`"):
        bench.run(GATE.replace("hexagon", 'hexagon, timeout=50ms, human.default_choice="later"'))
    assert queue.asked == []


def test_nobody_to_ask_is_a_structural_failure(bench: Bench) -> None:
    bench.interviewer = FirstOf([Broken(), Broken()])
    with pytest.raises(InterviewError, match="nobody can be asked") as caught:
        bench.run(GATE)
    assert caught.value.details == ("no terminal", "no terminal")
    assert caught.value.failure_class == "structural"


def test_a_dry_run_takes_the_first_choice(bench: Bench) -> None:
    bench.dry_run = True
    assert bench.run(GATE).suggested_next_ids == ("ship",)


def test_auto_approve(bench: Bench) -> None:
    bench.interviewer = AutoApprove()
    assert bench.run(GATE).suggested_next_ids == ("ship",)


def test_the_first_door_that_answers_wins_and_the_others_are_cancelled(bench: Bench) -> None:
    cancelled: list[str] = []

    class Slow(Nobody):
        async def ask(self, question: Question) -> Answer:
            try:
                return await super().ask(question)
            finally:
                cancelled.append("slow")

    bench.interviewer = FirstOf([Slow(), Broken(), QueueInterviewer(["s"])])
    assert bench.run(GATE).suggested_next_ids == ("exit",)
    assert cancelled == ["slow"]


def test_rejections_reach_every_door() -> None:
    first, second = QueueInterviewer([]), QueueInterviewer([])
    question = Question("1", "n", "?", (), True, None, None)
    FirstOf([first, second]).reject(question, Answer("x", "queue"), "why")
    assert first.rejected == second.rejected == [(Answer("x", "queue"), "why")]
