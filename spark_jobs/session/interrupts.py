"""SIGINT and SIGTERM both interrupt a command, so that it ends its workers and keeps what they have finished.

The number that they raise tells one from the other: `assignor.commands.console` makes the exit code of it.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Either signal raises KeyboardInterrupt in here, with its number as the argument; also when the program that
    started this one ignores SIGINT, as a shell does for its background jobs.

    Only the main thread of a process receives signals; in any other thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(number)
