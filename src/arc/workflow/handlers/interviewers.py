"""Interviewers that need no terminal: the first choice always, a prepared list of answers, and several doors at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from arc.workflow.engine.doors import Answer, Interviewer, Question
from arc.workflow.failures import InterviewError

__all__ = ["AutoApprove", "FirstOf", "InterviewError", "QueueInterviewer"]


class AutoApprove:
    """Answers every question with its first choice (`--auto-approve`, and dry runs)."""

    async def ask(self, question: Question) -> Answer:
        return Answer(question.choices[0].key if question.choices else "approved", "auto")

    def reject(self, question: Question, answer: Answer, reason: str) -> None:
        """Nobody to tell."""


class QueueInterviewer:
    """Gives prepared answers one after the other. `asked` and `rejected` tell a test what happened."""

    def __init__(self, answers: Iterable[str]) -> None:
        self._answers = deque(answers)
        self.asked: list[Question] = []
        self.rejected: list[tuple[Answer, str]] = []

    async def ask(self, question: Question) -> Answer:
        """The next answer.

        Raises:
            InterviewError: there is none left.
        """
        self.asked.append(question)
        if not self._answers:
            raise InterviewError(f"no prepared answer is left for the question of `{question.node}`")
        return Answer(self._answers.popleft(), "queue")

    def reject(self, question: Question, answer: Answer, reason: str) -> None:
        self.rejected.append((answer, reason))


class FirstOf:
    """Asks through several doors at once; the first answer counts, the other doors are cancelled and waited for."""

    def __init__(self, interviewers: Sequence[Interviewer]) -> None:
        self._interviewers = tuple(interviewers)

    async def ask(self, question: Question) -> Answer:
        """The first answer of any door; of several at the same moment, that of the door named first.

        Raises:
            InterviewError: no door can ask anybody.
        """
        tasks = [asyncio.create_task(interviewer.ask(question)) for interviewer in self._interviewers]
        pending = set(tasks)
        reasons: list[str] = []
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in (task for task in tasks if task in done):
                    try:
                        return task.result()
                    except InterviewError as error:
                        reasons.append(error.message)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        raise InterviewError(f"nobody can be asked the question of `{question.node}`", details=tuple(reasons))

    def reject(self, question: Question, answer: Answer, reason: str) -> None:
        for interviewer in self._interviewers:
            interviewer.reject(question, answer, reason)
