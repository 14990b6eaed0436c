"""`arc run answer`: answer a human gate of a run from any terminal; without an answer, show what is asked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from arc.base.errors import UsageError
from arc.cli import options, ui

if TYPE_CHECKING:
    from arc.runs.answers import StoredQuestion

AnswerText = Annotated[str | None, typer.Argument(metavar="[ANSWER]", help="A key, a label or, where the gate takes it, any text")]
QuestionId = Annotated[str | None, typer.Option("--question", metavar="ID", help="Which question, if several are open")]


def command(run: options.Run, answer: AnswerText = None, question: QuestionId = None) -> None:
    """Answer a question that a run is waiting on

    Without an answer the open questions are shown; at a terminal the first one is then asked.

    \b
    Examples:
      arc run answer 01JKXYZ
      arc run answer 01JKXYZ A
      arc run answer 01JKXYZ "Only the parser" --question 7
    """
    from arc.runs.answers import answer_question, open_questions
    from arc.runs.store import find_run

    world = options.world()
    folder = find_run(world, run)
    if answer is None:
        waiting = [item for item in open_questions(folder) if question in (None, item.id)]
        if ui.state.json:
            from dataclasses import asdict

            ui.json({"run_id": folder.run_id, "questions": [asdict(item) for item in waiting]})
            return
        if not waiting:
            ui.out(f"run {folder.run_id} waits for no answer")
            return
        for item in waiting:
            show_question(item)
        if not ui.is_interactive():
            ui.hint(f"arc run answer {folder.run_id} ANSWER" + (" --question ID" if len(waiting) > 1 else ""))
            return
        question = waiting[0].id
        sys.stderr.write(f"answer to {question}: ")
        sys.stderr.flush()
        answer = sys.stdin.readline().strip()
        if not answer:
            ui.note("nothing was answered")
            return
    if not answer.strip():
        raise UsageError("the answer is empty")
    answered = answer_question(folder, question, answer.strip(), clock=world.clock)
    if ui.state.json:
        ui.json({"run_id": folder.run_id, "question": answered.id, "answer": answer.strip()})
        return
    ui.out(f"answered question {answered.id} of run {folder.run_id}")
    matches = {word.lower() for choice in answered.choices for word in (choice.key, choice.label)}
    if not answered.freeform and answer.strip().lower() not in matches:
        ui.warn("this matches no choice; the run will say so and ask again")


def show_question(question: StoredQuestion) -> None:
    """A question as `arc run answer` and `arc run show` print it."""
    first, *rest = question.text.splitlines() or [""]
    ui.out(f"{ui.style('?', 'magenta', 'bold')} {question.id}  {question.node}  {ui.style(first, 'bold')}")
    for line in rest:
        ui.out(f"  {line}")
    if question.rejected:
        ui.out(f"  {ui.style('!', 'yellow')} {question.rejected}")
    for choice in question.choices:
        default = "  (default)" if choice.label == question.default else ""
        ui.out(f"  [{ui.style(choice.key, 'bold')}] {choice.label}{default}")
    if question.freeform:
        ui.out("  or any text")
