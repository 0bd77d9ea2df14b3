"""Waiting for the signals that mean "leave": SIGHUP and SIGTERM.

Rule: a signal wakes whoever waits, whichever thread of the process the system hands it to. The system may give it to
any thread, and does so above all when a second one comes before the main thread has had the first; then nothing ever
interrupts a lock or a queue that the main thread waits for, and Python's handler, which only that thread runs, is not
run. So the main thread reads from a socket, into which Python's part of the handler in C writes from any thread
(`signal.set_wakeup_fd`).
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import Self

LEAVING_SIGNALS = (signal.SIGHUP, signal.SIGTERM)
_WOKEN = b"\0"  # no signal has this number


class LeavingSignals:
    """Heard while the context lasts, which the main thread has to enter; in any other one none arrive.

    `heard`: called in the main thread at each of them, between any two steps of what it is doing.
    """

    def __init__(self, heard: Callable[[], None] = lambda: None) -> None:
        self._heard = heard
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            self._reader, self._writer = socket.socketpair()
            closing.callback(self._reader.close)
            closing.callback(self._writer.close)
            self._writer.setblocking(False)
            if threading.current_thread() is threading.main_thread():
                wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
                closing.callback(signal.set_wakeup_fd, wakeup)
                for number in LEAVING_SIGNALS:
                    closing.callback(signal.signal, number, signal.signal(number, self._note))
            self._closing = closing.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def wait(self) -> bool:
        """Until a signal has come (True), also one before this call, or somebody woke it (False)."""
        while (found := self._reader.recv(1)) != _WOKEN:
            if found[0] in LEAVING_SIGNALS:
                return True
        return False

    def wake(self) -> None:
        """Have `wait` return; from any thread, also after the end."""
        with contextlib.suppress(OSError):
            self._writer.send(_WOKEN)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._heard()
