"""Calls that block, carried out when they are due on a small number of threads that start when they are needed.

Rule: a call waits for its time in the queue and never on a thread, so calls that are paused hold back no other call.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable

_logger = logging.getLogger(__name__)


class CallQueue:
    """Any thread may use it. `threads`: how many calls run at a time. Its threads are daemons."""

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._threads = threads
        self._changed = threading.Condition(threading.Lock())
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0
        self._started = 0
        self._idle = 0
        self._closed = False

    def add(self, call: Callable[[], None], after_s: float = 0.0) -> None:
        """Carry the call out, not before `after_s` seconds from now. Once the queue is closed, nothing happens."""
        with self._changed:
            if self._closed:
                return
            self._numbers += 1
            heapq.heappush(self._calls, (time.monotonic() + after_s, self._numbers, call))
            if len(self._calls) > self._idle and self._started < self._threads:
                self._started += 1
                threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
            self._changed.notify()

    def close(self) -> None:
        """Forget the calls that have not begun. Does not wait for the others."""
        with self._changed:
            self._closed = True
            self._calls.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        while (call := self._next()) is not None:
            try:
                call()
            except Exception:
                _logger.exception("%s: a call failed", self._name)

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._closed:
                wait_s = self._calls[0][0] - time.monotonic() if self._calls else None
                if wait_s is not None and wait_s <= 0:
                    return heapq.heappop(self._calls)[2]
                self._idle += 1
                self._changed.wait(wait_s)
                self._idle -= 1
            return None
