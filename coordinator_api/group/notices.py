"""Notices for operators that the processes of a group send. A notice reports lost records, or logged warnings and
errors.

Notices are kept in memory only. For each process and code, only the newest notice is kept. If a heartbeat gets no
answer, the process sends all its notices again, so that a restarted coordinator gets all notices. A notice is kept for
a day, because people may read it later. The end of a process does not remove its notices. If the number of notices
exceeds its limit, the oldest notices are dropped. In the text of a notice, each unprintable character is replaced by a
blank, because the text is shown on terminals.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

KEPT_NOTICES = 256
"""The largest number of notices that are kept for a group."""

KEPT_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class ProcessNotice:
    """A notice of a process. `count`: the number of records that were lost, or of lines that were logged, since the
    process started. `at_ms`: the time at which the last record was lost or the last line was logged, by the clock of
    the process.
    """

    code: str
    text: str
    count: int
    at_ms: int


class ReceivedNotice(NamedTuple):
    """A notice and its sender. `process`: the sender's process id, or a member's id if the process id is not known.

    `received_at_ms`: the time of arrival by the coordinator's clock. `since_ms`: the arrival of the first notice with
    this code from this process.
    """

    process: str
    notice: ProcessNotice
    received_at_ms: int
    since_ms: int


class GroupNotices:
    """The notices of one group."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], ReceivedNotice] = {}  # the notices in the order of arrival

    def add(self, process: str, notices: Iterable[ProcessNotice], now_ms: int) -> None:
        """Add the notices of a process. A new notice replaces the process's earlier notice with the same code."""
        for notice in notices:
            key = process, notice.code
            known = self._newest.pop(key, None)
            since_ms = now_ms if known is None else known.since_ms
            self._newest[key] = ReceivedNotice(process, replace(notice, text=printable(notice.text)), now_ms, since_ms)
        while len(self._newest) > KEPT_NOTICES:
            del self._newest[next(iter(self._newest))]

    def newest_first(self, now_ms: int) -> list[ReceivedNotice]:
        """Returns the notices that arrived in the last day, the newest first."""
        return [each for each in reversed(self._newest.values()) if now_ms - each.received_at_ms <= KEPT_MS]


def printable(text: str) -> str:
    """Returns the text with a blank for each unprintable character."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
