"""Notices of the processes of a group, for people: records that were lost, warnings and errors that they logged.

Rules: in memory only, and the newest of each process and code. A process repeats its notices after a heartbeat without
an answer, so a coordinator that was restarted gets all of them. A notice outlives its process, because somebody may
look only afterwards, but no longer than a day. What is kept is bounded: the oldest go first. The text comes from a
member and is shown on terminals, so nothing in it is printed but letters, digits and signs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

KEPT_NOTICES = 256
"""Of one group."""

KEPT_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class ProcessNotice:
    """`count`: of records, or of lines logged, since the process started. `at_ms`: of the last of them, by the clock of
    the process.
    """

    code: str
    text: str
    count: int
    at_ms: int


class ReceivedNotice(NamedTuple):
    """`process`: its process id, or a member's id where that is not known.

    `received_at_ms`: by the coordinator's clock.
    """

    process: str
    notice: ProcessNotice
    received_at_ms: int


class GroupNotices:
    """Of one group."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], ReceivedNotice] = {}  # the newest last

    def add(self, process: str, notices: Iterable[ProcessNotice], now_ms: int) -> None:
        """They replace the notices of the process with the same codes."""
        for notice in notices:
            key = process, notice.code
            self._newest.pop(key, None)
            self._newest[key] = ReceivedNotice(process, replace(notice, text=_printable(notice.text)), now_ms)
        while len(self._newest) > KEPT_NOTICES:
            del self._newest[next(iter(self._newest))]

    def newest_first(self, now_ms: int) -> list[ReceivedNotice]:
        """Those of the last day."""
        return [each for each in reversed(self._newest.values()) if now_ms - each.received_at_ms <= KEPT_MS]


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
