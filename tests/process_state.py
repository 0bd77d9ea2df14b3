"""Compares signals and log settings of this process before and after a test.

A test that leaves a signal blocked or handled makes later tests fail, in the programs that they start and interrupt.
A test that leaves a logger silent makes later tests fail that read the log.
"""

import logging
import signal
from typing import Any, NamedTuple

HANDLED = (signal.SIGINT, signal.SIGTERM)
"""The signals by which a user or a supervisor ends a program."""


class ThreadSignals(NamedTuple):
    """The signals that the main thread blocks, and its handlers of `HANDLED`."""

    blocked: set[int]
    handlers: list[Any]

    def restore(self) -> str:
        """Puts the signals back. Returns the difference in words; empty if a test changed nothing."""
        now = signals_of_this_thread()
        if now == self:
            return ""
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)
        for number, handler in zip(HANDLED, self.handlers, strict=True):
            if handler is not None:  # None: the handler is not of Python, so Python cannot set it
                signal.signal(number, handler)
        return f"the test left other signals than it found: {now}, and before {self}"


class LogSettings(NamedTuple):
    """The handlers of the root logger; the level up to which all logs are off; the level and the disabled flag of each
    logger that has one set.
    """

    root_handlers: list[logging.Handler]
    off_up_to: int
    loggers: dict[str, tuple[int, bool]]

    def restore(self) -> None:
        """Puts handlers, levels and flags back."""
        now = log_settings()
        if now == self:
            return
        logging.getLogger().handlers[:] = self.root_handlers
        logging.disable(self.off_up_to)
        for name in now.loggers | self.loggers:
            logger = logging.getLogger(name)
            level, logger.disabled = self.loggers.get(name, (logging.NOTSET, False))
            logger.setLevel(level)


def signals_of_this_thread() -> ThreadSignals:
    return ThreadSignals(signal.pthread_sigmask(signal.SIG_BLOCK, ()), [signal.getsignal(each) for each in HANDLED])


def log_settings() -> LogSettings:
    root = logging.getLogger()
    known = [root, *(each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger))]
    settings = {each.name: (each.level, each.disabled) for each in known if each.level or each.disabled}
    return LogSettings(list(root.handlers), root.manager.disable, settings)
