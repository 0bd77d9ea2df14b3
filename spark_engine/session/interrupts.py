"""SIGINT and SIGTERM both interrupt a command, so that it ends its workers and keeps their finished work. The exception
has the number of the signal, from which `assignor_cli.console` makes the exit code.
"""

from __future__ import annotations

import _thread  # starts threads without a lock: the hook below may run while the locks of `threading` are held
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
    """In this block, either signal raises KeyboardInterrupt with the signal's number as the argument, even if SIGINT
    was ignored at the start of this process, as shells do for background jobs. Python ignores exceptions of finalizers,
    and py4j has a finalizer for each Java object: so a signal that arrives while a finalizer runs is sent again. Only
    the main thread of a process receives signals; in any other thread this function does nothing.
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
    """Delays the handling of either signal until the end of the block. Use it for steps that must not be interrupted
    halfway. Signals without a Python handler are not delayed.
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
    """Until `close`, sends each signal whose KeyboardInterrupt Python ignored to the main thread again."""

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
        time.sleep(_AGAIN_AFTER_S)  # the finalizer has usually ended by then; if not, the hook sends the signal again
        with self._sending:
            if not self._closed:
                signal.pthread_kill(self._main, number)
