"""A test that leaves signals changed is told, and only that one."""

from __future__ import annotations

import signal

from tests.left_signals import signals_of_this_thread


def test_should_tell_of_a_signal_that_is_left_blocked_and_put_it_back() -> None:
    before = signals_of_this_thread()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    assert "SIGTERM" in before.changed()
    assert before.changed() == ""
    assert signals_of_this_thread() == before


def test_should_tell_of_a_handler_that_is_left_and_put_it_back() -> None:
    before = signals_of_this_thread()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert "SIG_IGN" in before.changed()
    assert before.changed() == ""
    assert signals_of_this_thread() == before
