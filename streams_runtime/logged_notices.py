"""Warnings and errors that an instance logs, as notices: who only watches the group hears of them, too.

Rules: lines that are notices already (`TOLD_AS_NOTICE`) are left out. Only lines of the instance's own threads count,
because a process may have several instances. Where nobody has configured logging, Python prints warnings to stderr
by a handler of last resort, and only while there is no other: it is called from here then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from streams_runtime.notices import NoticeBoard, NoticeCode, one_line

ROOT = "root"
"""The logger of everything, for a process in which nothing but an instance runs."""

OWN = "streams_runtime"
"""The logger of the runtime, for an instance inside of a program that configures logging itself."""


class LoggedNotices(logging.Handler):
    """Listens to a logger between `start` and `close`. `is_own`: whether a thread of this name is the instance's."""

    def __init__(self, notices: NoticeBoard, is_own: Callable[[str], bool], logger: str = OWN) -> None:
        super().__init__(logging.WARNING)
        self._notices = notices
        self._is_own = is_own
        self._logger = logging.getLogger(logger)

    def start(self) -> None:
        self._logger.addHandler(self)

    def close(self) -> None:
        self._logger.removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if not getattr(record, "told_as_notice", False) and self._is_own(record.threadName or ""):
                code = NoticeCode.ERRORS_LOGGED if record.levelno >= logging.ERROR else NoticeCode.WARNINGS_LOGGED
                self._notices.tell_last(code, _text(record))
        except Exception:
            self.handleError(record)
        if self._is_alone_with(record) and logging.lastResort is not None:
            logging.lastResort.handle(record)

    def _is_alone_with(self, record: logging.LogRecord) -> bool:
        """Whether nobody else handles the line, and this one is the first of its kind that does."""
        logger: logging.Logger | None = logging.getLogger(record.name)
        handlers: list[logging.Handler] = []
        while logger is not None:
            handlers += logger.handlers
            logger = logger.parent if logger.propagate else None
        return handlers[:1] == [self] and all(isinstance(handler, LoggedNotices) for handler in handlers)


def _text(record: logging.LogRecord) -> str:
    text = f"{record.name}: {record.getMessage()}"
    error = record.exc_info[1] if record.exc_info else None
    return one_line(text if error is None else f"{text}: {type(error).__name__}: {error}")
