"""Questions of human gates as files: `questions/{id}.json` asks, `questions/{id}.answer.json` answers, from any terminal.

Write order: the question (atomic), then whoever answers writes the answer (atomic, only if there is none), then the asking process
takes it and both files become history. A question of a process that died is closed when the run is resumed: the node asks again
under a new ordinal.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from arc.base.atomic import make_private_directory, write_atomic
from arc.base.clock import Clock, rfc3339
from arc.base.errors import CorruptError
from arc.base.faults import declare_faults, fault
from arc.base.json import decode, encode
from arc.base.redact import Redactor
from arc.runs.errors import QuestionError
from arc.runs.redaction import redacted
from arc.runs.store import RunFolder
from arc.workflow.engine.doors import Answer, Event, EventSink, Question

_POLL_SECONDS = 0.1

declare_faults(
    {"question.asked": "a human gate's question is on the disk", "question.answered": "an answer was taken, the gate has not completed"}
)


@dataclass(frozen=True)
class StoredChoice:
    """One choice as stored: accelerator key, label, target node."""

    key: str
    label: str
    target: str


@dataclass(frozen=True)
class StoredQuestion:
    """`questions/{id}.json`. `asked_at` RFC 3339 UTC; `timeout` in seconds or null; `rejected` says why an earlier answer did not do."""

    id: str
    node: str
    text: str
    choices: tuple[StoredChoice, ...]
    freeform: bool
    default: str | None
    timeout: float | None
    asked_at: str
    rejected: str | None = None


@dataclass(frozen=True)
class StoredAnswer:
    """`questions/{id}.answer.json`. `source` is `file`, `console`, ... or `closed` for a question that nobody waits for any more."""

    text: str
    answered_at: str
    source: str = "file"


class FileInterviewer:
    """Asks through files and waits for `arc run answer` (the engine's `Interviewer`)."""

    def __init__(self, folder: RunFolder, clock: Clock, events: EventSink, redactor: Redactor) -> None:
        self._redactor = redactor
        self._folder = folder
        self._clock = clock
        self._events = events
        self._rejected: dict[str, str] = {}

    async def ask(self, question: Question) -> Answer:
        """Write the question and wait for its answer. When cancelled (another door was faster, a timeout), the question is closed."""
        asked, answered = _paths(self._folder, question.id)
        make_private_directory(self._folder.questions)
        with suppress(FileNotFoundError):
            answered.unlink()  # an answer that was rejected: the question is asked again
        stored = StoredQuestion(
            id=question.id,
            node=question.node,
            text=question.text,
            choices=tuple(StoredChoice(choice.key, choice.label, choice.target) for choice in question.choices),
            freeform=question.freeform,
            default=question.default,
            timeout=question.timeout,
            asked_at=rfc3339(self._clock.now()),
            rejected=self._rejected.pop(question.id, None),
        )
        write_atomic(asked, encode(redacted(stored, self._redactor)), durable=False)
        fault("question.asked")
        how = f"arc run answer {self._folder.run_id} {question.id} ANSWER"
        self._events.emit(
            Event(
                "human.waiting",
                question.node,
                properties={
                    "question": question.id,
                    "text": question.text,
                    "choices": [choice.label for choice in question.choices],
                    "answer_with": how,
                },
            )
        )
        try:
            while (answer := _taken(answered)) is None:
                await self._clock.sleep(_POLL_SECONDS)
        except BaseException:
            _close(answered, "the question was answered elsewhere or given up", self._clock)
            raise
        self._hide_secrets(answered, answer)
        fault("question.answered")
        return Answer(answer.text, answer.source)

    def _hide_secrets(self, path: Path, answer: StoredAnswer) -> None:
        """An answer may be a token: once taken, its file need not hold it any more."""
        stored = redacted(answer, self._redactor)
        if stored != answer:
            write_atomic(path, encode(stored), durable=False)

    def reject(self, question: Question, answer: Answer, reason: str) -> None:
        """Remember why, for the next writing of the question."""
        self._rejected[question.id] = reason


def open_questions(folder: RunFolder) -> tuple[StoredQuestion, ...]:
    """Questions without an answer, oldest first; one that cannot be read is left out."""
    questions = []
    for question_id in folder.open_questions():
        path = _paths(folder, question_id)[0]
        with suppress(CorruptError, FileNotFoundError):
            questions.append(decode(path.read_bytes(), StoredQuestion, path))
    return tuple(questions)


def answer_question(folder: RunFolder, question_id: str | None, text: str, *, clock: Clock) -> StoredQuestion:
    """Answer an open question (None = the only one). Of two answers the first counts.

    An answer that matches no choice is written all the same: the gate says so and asks again.

    Raises:
        QuestionError: no such open question, several and none named, or it was answered in this moment.
    """
    questions = {question.id: question for question in open_questions(folder)}
    if not questions:
        raise QuestionError(f"run {folder.run_id} has no open question", hints=(f"arc run show {folder.run_id}",))
    if question_id is None and len(questions) > 1:
        raise QuestionError(
            f"run {folder.run_id} has {len(questions)} open questions: name one",
            details=tuple(f"{question.id}: {question.text}" for question in questions.values()),
            hints=(f"arc run answer {folder.run_id} {next(iter(questions))} ANSWER",),
        )
    chosen = next(iter(questions)) if question_id is None else question_id
    if chosen not in questions:
        raise QuestionError(f"run {folder.run_id} has no open question `{chosen}`", hints=(f"open: {', '.join(questions)}",))
    if not _write_once(_paths(folder, chosen)[1], encode(StoredAnswer(text, rfc3339(clock.now())))):
        raise QuestionError(f"question `{chosen}` of run {folder.run_id} was answered just now")
    return questions[chosen]


def close_stale_questions(folder: RunFolder, clock: Clock) -> tuple[str, ...]:
    """Close what a process that died had asked (the caller holds the lease). Returns the ids."""
    stale = folder.open_questions()
    for question_id in stale:
        _close(_paths(folder, question_id)[1], "the process that asked has died", clock)
    return stale


def _paths(folder: RunFolder, question_id: str) -> tuple[Path, Path]:
    return folder.questions / f"{question_id}.json", folder.questions / f"{question_id}.answer.json"


def _taken(path: Path) -> StoredAnswer | None:
    try:
        return decode(path.read_bytes(), StoredAnswer, path)
    except FileNotFoundError:
        return None


def _close(path: Path, reason: str, clock: Clock) -> None:
    with suppress(OSError):
        _write_once(path, encode(StoredAnswer(reason, rfc3339(clock.now()), "closed")))


def _write_once(path: Path, data: bytes) -> bool:
    """Write `path` whole unless it exists; whether this call wrote it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.arc-tmp")
    write_atomic(temporary, data, durable=False)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    return True
