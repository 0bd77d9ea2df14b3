"""Signals that mean "leave" wake whoever waits, however they arrive."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from spark_jobs.workers.leaving_signals import LEAVING_SIGNALS, LeavingSignals
from tests.spark_jobs.main_thread import once_inside

TIMEOUT_S = 10.0


@pytest.fixture
def signals() -> Iterator[LeavingSignals]:
    """Whose `wait` says False, and does not hang, when no signal was heard."""
    with LeavingSignals() as listening:
        timer = threading.Timer(TIMEOUT_S, listening.wake)
        timer.start()
        yield listening
        timer.cancel()
        timer.join()


@pytest.mark.parametrize("number", LEAVING_SIGNALS)
def test_should_hear_a_signal_when_the_system_hands_it_to_another_thread(
    signals: LeavingSignals, number: signal.Signals
) -> None:
    with once_inside(LeavingSignals.wait, lambda: signal.pthread_kill(threading.get_ident(), number)):
        assert signals.wait()


@pytest.mark.parametrize("number", LEAVING_SIGNALS)
def test_should_hear_a_signal_when_it_came_before_anybody_waited(
    signals: LeavingSignals, number: signal.Signals
) -> None:
    os.kill(os.getpid(), number)
    assert signals.wait()


def test_should_go_on_waiting_when_another_signal_comes(signals: LeavingSignals) -> None:
    came = threading.Event()
    before = signal.signal(signal.SIGUSR2, lambda _number, _frame: came.set())
    os.kill(os.getpid(), signal.SIGUSR2)
    signals.wake()
    assert (signals.wait(), came.is_set()) == (False, True)
    signal.signal(signal.SIGUSR2, before)


def test_should_hear_no_signals_when_it_is_not_the_main_thread() -> None:
    handlers = [signal.getsignal(number) for number in LEAVING_SIGNALS]
    heard: list[object] = []

    def listen() -> None:
        with LeavingSignals() as signals:
            heard.append([signal.getsignal(number) for number in LEAVING_SIGNALS])
            signals.wake()
            heard.append(signals.wait())

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert heard == [handlers, False]


def test_should_leave_everything_as_it_was_when_it_ends() -> None:
    handlers = [signal.getsignal(number) for number in LEAVING_SIGNALS]
    with LeavingSignals() as signals:
        pass
    signals.wake()
    assert [signal.getsignal(number) for number in LEAVING_SIGNALS] == handlers
    assert signal.set_wakeup_fd(-1) == -1
