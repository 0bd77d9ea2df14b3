"""A notice reports a problem of an instance to its operators: lost or dropped records, or a logged warning or error.

- `add`: threads of the instance call this method to add to the count of a notice.
- `newest`: this method returns the notices to send now, in a size that any coordinator accepts.

If a notice has changed, the next heartbeat of the process sends all notices to the coordinator. `groups describe` and
`workers run` show the notices. There is one notice for each code. The count of a notice is the number of records,
windows or log lines since the instance started. The text of a notice lists places and reasons. The place or reason with
the highest count comes first. Rules: any thread may call `add`. `add` is cheap, because only `newest` makes the texts.
"""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from streams_runtime.common.clock import Clock

MAX_TEXT_LENGTH = 300
"""The length limit of a notice's text. A coordinator accepts texts of up to 500 characters."""

MAX_NOTICES = 16
MAX_BYTES = 3_500
"""The size limit of all notices together, as ASCII JSON. An older coordinator does not know notices, and accepts
unknown fields only up to 4,096 bytes. So the limit is below 4,096 bytes.
"""

ROOT_LOGGER = "root"
"""The logger that `LoggedNotices` watches in a process that runs only an instance."""

RUNTIME_LOGGER = "streams_runtime"
"""The logger that `LoggedNotices` watches for an instance inside another program."""

_MAX_PLACES = 1_000
_OTHERS = "elsewhere"


class NoticeCode(StrEnum):
    """The codes of notices. The most serious code comes first. If there are too many notices, the least serious notices
    are left out.
    """

    RECORDS_PASSED_OVER = "RECORDS_PASSED_OVER"
    """The log deleted records that the group had not read yet."""

    POSITION_BEYOND_END = "POSITION_BEYOND_END"
    """The log's end offset is below the group's position, because the topic was recreated or has lost records."""

    STORE_REBUILT = "STORE_REBUILT"
    """The files of a store were damaged, or were the state of another log. The store was deleted and restored."""

    WINDOWS_MISSING = "WINDOWS_MISSING"
    """A restored window store lacks some windows, because the log deleted their records from the changelog.
    """

    WINDOWS_AT_RISK = "WINDOWS_AT_RISK"
    """The log may delete windows from a store's changelog before they expire in the store. A restore does not find
    windows that the log has deleted.
    """

    TIMESTAMP_UNIT = "TIMESTAMP_UNIT"
    """Timestamps of a topic are probably not in milliseconds."""

    CLOCK_WRONG = "CLOCK_WRONG"
    """The clocks of this machine and of the coordinator's machine differ."""

    RECORDS_DROPPED = "RECORDS_DROPPED"
    RECORDS_DEAD_LETTERED = "RECORDS_DEAD_LETTERED"
    ERRORS_LOGGED = "ERRORS_LOGGED"
    WARNINGS_LOGGED = "WARNINGS_LOGGED"


LOSSES = frozenset({NoticeCode.RECORDS_PASSED_OVER, NoticeCode.RECORDS_DROPPED, NoticeCode.RECORDS_DEAD_LETTERED})
"""For these codes, the count of the notice is a number of records."""


@dataclass(frozen=True, slots=True)
class Notice:
    """The notice of one code. `count`: the number of records, windows or log lines since the instance started. `at_ms`:
    the time when the count last rose, in milliseconds since 1970. `text`: one line of at most `MAX_TEXT_LENGTH`
    characters.
    """

    code: NoticeCode
    text: str
    count: int
    at_ms: int

    def document(self) -> dict[str, object]:
        """Returns the notice as the JSON object that a heartbeat contains."""
        return {"code": str(self.code), "text": self.text, "count": self.count, "at_ms": self.at_ms}


@dataclass(slots=True)
class _Place:
    count: int = 0
    detail: str = ""


class _Entry:
    """The counts and details of one code, by place or reason."""

    def __init__(self) -> None:
        self.count = 0
        self.at_ms = 0
        self.places: dict[str, _Place] = {}

    def text(self) -> str:
        most_first = sorted(self.places.items(), key=lambda item: -item[1].count)
        parts: list[str] = []
        length = 0
        for index, (about, place) in enumerate(most_first):
            part = about + (f": {place.count:,}" if place.count else "") + (f" {place.detail}" if place.detail else "")
            more = f"; and {len(most_first) - index} more"
            if parts and length + len(part) + len(more) > MAX_TEXT_LENGTH:
                return one_line("; ".join(parts) + more)
            parts.append(part)
            length += len(part) + 2
        return one_line("; ".join(parts))


class NoticeBoard:
    """The notices of one instance. `version` rises with every call of `add` or `add_latest`."""

    def __init__(self, clock: Clock) -> None:
        self.version = 0
        self._clock = clock
        self._lock = threading.Lock()
        self._codes: dict[NoticeCode, _Entry] = {}

    def add(self, code: NoticeCode, about: str, count: int, detail: str = "") -> None:
        """Adds `count` to the notice of this code. `about`: the place where the events happened, or their reason.
        `detail`: the new text about this place or reason; empty to keep the old text.
        """
        with self._lock:
            known = self._counted(code, count)
            if about not in known.places and len(known.places) >= _MAX_PLACES:
                about, detail = _OTHERS, ""
            place = known.places.setdefault(about, _Place())
            place.count += count
            place.detail = detail or place.detail

    def add_latest(self, code: NoticeCode, text: str) -> None:
        """Adds 1 to the notice of this code, and replaces its text."""
        with self._lock:
            self._counted(code, 1).places = {text: _Place()}

    def _counted(self, code: NoticeCode, count: int) -> _Entry:
        known = self._codes.setdefault(code, _Entry())
        known.count += count
        known.at_ms = self._clock.now_ms()
        self.version += 1
        return known

    def newest(self) -> tuple[Notice, ...]:
        """Returns one notice for each code, the most serious first. There are at most `MAX_NOTICES` notices with at
        most `MAX_BYTES` bytes.
        """
        with self._lock:
            notices = [
                Notice(code, known.text(), known.count, known.at_ms)
                for code in NoticeCode
                if (known := self._codes.get(code)) is not None
            ]
        return _fitting(notices)


def one_line(text: str, longest: int = MAX_TEXT_LENGTH) -> str:
    """Replaces control characters and line breaks by spaces. If the text is too long, it is cut and ends with an
    ellipsis.
    """
    line = " ".join("".join(each if each.isprintable() else " " for each in text[: 4 * longest]).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _fitting(notices: Sequence[Notice]) -> tuple[Notice, ...]:
    fitting: list[Notice] = []
    size = len("[]")
    for notice in notices[:MAX_NOTICES]:
        size += len(json.dumps(notice.document())) + len(", ")
        if size > MAX_BYTES:
            break
        fitting.append(notice)
    return tuple(fitting)


ALREADY_A_NOTICE = {"already_a_notice": True}
"""The `extra` of log lines about events that already have a notice. `LoggedNotices` ignores log lines with this
`extra`.
"""


class LoggedNotices(logging.Handler):
    """Makes notices from the warnings and errors that an instance logs, so that operators of the group see them.

    `start` attaches this handler to a logger, and `close` removes it. The handler ignores log lines with
    `ALREADY_A_NOTICE`. The handler also ignores log lines of threads that do not belong to the instance, because a
    process may have several instances. A logger without a handler prints warnings to stderr by Python's `lastResort`
    handler. If this handler is attached, Python prints no such warnings, so `emit` calls `lastResort`. `is_own`: a
    function that returns True if the thread with the given name belongs to the instance.
    """

    def __init__(self, notices: NoticeBoard, is_own: Callable[[str], bool], logger: str = RUNTIME_LOGGER) -> None:
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
            if not getattr(record, "already_a_notice", False) and self._is_own(record.threadName or ""):
                code = NoticeCode.ERRORS_LOGGED if record.levelno >= logging.ERROR else NoticeCode.WARNINGS_LOGGED
                self._notices.add_latest(code, _text(record))
        except Exception:
            self.handleError(record)
        if self._is_alone_with(record) and logging.lastResort is not None:
            logging.lastResort.handle(record)

    def _is_alone_with(self, record: logging.LogRecord) -> bool:
        """Returns True if only handlers of this class get the log line, and this handler is the first of them."""
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
