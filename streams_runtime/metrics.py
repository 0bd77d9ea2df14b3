"""The metrics of an instance, for Prometheus. Each instance has a registry of its own.

Rules: only this file knows the Prometheus client. `METRICS` is the list that the documentation is checked against.
Labels stay few: the thread, and a task or store only where somebody would look for one. Source: the names in
`StreamsMetricsImpl`, `ThreadMetrics`, `TaskMetrics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from assignor.types import TaskId
from streams_runtime.task_states import TaskState, TaskType

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricName(NamedTuple):
    """`name`: as Prometheus shows it (counters end in `_total`)."""

    name: str
    labels: tuple[str, ...]
    description: str


METRICS = (
    MetricName("streams_processed_records_total", ("thread",), "Input records processed."),
    MetricName("streams_commits_total", ("thread",), "Commits of at least one task."),
    MetricName("streams_punctuations_total", ("thread",), "Punctuations fired."),
    MetricName("streams_restored_records_total", ("thread", "type"), "Changelog records applied, by type of task."),
    MetricName("streams_remaining_records", ("thread", "task"), "Changelog offsets left to restore of an active task."),
    MetricName("streams_restore_rate", ("thread",), "Records a second restored for active tasks, lately."),
    MetricName("streams_standby_lag", ("thread", "task", "store"), "Changelog offsets a standby's store is behind."),
    MetricName("streams_tasks", ("thread", "type", "state"), "Tasks by type and state."),
)
_BY_NAME = {metric.name: metric for metric in METRICS}


class InstanceMetrics:
    """The threads of the instance write through `thread`; any thread may read."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._counters = {
            each.name: Counter(each.name, each.description, each.labels, registry=self.registry)
            for each in METRICS
            if each.name.endswith("_total")
        }
        self._gauges = {
            each.name: Gauge(each.name, each.description, each.labels, registry=self.registry)
            for each in METRICS
            if not each.name.endswith("_total")
        }

    def thread(self, name: str) -> ThreadMetrics:
        """The metrics of a thread. A thread that replaces another one under its name goes on with its counters."""
        return ThreadMetrics(name, self._counters, self._gauges)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class ThreadMetrics:
    """The metrics of one stream thread, which reports counts once per pass, not record by record."""

    def __init__(self, name: str, counters: Mapping[str, Counter], gauges: Mapping[str, Gauge]) -> None:
        self._processed = counters["streams_processed_records_total"].labels(name)
        self._commits = counters["streams_commits_total"].labels(name)
        self._punctuations = counters["streams_punctuations_total"].labels(name)
        restored = counters["streams_restored_records_total"]
        self._restored_active = restored.labels(name, TaskType.ACTIVE.value)
        self._restored_standby = restored.labels(name, TaskType.STANDBY.value)
        self._restore_rate = _Series(name, gauges["streams_restore_rate"])
        self._remaining = _Series(name, gauges["streams_remaining_records"])
        self._standby_lags = _Series(name, gauges["streams_standby_lag"])
        self._tasks = _Series(name, gauges["streams_tasks"])

    def processed(self, records: int) -> None:
        self._processed.inc(records)

    def committed(self) -> None:
        self._commits.inc()

    def punctuated(self, times: int = 1) -> None:
        self._punctuations.inc(times)

    def restored(self, records: int, *, active: bool) -> None:
        """Records were applied: to restore an active task, or to keep a standby up to date."""
        (self._restored_active if active else self._restored_standby).inc(records)

    def restoring(self, remaining: Mapping[TaskId, int], records_per_s: float) -> None:
        """`remaining`: the offsets left to restore, of every active task of the thread that is restoring now."""
        self._remaining.set({(str(task),): left for task, left in remaining.items()})
        self._restore_rate.set({(): records_per_s})

    def standby_lags(self, lags: Mapping[tuple[TaskId, str], int]) -> None:
        """`lags`: of every standby store of the thread whose lag is known."""
        self._standby_lags.set({(str(task), store): lag for (task, store), lag in lags.items()})

    def tasks(self, tasks: Iterable[tuple[TaskType, TaskState]]) -> None:
        """`tasks`: the type and state of every task of the thread."""
        counts: dict[tuple[str, ...], float] = {}
        for task_type, state in tasks:
            key = (task_type.value, state.value)
            counts[key] = counts.get(key, 0) + 1
        self._tasks.set(counts)

    def close(self) -> None:
        """The thread has ended: its gauges are gone, its counters stay."""
        for series in (self._remaining, self._restore_rate, self._standby_lags, self._tasks):
            series.set({})


class _Series:
    """One thread's part of a gauge. A value that is not set any more is not shown any more."""

    def __init__(self, thread: str, gauge: Gauge) -> None:
        self._thread = thread
        self._gauge = gauge
        self._shown: set[tuple[str, ...]] = set()

    def set(self, values: Mapping[tuple[str, ...], float]) -> None:
        for gone in self._shown - values.keys():
            self._gauge.remove(self._thread, *gone)
        for labels, value in values.items():
            self._gauge.labels(self._thread, *labels).set(value)
        self._shown = set(values)
