"""Conversations of this process: what was said in each thread, so that a node with fidelity `full` can go on in it.

A thread lives in memory only. After a resume it is gone; the first node of each thread then gets `summary:high` instead (see `fidelity`).
"""

from __future__ import annotations

from arc.agent.protocol import Exchange


class ThreadStore:
    """The threads of one frame. A parallel branch starts with a copy (`fork`), so branches never mix their conversations."""

    def __init__(self) -> None:
        self._threads: dict[str, tuple[Exchange, ...]] = {}

    def history(self, thread: str | None) -> tuple[Exchange, ...]:
        """What was said in that thread so far, oldest first; empty for None and for unknown threads."""
        return () if thread is None else self._threads.get(thread, ())

    def append(self, thread: str, exchange: Exchange) -> None:
        """Add one finished exchange."""
        self._threads[thread] = (*self.history(thread), exchange)

    def fork(self) -> ThreadStore:
        """A copy that goes its own way."""
        copy = ThreadStore()
        copy._threads = dict(self._threads)
        return copy
