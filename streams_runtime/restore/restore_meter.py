"""Restore and standby progress of one thread as metrics: records, what remains, rate and lag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from assignor.types import TaskId
from streams_runtime.clock import Clock
from streams_runtime.restore.restore_rate import RestoreRate

if TYPE_CHECKING:
    from streams_runtime.metrics import ThreadMetrics
    from streams_runtime.restore.changelog_metadata import ChangelogMetadata

_REPORT_MS = 500


class RestoreMeter:
    """`metrics` None: nothing is measured."""

    def __init__(self, metrics: ThreadMetrics | None, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._rate = RestoreRate(clock)
        self._reported_ms: int | None = None

    def applied(self, records: int, *, active: bool) -> None:
        if self._metrics is None:
            return
        self._metrics.restored(records, active=active)
        if active:
            self._rate.add(records)

    def is_due(self) -> bool:
        """Whether the gauges are old enough to be set again."""
        if self._metrics is None:
            return False
        return self._reported_ms is None or self._clock.monotonic_ms() - self._reported_ms >= _REPORT_MS

    def report(self, lags: Iterable[tuple[ChangelogMetadata, int]]) -> None:
        """Each changelog that is read, with the offsets it is behind."""
        if self._metrics is None:
            return
        self._reported_ms = self._clock.monotonic_ms()
        remaining: dict[TaskId, int] = {}
        standby: dict[tuple[TaskId, str], int] = {}
        for changelog, lag in lags:
            if changelog.is_active:
                remaining[changelog.task_id] = remaining.get(changelog.task_id, 0) + lag
            else:
                standby[changelog.task_id, changelog.store] = lag
        self._metrics.restoring(remaining, self._rate.per_second() if remaining else 0.0)
        self._metrics.standby_lags(standby)
