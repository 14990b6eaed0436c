"""Regular expressions that would take for ever are stopped, and nothing of the stopping is left behind."""

from __future__ import annotations

import re
import signal
import threading

import pytest

from arc.base.bounded import SearchTooLongError, bounded_search

ENDLESS = re.compile("^(a+)+$")


def test_a_search_finds_what_re_finds() -> None:
    assert bounded_search(re.compile("b"), "abc")
    assert not bounded_search(re.compile("^b"), "abc")


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|a)*b", "(.*)*x", "(a*a*)*b", "(a|aa)+$"])
def test_a_search_without_end_is_stopped(pattern: str) -> None:
    with pytest.raises(SearchTooLongError, match="in a text of 61 characters"):
        bounded_search(re.compile(pattern), "a" * 60 + "!", seconds=0.05)


def test_the_signal_handler_and_the_timer_are_given_back() -> None:
    def mine(signum: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGALRM, mine)
    signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        bounded_search(re.compile("b"), "abc")
        with pytest.raises(SearchTooLongError):
            bounded_search(ENDLESS, "a" * 60 + "!", seconds=0.05)
        assert signal.getsignal(signal.SIGALRM) is mine
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 900
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_can_search_too() -> None:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(bounded_search(re.compile("b"), "abc")))
    thread.start()
    thread.join()
    assert found == [True]
