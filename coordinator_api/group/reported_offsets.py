"""The offset sums that a member reports with its heartbeats, and the speed at which each sum grows.

The speed of a task is measured between two heartbeats that are at least a second apart. Heartbeats come every
heartbeat.interval.ms, so the speed is the speed of the last seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from assignor.types import TaskId

SHORTEST_SPAN_MS = 1_000


@dataclass(frozen=True, slots=True)
class ReportedOffsets:
    """`sums`: the offset sums of the last heartbeat that had any. `per_s`: for each task whose sum grew, the number of
    offsets per second. `measured_sums`, `measured_ms`: the sums from which the next speed is measured, and the time of
    their heartbeat; `measured_ms` is None before the first heartbeat. `progress_ms`: for each task whose sum has grown,
    the time of the last measurement that found it higher.
    """

    sums: Mapping[TaskId, int] = field(default_factory=dict)
    per_s: Mapping[TaskId, float] = field(default_factory=dict)
    measured_sums: Mapping[TaskId, int] = field(default_factory=dict)
    measured_ms: int | None = None
    progress_ms: Mapping[TaskId, int] = field(default_factory=dict)

    def after_heartbeat(self, sums: Mapping[TaskId, int] | None, now_ms: int) -> ReportedOffsets:
        """Returns the offsets after a heartbeat. `sums`: the sums in the heartbeat; None if no sum has changed since
        the heartbeat before.
        """
        sums = self.sums if sums is None else sums
        if self.measured_ms is None:
            return ReportedOffsets(sums, {}, sums, now_ms)
        span_ms = now_ms - self.measured_ms
        if span_ms < SHORTEST_SPAN_MS:
            return replace(self, sums=sums)
        per_s, progress_ms = _speeds(self.measured_sums, sums, span_ms), self.progress_ms
        if per_s:
            known = {task: at_ms for task, at_ms in progress_ms.items() if task in sums}
            progress_ms = {**known, **dict.fromkeys(per_s, now_ms)}
        return ReportedOffsets(sums, per_s, sums, now_ms, progress_ms)


def _speeds(before: Mapping[TaskId, int], now: Mapping[TaskId, int], span_ms: int) -> dict[TaskId, float]:
    """Negative sums are marks and not numbers of offsets."""
    if now is before:
        return {}
    return {
        task: (offset_sum - before[task]) * 1_000 / span_ms
        for task, offset_sum in now.items()
        if 0 <= before.get(task, -1) < offset_sum
    }
