"""Signals and log settings that a test changes are put back; a changed signal fails the test."""

from __future__ import annotations

import logging
import signal

from tests.process_state import log_settings, signals_of_this_thread


def test_should_report_a_signal_that_is_left_blocked_and_put_it_back() -> None:
    before = signals_of_this_thread()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    assert "SIGTERM" in before.restore()
    assert before.restore() == ""
    assert signals_of_this_thread() == before


def test_should_report_a_signal_handler_that_is_left_and_put_it_back() -> None:
    before = signals_of_this_thread()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert "SIG_IGN" in before.restore()
    assert before.restore() == ""
    assert signals_of_this_thread() == before


def test_should_put_back_the_level_of_a_silenced_logger() -> None:
    before = log_settings()
    logging.getLogger("a_logger_of_this_test").setLevel(logging.CRITICAL)
    assert log_settings() != before
    before.restore()
    assert log_settings() == before


def test_should_put_back_logs_that_were_switched_off() -> None:
    before = log_settings()
    logging.disable(logging.CRITICAL)
    before.restore()
    assert log_settings() == before
    assert logging.getLogger().isEnabledFor(logging.CRITICAL)


def test_should_put_back_a_removed_handler_of_the_root_logger() -> None:
    before = log_settings()
    assert before.root_handlers, "pytest has its own"
    logging.getLogger().handlers.clear()
    before.restore()
    assert log_settings() == before
