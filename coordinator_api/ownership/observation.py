"""Which of the other coordinators are over: those whose rows have not changed while this one looked for long enough.
And which groups wait in vain for the coordinator that was to take them.

Looking is counted on this coordinator's own clock, from reading to reading. A longer gap between two readings was an
outage, of the database or of this process, in which others could not be seen to renew. It counts as two beats at most.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator_api.ownership.values import EndCoordinator, LeaseTimes, OwnershipView

MARGIN = 1.05
"""How much longer others look than an owner may answer: two clocks do not go exactly alike."""

MOST_BEATS_COUNTED = 2
"""Of a gap between two readings."""

SILENT_AFTER_BEATS = 3

IN_VAIN_AFTER_BEATS = 2
"""So long may a group be free before everybody tries to take it."""


@dataclass(slots=True)
class _Seen:
    """`looked_ms`: how long the row has been seen with this number."""

    renewals: int
    looked_ms: float = 0.0


class Observation:
    def __init__(self, times: LeaseTimes) -> None:
        self._beat_ms = times.beat_ms
        self._enough_ms = times.valid_ms * MARGIN
        self._rows: dict[str, _Seen] = {}
        self._free_ms: dict[str, float] = {}
        self._read_ms: float | None = None

    def seen(self, view: OwnershipView, me: str, now_ms: float) -> None:
        """A reading arrived now."""
        gap_ms = self._counted_ms(now_ms)
        rows: dict[str, _Seen] = {}
        for coordinator_id, row in view.coordinators.items():
            before = self._rows.get(coordinator_id)
            if before is None or before.renewals != row.renewals:
                rows[coordinator_id] = _Seen(row.renewals)
            elif coordinator_id != me:
                rows[coordinator_id] = _Seen(row.renewals, before.looked_ms + gap_ms)
        free = [group.group_id for group in view.groups.values() if view.is_free(group)]
        before_ms = self._free_ms
        self._free_ms = {each: before_ms[each] + gap_ms if each in before_ms else 0.0 for each in free}
        self._rows, self._read_ms = rows, now_ms

    def _counted_ms(self, now_ms: float) -> float:
        """Of the time since the last reading."""
        return 0.0 if self._read_ms is None else min(now_ms - self._read_ms, MOST_BEATS_COUNTED * self._beat_ms)

    def over(self) -> list[EndCoordinator]:
        """As of the newest reading. One whose row is still there at the next reading is over again."""
        return [
            EndCoordinator(each, row.renewals) for each, row in self._rows.items() if row.looked_ms >= self._enough_ms
        ]

    def silent(self) -> frozenset[str]:
        """Those that have missed a few beats: what is given to them may be served late."""
        longest_ms = SILENT_AFTER_BEATS * self._beat_ms
        return frozenset(each for each, row in self._rows.items() if row.looked_ms > longest_ms)

    def waiting_in_vain(self) -> frozenset[str]:
        """Groups that have been free for a few beats, because who was to take them gets nothing done."""
        longest_ms = IN_VAIN_AFTER_BEATS * self._beat_ms
        return frozenset(each for each, looked_ms in self._free_ms.items() if looked_ms >= longest_ms)

    def next_due_ms(self) -> float | None:
        """When a further reading might show that somebody is over; None when nobody is watched."""
        left_ms = [left for row in self._rows.values() if (left := self._enough_ms - row.looked_ms) > 0]
        return None if self._read_ms is None or not left_ms else self._read_ms + min(left_ms)
