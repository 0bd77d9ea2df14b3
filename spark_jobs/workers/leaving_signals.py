"""Waits for the signals that tell an instance to leave: SIGHUP and SIGTERM.

The system may deliver a signal to any thread of the process. If the main thread has not yet handled an earlier signal,
the system probably delivers the next signal to another thread. Python's signal handler runs only in the main thread. If
the main thread waits on a lock or a queue, a signal to another thread does not end the wait. So the handler does not
run before the wait ends. So the main thread waits by reading from a socket. When any thread gets a signal, Python
writes to this socket (`signal.set_wakeup_fd`), which ends the wait.
"""

import contextlib
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Self

LEAVING_SIGNALS = (signal.SIGHUP, signal.SIGTERM)
_WOKEN = b"\0"  # No signal has this number.


class LeavingSignals:
    """A context manager for the main thread. If another thread enters the context, signals do not end a call of `wait`;
    only a call of `wake` does. `on_signal`: a function that is called in the main thread for each signal. The call can
    take place between any two bytecode instructions.
    """

    def __init__(self, on_signal: Callable[[], None] = lambda: None) -> None:
        self._on_signal = on_signal
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

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def wait(self) -> bool:
        """Blocks until a signal arrives or `wake` is called. If a signal has arrived or `wake` was called before,
        returns at once. The result is True for a signal, and False for a call of `wake`.
        """
        while (found := self._reader.recv(1)) != _WOKEN:
            if found[0] in LEAVING_SIGNALS:
                return True
        return False

    def wake(self) -> None:
        """Makes the blocked call of `wait` return False. If no call is blocked, the next call of `wait` returns False.
        Any thread may call `wake`, also after the end of the context manager's block.
        """
        with contextlib.suppress(OSError):
            self._writer.send(_WOKEN)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._on_signal()
