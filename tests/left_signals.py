"""What the main thread does with signals, compared before and after a test.

A test that leaves a signal blocked or handled lets others fail, in the programs that they start and interrupt.
"""

from __future__ import annotations

import signal
from typing import Any, NamedTuple

HANDLED = (signal.SIGINT, signal.SIGTERM)
"""What a user or a supervisor ends programs with."""


class ThreadSignals(NamedTuple):
    blocked: set[int]
    handlers: list[Any]

    def changed(self) -> str:
        """What has become of it, as an assertion says it, and puts it back; empty if nothing has changed."""
        now = signals_of_this_thread()
        if now == self:
            return ""
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)
        for number, handler in zip(HANDLED, self.handlers, strict=True):
            if handler is not None:  # None: not of Python, and nobody can put it back
                signal.signal(number, handler)
        return f"left with other signals than it found: {now}, and before {self}"


def signals_of_this_thread() -> ThreadSignals:
    return ThreadSignals(signal.pthread_sigmask(signal.SIG_BLOCK, ()), [signal.getsignal(each) for each in HANDLED])
