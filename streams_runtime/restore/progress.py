"""Shows people how far restoring has come: bars on a terminal, lines every few seconds elsewhere.

Rule: what remains is counted in offsets, since nobody knows how many records lie between two of them; `records` are
those that were applied. All threads of an instance share one display. Kafka has no counterpart; it logs a line every
ten seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from rich.console import Console

from assignor.topology.group_topology import GroupTopology
from assignor.types import TaskId, TopicPartition
from streams_runtime.clock import Clock, SystemClock
from streams_runtime.restore.progress_view import BarsView, LinesView, ProgressRow, ProgressView
from streams_runtime.restore.restore_meter import RestoreRate


def tasks_of_changelogs(topology: GroupTopology) -> Callable[[TopicPartition], TaskId | None]:
    """A function from a changelog partition to the task that restores it; None for a topic that is no changelog."""
    subtopologies = {
        topic: subtopology.id
        for subtopology in topology.subtopologies
        for store in subtopology.stores
        if (topic := store.changelog_topic or store.source_topic_as_changelog) is not None
    }

    def task_of(partition: TopicPartition) -> TaskId | None:
        subtopology = subtopologies.get(partition.topic)
        return None if subtopology is None else TaskId(subtopology, partition.partition)

    return task_of


class _Changelog(NamedTuple):
    start: int
    end: int
    position: int


class _TaskProgress:
    """One row: a task with all its changelogs, or a changelog whose task is not known."""

    def __init__(self, clock: Clock) -> None:
        self.changelogs: dict[TopicPartition, _Changelog] = {}
        self.unfinished: set[TopicPartition] = set()
        self.records = 0
        self.rate = RestoreRate(clock)
        self.rate.start()

    def row(self, label: str) -> ProgressRow:
        total = sum(each.end - each.start for each in self.changelogs.values())
        remaining = sum(each.end - each.position for each in self.changelogs.values())
        return ProgressRow(label, total, remaining, self.records, self.rate.per_second(), not self.unfinished)


class RestoreProgress:
    """A `RestoreListener` that all threads may call.

    `task_of`: from `tasks_of_changelogs`; without it, a row is a changelog and not a task. `interval_ms`: the time
    between lines where there is no terminal.
    """

    def __init__(
        self,
        console: Console | None = None,
        *,
        task_of: Callable[[TopicPartition], TaskId | None] = lambda partition: None,
        clock: Clock | None = None,
        interval_ms: int = 5_000,
    ) -> None:
        console = console or Console(stderr=True)
        self._clock = clock or SystemClock()
        self._task_of = task_of
        self._view: ProgressView = (
            BarsView(console, self._clock) if console.is_terminal else LinesView(console, self._clock, interval_ms)
        )
        self._lock = threading.Lock()
        self._rows: dict[str, _TaskProgress] = {}
        self._rate = RestoreRate(self._clock)
        self._records = 0
        self._suspended = False

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        with self._lock:
            task = self._rows.setdefault(self._label(partition), _TaskProgress(self._clock))
            task.changelogs[partition] = _Changelog(start, max(start, end), start)
            task.unfinished.add(partition)
            self._rate.start()
            self._show()

    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None:
        with self._lock:
            task = self._rows.get(self._label(partition))
            if task is None or partition not in task.changelogs:
                return
            changelog = task.changelogs[partition]
            task.changelogs[partition] = changelog._replace(position=min(batch_end + 1, changelog.end))
            task.records += count
            task.rate.add(count)
            self._rate.add(count)
            self._records += count
            if self._view.is_due():
                self._show()

    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None:
        with self._lock:
            task = self._rows.get(self._label(partition))
            if task is None or partition not in task.changelogs:
                return
            changelog = task.changelogs[partition]
            task.changelogs[partition] = changelog._replace(position=changelog.end)
            self._finished(task, partition)

    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None:
        with self._lock:
            task = self._rows.get(self._label(partition))
            if task is None or partition not in task.changelogs:
                return
            self._suspended = True
            del task.changelogs[partition]
            if not task.changelogs:
                del self._rows[self._label(partition)]
            self._finished(task, partition)

    def close(self) -> None:
        """Give the terminal back, even if a restore is unfinished."""
        with self._lock:
            self._end()

    def _finished(self, task: _TaskProgress, partition: TopicPartition) -> None:
        task.unfinished.discard(partition)
        self._show()
        if not any(each.unfinished for each in self._rows.values()):
            self._end()

    def _end(self) -> None:
        self._view.close()
        self._rows.clear()
        self._rate = RestoreRate(self._clock)
        self._records = 0
        self._suspended = False

    def _show(self) -> None:
        rows = [task.row(label) for label, task in sorted(self._rows.items())]
        total = ProgressRow(
            "total",
            sum(row.total for row in rows),
            sum(row.remaining for row in rows),
            self._records,
            self._rate.per_second(),
            not self._suspended and all(row.finished for row in rows),
        )
        self._view.show(rows, total)

    def _label(self, partition: TopicPartition) -> str:
        task = self._task_of(partition)
        return str(partition) if task is None else str(task)
