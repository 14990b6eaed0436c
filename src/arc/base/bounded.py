"""A regular expression search that cannot take for ever.

Python's `re` tries all ways to match: `(a+)+$` on forty characters takes longer than anyone lives. The search is stopped by an alarm
signal, which `re` looks out for while it works. Only the main thread gets signals (the engine runs there); in any other the search is not
bounded.

Threads: takes and gives back the process's SIGALRM handler and real-time timer, within one call, on the main thread.
"""

from __future__ import annotations

import re
import signal
import threading
from types import FrameType

from arc.base.errors import ArcError

SEARCH_SECONDS = 2.0
"""Longest time of one search; nothing else runs on its thread meanwhile."""


class SearchTooLongError(ArcError):
    """A regular expression took too long on a text: most likely it repeats something that itself repeats."""

    code = "search.too_long"


class _Alarm(Exception):
    """Raised by the signal handler; never leaves this module."""


def bounded_search(pattern: re.Pattern[str], text: str, *, seconds: float = SEARCH_SECONDS) -> bool:
    """Whether the pattern is found anywhere in the text.

    Raises:
        SearchTooLongError: that was not clear after `seconds`.
    """
    if threading.current_thread() is not threading.main_thread():
        return pattern.search(text) is not None
    previous = signal.signal(signal.SIGALRM, _ring)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        try:
            return pattern.search(text) is not None
        finally:
            signal.setitimer(signal.ITIMER_REAL, *timer)
    except _Alarm:
        raise SearchTooLongError(
            f"the regular expression `{pattern.pattern}` was not found out about within {seconds:g} s in a text of {len(text)} characters",
            hints=("repeat nothing that itself repeats: `(a+)+` finds what `a+` finds; `(?>...)` and `a++` never try again",),
        ) from None
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL if previous is None else previous)


def _ring(signum: int, frame: FrameType | None) -> None:
    raise _Alarm
