"""Questions as files: asked, answered from another process, asked again, closed when nobody waits any more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from arc.base.clock import SystemClock
from arc.base.redact import Redactor
from arc.runs.answers import FileInterviewer, answer_question, close_stale_questions, open_questions
from arc.runs.errors import QuestionError
from arc.runs.store import RunFolder
from arc.workflow.engine.doors import Answer, Choice, Question
from tests.runs.helpers import Events

CLOCK = SystemClock()
QUESTION = Question("3", "gate", "Ship it?", (Choice("Y", "Yes", "ship"), Choice("N", "No", "stop")), False, None, None)


async def until_open(folder: RunFolder) -> None:
    async with asyncio.timeout(10):
        while not folder.open_questions():  # noqa: ASYNC110 - the file system has no event
            await asyncio.sleep(0.01)


def test_an_answer_from_elsewhere_is_taken(tmp_path: Path) -> None:
    folder, events = RunFolder(tmp_path, "01J"), Events()

    async def run() -> Answer:
        task = asyncio.create_task(FileInterviewer(folder, CLOCK, events, Redactor()).ask(QUESTION))
        await until_open(folder)
        (asked,) = open_questions(folder)
        assert (asked.text, [choice.label for choice in asked.choices]) == ("Ship it?", ["Yes", "No"])
        assert answer_question(folder, None, "yes", clock=CLOCK) == asked
        return await task

    assert asyncio.run(run()) == Answer("yes", "file")
    assert folder.open_questions() == ()
    (waiting,) = events.seen
    assert waiting.name == "human.waiting"
    assert waiting.properties["answer_with"] == "arc run answer 01J 3 ANSWER"


def test_a_rejected_answer_is_asked_again_with_the_reason(tmp_path: Path) -> None:
    folder, events = RunFolder(tmp_path, "01J"), Events()

    async def run() -> Answer:
        interviewer = FileInterviewer(folder, CLOCK, events, Redactor())
        task = asyncio.create_task(interviewer.ask(QUESTION))
        await until_open(folder)
        answer_question(folder, "3", "perhaps", clock=CLOCK)
        interviewer.reject(QUESTION, await task, "`perhaps` is no choice")
        task = asyncio.create_task(interviewer.ask(QUESTION))
        await until_open(folder)
        assert open_questions(folder)[0].rejected == "`perhaps` is no choice"
        answer_question(folder, "3", "N", clock=CLOCK)
        return await task

    assert asyncio.run(run()).text == "N"


def test_a_question_that_is_given_up_is_closed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "01J")

    async def run() -> None:
        task = asyncio.create_task(FileInterviewer(folder, CLOCK, Events(), Redactor()).ask(QUESTION))
        await until_open(folder)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert folder.open_questions() == ()
    with pytest.raises(QuestionError, match="no open question"):
        answer_question(folder, None, "yes", clock=CLOCK)


def test_of_two_answers_the_first_counts_and_ids_must_be_right(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "01J")
    folder.questions.mkdir()
    interviewer = FileInterviewer(folder, CLOCK, Events(), Redactor())

    async def ask_both() -> None:
        tasks = [
            asyncio.create_task(interviewer.ask(question)) for question in (QUESTION, Question("10", "other", "And?", (), True, None, None))
        ]
        async with asyncio.timeout(10):
            while len(folder.open_questions()) < 2:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        assert [question.id for question in open_questions(folder)] == ["3", "10"]
        with pytest.raises(QuestionError, match="2 open questions"):
            answer_question(folder, None, "x", clock=CLOCK)
        with pytest.raises(QuestionError, match="no open question `4`"):
            answer_question(folder, "4", "x", clock=CLOCK)
        answer_question(folder, "3", "yes", clock=CLOCK)
        with pytest.raises(QuestionError):
            answer_question(folder, "3", "no", clock=CLOCK)
        answer_question(folder, None, "free text", clock=CLOCK)
        assert [(await task).text for task in tasks] == ["yes", "free text"]

    asyncio.run(ask_both())


def test_stale_questions_of_a_dead_process_are_closed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "01J")
    folder.questions.mkdir()
    (folder.questions / "3.json").write_text("torn")
    assert open_questions(folder) == ()
    assert close_stale_questions(folder, CLOCK) == ("3",)
    assert folder.open_questions() == ()
