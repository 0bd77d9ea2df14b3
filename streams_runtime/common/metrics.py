"""The metrics of an instance, for Prometheus. Each instance has a registry of its own.

Rules: only this file imports the Prometheus client. The documentation's table of metrics is generated from `METRICS`. A
metric has few labels. The most frequent label is the thread. A metric has a label for the task or the store only if
operators need this label. Source: the names in `StreamsMetricsImpl`, `ThreadMetrics`, `TaskMetrics`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from assignor.types import TaskId
from streams_runtime.common.states import TaskState, TaskType

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricName(NamedTuple):
    """`name`: the name in Prometheus, which ends in `_total` for a counter. `kafka`: the name in Kafka Streams, if
    there is one.
    """

    name: str
    labels: tuple[str, ...]
    description: str
    kafka: str = ""


METRICS = (
    MetricName(
        "streams_processed_records_total", ("thread",), "Input records that the thread processed.", "process-total"
    ),
    MetricName(
        "streams_task_processed_records_total",
        ("thread", "task"),
        "Input records processed, by task. The value of a task is removed when the task leaves the thread.",
        "process-total",
    ),
    MetricName(
        "streams_dropped_records_total",
        ("thread", "task", "reason"),
        "Records that were dropped because they were late, had no key or value, had a negative timestamp, failed, "
        "or were sent to the dead-letter topic.",
        "dropped-records-total",
    ),
    MetricName(
        "streams_filtered_null_keys_total",
        ("thread", "task"),
        "Records without key that are not written to a repartition topic. Kafka Streams filters such records out, "
        "too, but does not count them.",
    ),
    MetricName(
        "streams_passed_over_records_total",
        ("thread", "task", "topic"),
        "Input records, counted by offsets, that the log had deleted before the group read them.",
    ),
    MetricName(
        "streams_missing_windows_total",
        ("thread", "task", "store"),
        "Largest possible number of windows that a restore did not get because the log had deleted them from the "
        "changelog.",
    ),
    MetricName(
        "streams_rebuilt_stores_total",
        ("thread", "task"),
        "Stores that were deleted and restored from their changelogs because their files were damaged, or were the "
        "state of another log.",
    ),
    MetricName(
        "streams_windows_at_risk",
        ("thread", "task", "store"),
        "Largest possible number of windows that the log may delete from the changelog although the store still "
        "has them.",
    ),
    MetricName(
        "streams_buffered_records",
        ("thread", "task"),
        "Input records that were polled and are not processed yet.",
        "active-buffer-count",
    ),
    MetricName("streams_polls_total", ("thread",), "Polls for input records.", "poll-total"),
    MetricName("streams_commits_total", ("thread",), "Commits of one or more tasks.", "commit-total"),
    MetricName("streams_punctuations_total", ("thread",), "Calls of punctuators.", "punctuate-total"),
    MetricName(
        "streams_created_tasks_total", ("thread",), "Tasks that were assigned to the thread.", "task-created-total"
    ),
    MetricName(
        "streams_closed_tasks_total", ("thread",), "Tasks that were removed from the thread.", "task-closed-total"
    ),
    MetricName(
        "streams_restored_records_total",
        ("thread", "type"),
        "Changelog records that were applied to stores, by type of task.",
        "restore-total, update-total",
    ),
    MetricName(
        "streams_remaining_records",
        ("thread", "task"),
        "Changelog offsets that an active task still has to restore.",
        "restore-remaining-records-total",
    ),
    MetricName(
        "streams_restore_rate",
        ("thread",),
        "Changelog records a second that the thread recently restored for active tasks.",
        "restore-rate",
    ),
    MetricName(
        "streams_standby_lag",
        ("thread", "task", "store"),
        "Changelog offsets by which the store of a standby is behind the end of its changelog.",
    ),
    MetricName(
        "streams_paused",
        ("by",),
        "1 while the instance's user (`user`) or the group's operator (`group`) pauses the instance; else 0.",
    ),
    MetricName("streams_tasks", ("thread", "type", "state"), "Tasks of the thread, by type and state."),
)


class PausedBy(StrEnum):
    """An instance can be paused by its user or by the group's operator."""

    USER = "user"
    GROUP = "group"


class InstanceMetrics:
    """The metrics of one instance. The instance's threads write their metrics through `thread`. Any thread may read the
    metrics.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        for name, labels, description, _kafka in METRICS:
            if name.endswith("_total"):
                self._counters[name] = Counter(name, description, labels, registry=self.registry)
            else:
                self._gauges[name] = Gauge(name, description, labels, registry=self.registry)

    def thread(self, name: str) -> ThreadMetrics:
        """Returns the metrics of a thread. If a thread replaces another thread of the same name, the counters continue
        at their old values.
        """
        return ThreadMetrics(name, self._counters, self._gauges)

    def paused(self, by: PausedBy, paused: bool) -> None:
        self._gauges["streams_paused"].labels(by.value).set(int(paused))

    def exposition(self) -> bytes:
        """Returns all metrics of the instance, in Prometheus' text format."""
        return generate_latest(self.registry)


class ThreadMetrics:
    """The metrics of one stream thread. The thread reports counts once per pass and not for each record.
    `processed_records`, `dropped_records`, `passed_over_records`: the numbers of records since this object was made,
    for progress displays. Records are passed over if the log deleted them before the group read them. `dropped_records`
    includes the records that were filtered out for their null keys. `polls`, `commits`, `punctuations`: counters.
    """

    def __init__(self, name: str, counters: Mapping[str, Counter], gauges: Mapping[str, Gauge]) -> None:
        self.name = name
        self.processed_records = self.dropped_records = self.passed_over_records = 0
        self._counters = counters
        self._processed = counters["streams_processed_records_total"].labels(name)
        self._processed_by_task = counters["streams_task_processed_records_total"]
        self._tasks_processed: dict[TaskId, Counter] = {}
        self.polls = counters["streams_polls_total"].labels(name)
        self._created = counters["streams_created_tasks_total"].labels(name)
        self._closed = counters["streams_closed_tasks_total"].labels(name)
        self.commits = counters["streams_commits_total"].labels(name)
        self.punctuations = counters["streams_punctuations_total"].labels(name)
        restored = counters["streams_restored_records_total"]
        self._restored_active = restored.labels(name, TaskType.ACTIVE.value)
        self._restored_standby = restored.labels(name, TaskType.STANDBY.value)
        self._series = {
            each.name: _Series(name, gauges[each.name])
            for each in METRICS
            if each.name in gauges and "thread" in each.labels
        }
        self._ids: frozenset[tuple[TaskId, TaskType]] = frozenset()

    def task(self, task: TaskId) -> TaskMetrics:
        """Returns the counters of one task."""
        return TaskMetrics(self, str(task), self._counters)

    def processed(self, records: int) -> None:
        self.processed_records += records
        self._processed.inc(records)

    def task_processed(self, task: TaskId, records: int) -> None:
        counter = self._tasks_processed.get(task)
        if counter is None:
            counter = self._tasks_processed[task] = self._processed_by_task.labels(self.name, str(task))
        counter.inc(records)

    def restored(self, records: int, *, active: bool) -> None:
        """Counts changelog records that were written to stores. `active`: True if an active task is being restored,
        False for a standby.
        """
        (self._restored_active if active else self._restored_standby).inc(records)

    def restoring(self, remaining: Mapping[TaskId, int], records_per_s: float) -> None:
        """Sets the gauges of restoring tasks. `remaining`: for each active task that is being restored, the number of
        offsets that the task still has to restore.
        """
        self._series["streams_remaining_records"].set({(str(task),): left for task, left in remaining.items()})
        self._series["streams_restore_rate"].set({(): records_per_s})

    def standby_lags(self, lags: Mapping[tuple[TaskId, str], int]) -> None:
        """Sets the gauge of standby lags. `lags`: the lags of the thread's standby stores, as far as they are known."""
        self._series["streams_standby_lag"].set({(str(task), store): lag for (task, store), lag in lags.items()})

    def tasks(self, tasks: Iterable[tuple[TaskId, TaskType, TaskState]]) -> None:
        """Sets the gauge of tasks, and counts created and closed tasks. `tasks`: all tasks of the thread."""
        counts: dict[tuple[str, ...], float] = {}
        ids = set()
        for task_id, task_type, state in tasks:
            ids.add((task_id, task_type))
            key = (task_type.value, state.value)
            counts[key] = counts.get(key, 0) + 1
        self._series["streams_tasks"].set(counts)
        self._created.inc(len(ids - self._ids))
        self._left(self._ids - ids)
        self._ids = frozenset(ids)

    def buffered(self, records: Mapping[TaskId, int]) -> None:
        """Sets the gauge of buffered records. `records`: the number of buffered records of each running active task."""
        self._series["streams_buffered_records"].set({(str(task),): count for task, count in records.items()})

    def windows_at_risk(self, windows: Mapping[tuple[TaskId, str], int]) -> None:
        """Sets the gauge of windows at risk. `windows`: the number of windows at risk of each window store that has
        such windows.
        """
        counts: dict[tuple[str, ...], float] = {(str(task), store): count for (task, store), count in windows.items()}
        self._series["streams_windows_at_risk"].set(counts)

    def close(self) -> None:
        """Removes the gauges of the thread, because the thread has ended. Also removes the counters of each task's
        processed records. Does not remove the counters of the thread.
        """
        for series in self._series.values():
            series.set({})
        self._left(self._ids)
        self._ids = frozenset()

    def _left(self, tasks: Collection[tuple[TaskId, TaskType]]) -> None:
        self._closed.inc(len(tasks))
        for task, task_type in tasks:
            if task_type is TaskType.ACTIVE and self._tasks_processed.pop(task, None) is not None:
                self._processed_by_task.remove(self.name, str(task))


class TaskMetrics:
    """The counters of one task's losses. The counters stay in the registry when the task leaves its thread, so that no
    loss is forgotten.
    """

    def __init__(self, thread: ThreadMetrics, task: str, counters: Mapping[str, Counter]) -> None:
        self._thread = thread
        self._names = thread.name, task
        self._dropped = counters["streams_dropped_records_total"]
        self._filtered_null_keys = counters["streams_filtered_null_keys_total"]
        self._passed_over = counters["streams_passed_over_records_total"]
        self._missing_windows = counters["streams_missing_windows_total"]
        self._rebuilt_stores = counters["streams_rebuilt_stores_total"]
        self._by_reason: dict[str, Counter] = {}

    def dropped(self, reason: str) -> None:
        counter = self._by_reason.get(reason)
        if counter is None:
            counter = self._by_reason[reason] = self._dropped.labels(*self._names, reason)
        counter.inc()
        self._thread.dropped_records += 1

    def windows_missing(self, store: str, windows: int) -> None:
        self._missing_windows.labels(*self._names, store).inc(windows)

    def store_rebuilt(self) -> None:
        self._rebuilt_stores.labels(*self._names).inc()

    def null_key_filtered(self) -> None:
        self._filtered_null_keys.labels(*self._names).inc()
        self._thread.dropped_records += 1

    def passed_over(self, topic: str, records: int) -> None:
        self._thread.passed_over_records += records
        self._passed_over.labels(*self._names, topic).inc(records)


class _Series:
    """The values of one thread in a gauge. `set` replaces all values, and removes each series that has no new value."""

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
