"""`arc run answer`: answer a human gate of a run from any terminal; without an answer, show what is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from arc.base.errors import UsageError
from arc.cli import options, ui

if TYPE_CHECKING:
    from arc.runs.answers import StoredQuestion

Words = Annotated[
    list[str] | None, typer.Argument(metavar="[QUESTION] [ANSWER]", help="The question's id (not needed for the only one), and the answer")
]


def command(run: options.Run, words: Words = None) -> None:
    """Answer a question that a run is waiting on

    The answer is a choice's key or label or, where the gate takes it, any text. Without one the open questions are shown; at a
    terminal the first one is then asked.

    \b
    Examples:
      arc run answer 01JKXYZ
      arc run answer 01JKXYZ A
      arc run answer 01JKXYZ 7 "Only the parser"
    """
    from arc.runs.answers import answer_question, open_questions
    from arc.runs.store import find_run

    world = options.world()
    folder = find_run(world, run)
    waiting = open_questions(folder)
    question, answer = _meant(words or [], waiting)
    if answer is None:
        shown = [item for item in waiting if question in (None, item.id)]
        answer = _ask(folder.run_id, shown)
        if answer is None:
            return
        question = shown[0].id
    if not answer.strip():
        raise UsageError("the answer is empty")
    answered = answer_question(folder, question, answer.strip(), clock=world.clock)
    if ui.state.json:
        ui.json({"run_id": folder.run_id, "question": answered.id, "answer": answer.strip()})
        return
    ui.out(f"answered question {answered.id} of run {folder.run_id}")
    if not answered.freeform and answer.strip().lower() not in _names(answered):
        ui.warn("this matches no choice; the run will say so and ask again")


def _meant(words: list[str], waiting: Sequence[StoredQuestion]) -> tuple[str | None, str | None]:
    """(question id, answer) of the words. One word is an answer, unless it is the id of an open question and no choice of it."""
    if not words:
        return None, None
    if len(words) > 2:
        raise UsageError("an answer of several words needs quotes", hints=(f'arc run answer RUN {words[0]} "{" ".join(words[1:])}"',))
    if len(words) == 2:
        return words[0], words[1]
    (word,) = words
    ids = {item.id for item in waiting}
    if word in ids and not (len(waiting) == 1 and word.lower() in _names(waiting[0])):
        return word, None
    return None, word


def _names(question: StoredQuestion) -> set[str]:
    return {name.lower() for choice in question.choices for name in (choice.key, choice.label)}


def _ask(run_id: str, waiting: Sequence[StoredQuestion]) -> str | None:
    """Show the open questions; at a terminal, read the answer to the first."""
    if ui.state.json:
        from dataclasses import asdict

        ui.json({"run_id": run_id, "questions": [asdict(item) for item in waiting]})
        return None
    if not waiting:
        ui.out(f"run {run_id} waits for no answer")
        return None
    for item in waiting:
        show_question(item)
    if not ui.is_interactive():
        ui.hint(f"arc run answer {run_id} {waiting[0].id} ANSWER")
        return None
    return ui.ask_line(f"answer to {waiting[0].id}: ")


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
