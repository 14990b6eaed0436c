"""Asks a person at the terminal: the question of a human gate, its choices with their keys, and the time that is left.

    ? review  Ship it?
      [A] Approve → ship
      [R] Reject → fix
      or any text
    answer (Approve in 0:42):

The answer is read by the event loop (`add_reader` on stdin), never by a thread: when the question is answered elsewhere or the run is
canceled, nothing is left behind that would swallow the next line typed into the shell. The terminal stays in its own line mode.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AbstractContextManager
from typing import Protocol

from arc.base.clock import Clock, SystemClock
from arc.cli import ui
from arc.workflow.engine.doors import Answer, Question


class _Suspendable(Protocol):
    def suspended(self) -> AbstractContextManager[None]: ...


class Console:
    """The Interviewer of a terminal. One question at a time: branches that ask together wait for each other."""

    def __init__(self, progress: _Suspendable, *, descriptor: int | None = None, clock: Clock | None = None) -> None:
        self._progress = progress
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._clock = clock or SystemClock()
        self._turn = asyncio.Lock()
        self._asked: dict[str, float] = {}
        self._typed = b""
        self._ended = False

    async def ask(self, question: Question) -> Answer:
        """Show the question and wait for a line. An empty line takes nothing; the end of input waits for another door.

        The timeout belongs to the human handler; here it is only counted down.
        """
        # the handler's time runs from the first time on: also while another question has the terminal, and over wrong answers
        started = self._asked.setdefault(question.id, self._clock.monotonic())
        async with self._turn:
            with self._progress.suspended():
                self._show(question, started)
                ticker = asyncio.ensure_future(self._count_down(question, started))
                try:
                    while True:
                        line = await self._line()
                        if line.strip():
                            return Answer(line.strip(), "console")
                        self._prompt(question, started)
                except asyncio.CancelledError:
                    ui.talk("")
                    raise
                finally:
                    ticker.cancel()

    def reject(self, question: Question, answer: Answer, reason: str) -> None:
        """Say that the answer matched nothing."""
        ui.talk(f"{ui.style('!', 'yellow', stream=sys.stderr)} {reason}")

    def _show(self, question: Question, started: float) -> None:
        first, *rest = question.text.splitlines() or [""]
        ui.talk(f"{ui.style('?', 'magenta', 'bold', stream=sys.stderr)} {question.node}  {ui.style(first, 'bold', stream=sys.stderr)}")
        for line in rest:
            ui.talk(f"  {line}")
        for choice in question.choices:
            default = ui.style("  (default)", "dim", stream=sys.stderr) if choice.label == question.default else ""
            ui.talk(f"  [{ui.style(choice.key, 'bold', stream=sys.stderr)}] {choice.label}{default}")
        if question.freeform:
            ui.talk("  or any text")
        self._prompt(question, started)

    def _prompt(self, question: Question, started: float) -> None:
        sys.stderr.write(f"\r{self._prompt_text(question, started)}")
        sys.stderr.flush()

    def _prompt_text(self, question: Question, started: float) -> str:
        if question.timeout is None:
            return "answer: "
        left = max(0, round(question.timeout - (self._clock.monotonic() - started)))
        then = question.default or "no answer"
        return f"answer ({then} in {left // 60}:{left % 60:02d}): "

    async def _count_down(self, question: Question, started: float) -> None:
        """Rewrite the time that is left, in place: cursor saved, column 1, restored. Only on a terminal."""
        if question.timeout is None or not ui.shows_live_progress():
            return
        while True:
            await self._clock.sleep(1)
            sys.stderr.write(f"\0337\r{self._prompt_text(question, started)}\0338")
            sys.stderr.flush()

    async def _line(self) -> str:
        """The next line typed. At the end of input this waits for ever (until cancelled): another door may still answer."""
        loop = asyncio.get_running_loop()
        while b"\n" not in self._typed:
            if self._ended:
                await asyncio.Event().wait()
            ready = asyncio.Event()
            loop.add_reader(self._descriptor, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(self._descriptor)
            # a reader that is ready does not block: a terminal in line mode gives a whole line
            data = os.read(self._descriptor, 4096)
            self._typed += data
            if not data:
                self._ended = True
                if self._typed:
                    self._typed += b"\n"
                else:
                    ui.talk("")
                    ui.hint("the input has ended; answer with `arc run answer` from another terminal")
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode("utf-8", "replace")
