"""Shows the progress of restores. On a terminal, it shows bars. If the output is not a terminal, it prints lines every
few seconds.

Rule: `total` and `remaining` are numbers of offsets, because the number of records between two offsets is not known.
`records` is the number of applied records. All threads of an instance share one progress display. Kafka has no progress
display, but logs a line every ten seconds.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from rich.console import Console
from rich.errors import LiveError
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from assignor.topology.group_topology import GroupTopology
from assignor.types import TaskId, TopicPartition
from rebalance_analysis.presentation.quantities import time_left_ms
from streams_runtime.common.clock import Clock, SystemClock
from streams_runtime.instance.restore.restore_meter import RestoreRate

_BARS_MS = 100


class ProgressRow(NamedTuple):
    """One row of the display, for one Streams task or for one changelog. `total`: the number of offsets to restore.
    `remaining`: the number of offsets that are not restored yet. `records`: the number of applied records. `per_s`: the
    average number of applied records per second, in the last seconds.
    """

    label: str
    total: int
    remaining: int
    records: int
    per_s: float
    finished: bool

    @property
    def percent(self) -> float:
        return 100.0 if self.total == 0 else 100.0 * (self.total - self.remaining) / self.total

    @property
    def time_left(self) -> str:
        """The expected remaining time as `h:mm:ss`, rounded up. The text is `-:--:--` if no records were applied in the
        last seconds.
        """
        if self.finished or self.remaining == 0:
            return "0:00:00"
        left_ms = time_left_ms(self.remaining, self.per_s)
        if left_ms is None:
            return "-:--:--"
        seconds = -(-left_ms // 1_000)
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


class BarsView:
    """Shows a bar for each row and a bar for the total. The bars are updated while a restore is running."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._shown_ms = 0
        self._progress: Progress | None = None
        self._bars: dict[str, TaskID] = {}

    def is_due(self) -> bool:
        return self._clock.monotonic_ms() - self._shown_ms >= _BARS_MS

    def show(self, rows: list[ProgressRow], total: ProgressRow) -> None:
        self._shown_ms = self._clock.monotonic_ms()
        progress = self._progress or self._start()
        shown = [total, *rows]
        for label in self._bars.keys() - {row.label for row in shown}:
            progress.remove_task(self._bars.pop(label))
        for row in shown:
            if row.label not in self._bars:
                self._bars[row.label] = progress.add_task(row.label, left="", rate="", time="")
            progress.update(
                self._bars[row.label],
                total=max(row.total, 1),
                completed=row.total - row.remaining if row.total else 1,
                left=f"{row.remaining:,}",
                rate=f"{row.per_s:,.0f}",
                time=row.time_left,
            )

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        self._progress = None
        self._bars.clear()

    def _start(self) -> Progress:
        self._progress = progress = Progress(
            TextColumn("restoring {task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[left]} left"),
            TextColumn("{task.fields[rate]} records/s"),
            TextColumn("{task.fields[time]}"),
            console=self._console,
            refresh_per_second=4,
        )
        # The error is ignored, because an error of the display must not end the restore. For example, another live
        # display may use this terminal.
        with suppress(LiveError):
            progress.start()
        return progress


class LinesView:
    """Every `interval_ms`, prints a line for the total and a line for each unfinished row. At the end of the restore,
    prints a line for the total.
    """

    def __init__(self, console: Console, clock: Clock, interval_ms: int) -> None:
        self._console = console
        self._clock = clock
        self._interval_ms = interval_ms
        self._next_ms: int | None = None
        self._started_ms = 0
        self._last: ProgressRow | None = None

    def is_due(self) -> bool:
        return self._next_ms is not None and self._clock.monotonic_ms() >= self._next_ms

    def show(self, rows: list[ProgressRow], total: ProgressRow) -> None:
        now_ms = self._clock.monotonic_ms()
        self._last = total
        if self._next_ms is None:
            self._started_ms = now_ms
            self._next_ms = now_ms + self._interval_ms
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + self._interval_ms
        for row in (total, *(row for row in rows if not row.finished)):
            self._print(
                f"restoring {row.label}: {row.percent:.0f}%, {row.remaining:,} left, "
                f"{row.per_s:,.0f} records/s, {row.time_left}"
            )

    def close(self) -> None:
        if self._last is not None:
            took_s = (self._clock.monotonic_ms() - self._started_ms) / 1_000
            state = "restored" if self._last.finished else "restoring suspended:"
            self._print(f"{state} {self._last.records:,} records in {took_s:.1f} s")
        self._next_ms = self._last = None

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def tasks_of_changelogs(topology: GroupTopology) -> Callable[[TopicPartition], TaskId | None]:
    """Returns a function that finds the task of a changelog partition. For a partition that is not a changelog, the
    function returns None.
    """
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


class _RowProgress:
    """The progress of one row. A row is for a task with all its changelogs, for a changelog without a known task, or
    for the total.
    """

    def __init__(self, clock: Clock) -> None:
        self.changelogs: dict[TopicPartition, _Changelog] = {}
        self.unfinished: set[TopicPartition] = set()
        self._records = 0
        self._rate = RestoreRate(clock)

    def start(self, partition: TopicPartition, start: int, end: int) -> None:
        self.changelogs[partition] = _Changelog(start, max(start, end), start)
        self.unfinished.add(partition)
        self._rate.start()

    def apply(self, partition: TopicPartition, position: int, records: int) -> None:
        changelog = self.changelogs[partition]
        self.changelogs[partition] = changelog._replace(position=min(position, changelog.end))
        self._records += records
        self._rate.add(records)

    def end(self, partition: TopicPartition) -> None:
        changelog = self.changelogs[partition]
        self.changelogs[partition] = changelog._replace(position=changelog.end)
        self.unfinished.discard(partition)

    def suspend(self, partition: TopicPartition) -> None:
        del self.changelogs[partition]
        self.unfinished.discard(partition)

    def row(self, label: str) -> ProgressRow:
        total = sum(each.end - each.start for each in self.changelogs.values())
        remaining = sum(each.end - each.position for each in self.changelogs.values())
        return ProgressRow(label, total, remaining, self._records, self._rate.per_second(), not self.unfinished)


class RestoreProgress:
    """A `RestoreListener` that shows the progress. Any thread may call the methods of `RestoreProgress`.

    `task_of`: the result of `tasks_of_changelogs`. If `task_of` is None, the display has a row for each changelog
    instead of each task. `interval_ms`: the interval at which lines are printed if the output is not a terminal.
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
        self._view: BarsView | LinesView = (
            BarsView(console, self._clock) if console.is_terminal else LinesView(console, self._clock, interval_ms)
        )
        self._lock = threading.Lock()
        self._rows: dict[str, _RowProgress] = {}
        self._total = _RowProgress(self._clock)
        self._suspended = False

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        with self._lock:
            row = self._rows.setdefault(self._label(partition), _RowProgress(self._clock))
            for each in (row, self._total):
                each.start(partition, start, end)
            self._show()

    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None:
        with self._lock:
            for each in self._restoring(partition):
                each.apply(partition, batch_end + 1, count)
            if self._total.unfinished and self._view.is_due():
                self._show()

    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None:
        with self._lock:
            restoring = self._restoring(partition)
            for each in restoring:
                each.end(partition)
            if restoring:
                self._finished()

    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None:
        with self._lock:
            restoring = self._restoring(partition)
            for each in restoring:
                each.suspend(partition)
            if restoring:
                self._suspended = True
                self._rows = {label: row for label, row in self._rows.items() if row.changelogs}
                self._finished()

    def close(self) -> None:
        """End the display, even if a restore is still running."""
        with self._lock:
            self._end()

    def _restoring(self, partition: TopicPartition) -> list[_RowProgress]:
        """Returns the row of the changelog and the row of the total. Returns an empty list if the changelog is not
        shown.
        """
        if partition not in self._total.changelogs:
            return []
        return [self._rows[self._label(partition)], self._total]

    def _finished(self) -> None:
        self._show()
        if not self._total.unfinished:
            self._end()

    def _end(self) -> None:
        self._view.close()
        self._rows.clear()
        self._total = _RowProgress(self._clock)
        self._suspended = False

    def _show(self) -> None:
        total = self._total.row("total")
        rows = [row.row(label) for label, row in sorted(self._rows.items())]
        self._view.show(rows, total._replace(finished=total.finished and not self._suspended))

    def _label(self, partition: TopicPartition) -> str:
        task = self._task_of(partition)
        return str(partition) if task is None else str(task)
