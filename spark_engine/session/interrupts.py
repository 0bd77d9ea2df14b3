"""Interrupts a command after SIGINT or SIGTERM, so that the command ends its workers and keeps their finished work.
SIGINT and SIGTERM raise a KeyboardInterrupt that contains the number of the signal. `assignor_cli.console` computes the
exit code from this number.
"""

from __future__ import annotations

# `_hook` starts a thread by `_thread`, which needs no lock. `threading` uses locks, and another function may hold these
# locks when `_hook` runs.
import _thread
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_AFTER_S = 0.05


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """A context manager: in its block, SIGINT and SIGTERM raise KeyboardInterrupt with the signal's number as the
    argument. A shell makes its background jobs ignore SIGINT. In the block, SIGINT raises KeyboardInterrupt in a
    background job, too. Python ignores exceptions in finalizers, and py4j has a finalizer for each Java object. So if a
    signal arrives while a finalizer runs, this module sends the signal again. Only the main thread of a process
    receives signals. In any other thread, `interruptible` does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in _SIGNALS}
    swallowed = _SwallowedInterrupts()
    try:
        yield
    finally:
        swallowed.close()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Delays the handling of SIGINT and SIGTERM until the end of the block. Use this context manager around steps that
    a signal must not separate. A signal without a Python handler is not delayed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS if callable(signal.getsignal(number))}
    try:
        for number in before:
            signal.signal(number, lambda number, _frame: waiting.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for arrived in waiting:
            signal.raise_signal(arrived)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(number)


class _SwallowedInterrupts:
    """Sends a signal to the main thread again if Python ignored the KeyboardInterrupt that the signal raised. `close`
    ends this watch for signals.
    """

    def __init__(self) -> None:
        self._main = threading.get_ident()
        self._sending = threading.Lock()
        self._closed = False
        self._others = sys.unraisablehook
        sys.unraisablehook = self._hook

    def close(self) -> None:
        with self._sending:
            self._closed = True
        sys.unraisablehook = self._others

    def _hook(self, ignored: sys.UnraisableHookArgs) -> None:
        fault = ignored.exc_value
        if isinstance(fault, KeyboardInterrupt) and fault.args and fault.args[0] in _SIGNALS:
            _thread.start_new_thread(self._send_again, (fault.args[0],))
        else:
            self._others(ignored)

    def _send_again(self, number: int) -> None:
        # the finalizer has usually ended after this time; if it still runs, `_hook` sends the signal once more
        time.sleep(_AGAIN_AFTER_S)
        with self._sending:
            if not self._closed:
                signal.pthread_kill(self._main, number)
