"""A thread's metrics for those who run thousands of them: Prometheus' counters would cost more than the threads."""

from __future__ import annotations

from typing import Any, cast

from streams_runtime.reporting.metrics import TaskMetrics, ThreadMetrics


class _Silent:
    processed_records = dropped_records = passed_over_records = 0

    def task(self, _task: object) -> TaskMetrics:
        return cast(TaskMetrics, self)

    def nothing(self, *_: Any, **__: Any) -> None: ...

    processed = task_processed = polled = committed = punctuated = restored = restoring = standby_lags = nothing
    tasks = buffered = close = dropped = passed_over = windows_missing = windows_at_risk = nothing


SILENT_METRICS = cast(ThreadMetrics, _Silent())
