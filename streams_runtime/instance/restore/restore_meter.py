"""Metrics of the restores and standbys of one thread: applied records, remaining records, rate and lag."""

from collections import deque
from collections.abc import Iterable

from assignor.types import TaskId
from streams_runtime.common.clock import Clock
from streams_runtime.common.metrics import ThreadMetrics
from streams_runtime.instance.restore.changelog_metadata import ChangelogMetadata

_REPORT_MS = 500
_WINDOW_MS = 10_000
_STEP_MS = 250


class RestoreMeter:
    """Sets the metrics of one changelog reader."""

    def __init__(self, metrics: ThreadMetrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._rate = RestoreRate(clock)
        self._reported_ms: int | None = None

    def applied(self, records: int, *, active: bool) -> None:
        self._metrics.restored(records, active=active)
        if active:
            self._rate.add(records)

    def is_due(self) -> bool:
        """Returns True if it is time to set the gauges again."""
        return self._reported_ms is None or self._clock.monotonic_ms() - self._reported_ms >= _REPORT_MS

    def report(self, lags: Iterable[tuple[ChangelogMetadata, int]]) -> None:
        """Set the gauges. `lags`: the lags in offsets of all changelogs that are read."""
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


class RestoreRate:
    """Measures the number of restored records per second in about the last ten seconds. It has one counter for each
    quarter of a second, so its memory does not depend on the number of batches.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_ms: int | None = None
        self._steps: deque[tuple[int, int]] = deque()

    def start(self) -> None:
        """Start to measure the time. Does nothing after the first call."""
        if self._started_ms is None:
            self._started_ms = self._clock.monotonic_ms()

    def add(self, records: int) -> None:
        self.start()
        step = self._clock.monotonic_ms() // _STEP_MS
        if self._steps and self._steps[-1][0] == step:
            records += self._steps.pop()[1]
        self._steps.append((step, records))

    def per_second(self) -> float:
        """Returns the number of records per second. Returns 0 if no record was restored in the last ten seconds."""
        now_ms = self._clock.monotonic_ms()
        while self._steps and (self._steps[0][0] + 1) * _STEP_MS <= now_ms - _WINDOW_MS:
            self._steps.popleft()
        if not self._steps or self._started_ms is None:
            return 0.0
        took_ms = min(max(now_ms - self._started_ms, _STEP_MS), _WINDOW_MS)
        return sum(count for _, count in self._steps) * 1_000 / took_ms
