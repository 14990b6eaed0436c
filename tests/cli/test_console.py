"""The terminal's interviewer on a real pseudo-terminal: answers, re-asking, cancelling, the end of input."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from arc.cli.console import Console
from arc.workflow.engine.doors import Answer, Choice, Question
from tests.cli.conftest import Screen


class _NoProgress:
    def suspended(self) -> AbstractContextManager[None]:
        return nullcontext()


QUESTION = Question(
    "7", "review", "Ship it?\nThe tests pass.", (Choice("A", "Approve", "ship"), Choice("R", "Reject", "fix")), True, "Approve", None
)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """(the person's end, the program's end) of a pseudo-terminal."""
    person, program = os.openpty()
    yield person, program
    os.close(person)
    os.close(program)


async def shown(screen: Screen, text: str) -> None:
    """Wait until the screen shows `text` (a hundred turns of the loop are plenty)."""
    for _ in range(100):
        if text in screen.text:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{text!r} was not shown: {screen.text!r}")


def test_the_question_shows_keys_labels_and_the_default(screen: Screen, terminal: tuple[int, int]) -> None:
    person, program = terminal
    os.write(person, b"A\n")
    answer = asyncio.run(Console(_NoProgress(), descriptor=program).ask(QUESTION))
    assert answer == Answer("A", "console")
    assert screen.lines[:5] == [
        "? review  Ship it?",
        "  The tests pass.",
        "  [A] Approve  (default)",
        "  [R] Reject",
        "  or any text",
    ]


def test_an_empty_line_asks_again(screen: Screen, terminal: tuple[int, int]) -> None:
    person, program = terminal
    os.write(person, b"\n  \nReject it\n")
    answer = asyncio.run(Console(_NoProgress(), descriptor=program).ask(QUESTION))
    assert answer.text == "Reject it"
    assert screen.text.count("answer: ") == 3


def test_what_is_typed_ahead_answers_the_next_question(screen: Screen, terminal: tuple[int, int]) -> None:
    person, program = terminal
    os.write(person, b"A\nR\n")

    async def both() -> list[str]:
        console = Console(_NoProgress(), descriptor=program)
        return [(await console.ask(QUESTION)).text, (await console.ask(QUESTION)).text]

    assert asyncio.run(both()) == ["A", "R"]


def test_a_cancelled_question_leaves_no_reader_behind(screen: Screen, terminal: tuple[int, int]) -> None:
    person, program = terminal

    async def cancel_then_type() -> bytes:
        asking = asyncio.ensure_future(Console(_NoProgress(), descriptor=program).ask(QUESTION))
        await shown(screen, "answer: ")
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        os.write(person, b"for the shell\n")
        return await asyncio.to_thread(os.read, program, 100)

    assert asyncio.run(cancel_then_type()) == b"for the shell\n"


def test_two_branches_ask_one_after_the_other(screen: Screen, terminal: tuple[int, int]) -> None:
    person, program = terminal

    async def both() -> list[str]:
        console = Console(_NoProgress(), descriptor=program)
        asking = [asyncio.ensure_future(console.ask(QUESTION)) for _ in range(2)]
        await shown(screen, "answer: ")
        assert screen.text.count("Ship it?") == 1
        os.write(person, b"A\nR\n")
        return [(await task).text for task in asking]

    assert asyncio.run(both()) == ["A", "R"]


class _Hand:
    """A clock whose time somebody turns."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


def test_the_time_left_counts_from_the_first_time_the_question_was_asked(screen: Screen, terminal: tuple[int, int]) -> None:
    """The handler's deadline does not start again after a wrong answer, nor wait while another question has the terminal."""
    person, program = terminal
    clock = _Hand()
    timed = replace(QUESTION, timeout=90.0)

    async def ask_twice() -> None:
        console = Console(_NoProgress(), descriptor=program, clock=clock)
        os.write(person, b"nonsense\n")
        await console.ask(timed)
        clock.at += 25
        os.write(person, b"A\n")
        await console.ask(timed)
        os.write(person, b"A\n")
        await console.ask(replace(timed, id="8"))

    asyncio.run(ask_twice())
    assert re.findall(r"answer \((.*?)\)", screen.text) == ["Approve in 1:30", "Approve in 1:05", "Approve in 1:30"]


def test_the_end_of_input_waits_for_another_door(screen: Screen) -> None:
    read, write = os.pipe()
    os.close(write)

    async def ask() -> None:
        asking = asyncio.ensure_future(Console(_NoProgress(), descriptor=read).ask(QUESTION))
        await shown(screen, "arc run answer")
        assert not asking.done()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(ask())
    os.close(read)
