"""Lines that are logged in the process of a stream thread are logged in the process of its instance, where the user has
configured logging, under the name of the thread.

Rule: loggers have the levels there that they had here when the thread was started.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from streams_runtime.thread_processes.carried_errors import carried
from streams_runtime.thread_processes.messages import LogLine
from streams_runtime.thread_processes.pickling import pickled

_PUT_TOGETHER = frozenset({"args", "exc_info", "msg", "message"})
"""What a line has in another form on its way."""

_PLAIN = (str, int, float, bool, type(None))


def levels() -> tuple[dict[str, int], int]:
    """Of all loggers that have a level of their own, with the level up to which logging is off."""
    found = {"": logging.root.level}
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and logger.level:
            found[name] = logger.level
    return found, logging.root.manager.disable


def carry_lines(of: tuple[Mapping[str, int], int], send: Callable[[LogLine], None]) -> None:
    """From now on whatever is logged in this process goes to `send`. `of`: the `levels` of the instance."""
    by_name, off = of
    for name, level in by_name.items():
        logging.getLogger(name or None).setLevel(level)
    logging.disable(off)
    logging.root.handlers[:] = [_LineSender(send)]


def log_again(line: LogLine) -> None:
    """As if it had been logged here."""
    record = logging.makeLogRecord(dict(line.fields))
    if line.error is not None:
        error = line.error.error()
        record.exc_info = (type(error), error, None)
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)


class _LineSender(logging.Handler):
    def __init__(self, send: Callable[[LogLine], None]) -> None:
        super().__init__()
        self._send_line = send

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._send_line(_carried(record))
        except Exception:
            self.handleError(record)


def _carried(record: logging.LogRecord) -> LogLine:
    fields: dict[str, Any] = {
        name: value for name, value in vars(record).items() if name not in _PUT_TOGETHER and _travels(value)
    }
    error = record.exc_info[1] if record.exc_info else None
    fields |= {"msg": record.getMessage(), "args": None}
    if error is not None and record.exc_text is None:
        fields["exc_text"] = "".join(traceback.format_exception(error)).rstrip()
    return LogLine(fields, None if error is None else carried(error))


def _travels(value: object) -> bool:
    """What the user adds to a line (`extra`) may be anything."""
    if isinstance(value, _PLAIN):
        return True
    try:
        pickled(value)
    except Exception:
        return False
    return True
