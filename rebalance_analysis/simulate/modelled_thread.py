"""Models a stream thread with its open tasks and their restored positions. Also models the times in which each task
runs, and the growth of changelogs.

A thread restores its active tasks one after the other, in the order of task ids. Each task runs as soon as it is
restored. When the thread has restored all its active tasks, it reads records for its standbys and warm-ups. The thread
divides its read rate equally among these copies. A task appends no records while it does not run. So the number of
records to restore is known when the task is assigned. But a standby may read a changelog that grows at the same time.

When a task is assigned, the model computes the time at which its owner will have restored it. From this time on, the
task runs. If the task is revoked before this time, the model discards the computed time. All times are in milliseconds
since the recorded rebalance.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId
from rebalance_analysis.simulate.model import ForecastModel

_FRACTION_BITS = 53
_FRACTIONS = float(1 << _FRACTION_BITS)


class Rates(NamedTuple):
    """The rates of one stream thread in records per second. `restore`: the rate at which the thread restores all its
    active tasks together. `standby`: the rate at which the thread reads records for all its standbys together.
    """

    restore: float
    standby: float


def rates_of(model: ForecastModel, process: ProcessId, threads: int = 1) -> Rates:
    """Returns the rates of the model, multiplied by the jitter factor of the process. `threads`: the number of stream
    threads that one ModelledThread represents.
    """
    factor = _factor(model, process) * threads
    return Rates(model.restore_records_per_s * factor, model.standby_records_per_s * factor)


def _factor(model: ForecastModel, process: ProcessId) -> float:
    """Returns the jitter factor of the process: a number between 1 - jitter and 1 + jitter, and never 0."""
    if not model.jitter:
        return 1.0
    drawn = hashlib.blake2b(f"{model.seed}/{process}".encode(), digest_size=8).digest()
    number = int.from_bytes(drawn, "big") >> (64 - _FRACTION_BITS)
    fraction = (number + 0.5) / _FRACTIONS
    return 1.0 + model.jitter * (2.0 * fraction - 1.0)


class Restore(NamedTuple):
    """The restore of an active task. `position`, `end`: the offset sums at the beginning and the end of the restore."""

    begins_ms: int
    runs_from_ms: int
    position: int
    end: int


@dataclass(slots=True)
class ModelledThread:
    """A stream thread of the model. `active`: for each active task, the time from which it runs. `restores`: the
    restore of each active task that had to be restored. `standby`: for each standby, its offset sum at the time
    `since_ms`.
    """

    name: str
    process: ProcessId
    rates: Rates
    active: dict[TaskId, int] = field(default_factory=dict)
    restores: dict[TaskId, Restore] = field(default_factory=dict)
    standby: dict[TaskId, int] = field(default_factory=dict)
    since_ms: int = 0

    def take(
        self, active: Mapping[TaskId, int | None], standby: Mapping[TaskId, int], ends: ChangelogEnds, now_ms: int
    ) -> None:
        """Sets the tasks that the thread has open. They are open from the time `now_ms` on. `active`: for each active
        task, the offset sum from which it is restored; None if the task already runs or has no state. `standby`: for
        each standby, its offset sum.
        """
        before = self.active
        self.active, self.restores, self.since_ms = {}, {}, now_ms
        self.standby = dict(sorted(standby.items()))
        begins_ms, records = now_ms, 0
        for task, position in sorted(active.items()):
            if position is None:
                self.active[task] = min(before.get(task, now_ms), now_ms)
                continue
            end = ends.end(task, now_ms)
            records += max(end - position, 0)
            runs_from_ms = now_ms + math.ceil(records * 1000 / self.rates.restore)
            self.restores[task] = Restore(begins_ms, runs_from_ms, position, end)
            self.active[task] = begins_ms = runs_from_ms

    @property
    def free_from_ms(self) -> int:
        """The time at which the thread has restored all its active tasks and begins to read for its standbys."""
        return max((each.runs_from_ms for each in self.restores.values()), default=self.since_ms)

    def offset_sums(self, ends: ChangelogEnds, now_ms: int) -> dict[TaskId, int]:
        """Returns the offset sums that the thread reports. For a running stateful task, the offset sum is
        LATEST_OFFSET. For any other copy, the offset sum is the position of the copy.
        """
        sums = {
            task: LATEST_OFFSET if runs_from_ms <= now_ms else self._restored(self.restores[task], now_ms)
            for task, runs_from_ms in self.active.items()
            if task in ends
        }
        return sums | self._standby_sums(ends, now_ms)

    def _restored(self, restore: Restore, now_ms: int) -> int:
        read = int(self.rates.restore * max(now_ms - restore.begins_ms, 0) / 1000)
        return min(restore.position + read, restore.end)

    def _standby_sums(self, ends: ChangelogEnds, now_ms: int) -> dict[TaskId, int]:
        missing = {task: max(ends.end(task, now_ms) - position, 0) for task, position in self.standby.items()}
        if not any(missing.values()):
            return dict(self.standby)
        read = shared_out(missing, int(self.rates.standby * max(now_ms - self.free_from_ms, 0) / 1000))
        return {task: position + read[task] for task, position in self.standby.items()}

    def caught_up_ms(self, ends: ChangelogEnds) -> int | None:
        """Returns the time at which all copies on the thread will have caught up if there is no further assignment;
        None if a copy never catches up. Changelogs begin to grow one after the other, so the thread catches up more and
        more slowly. If the thread is fast enough while all changelogs grow, it catches up and does not fall behind
        again.
        """
        free_ms = self.free_from_ms
        if not self.standby:
            return free_ms
        missing = sum(max(ends.end(task, free_ms) - position, 0) for task, position in self.standby.items())
        appended = ends.appended_records_per_s
        grow_from = sorted(ends.runs.runs_from[task] for task in self.standby if task in ends.runs.runs_from)
        if appended * len(grow_from) > self.rates.standby:
            return None
        now_ms, growing = free_ms, sum(1 for at_ms in grow_from if at_ms <= free_ms)
        for at_ms in grow_from[growing:]:
            faster = self.rates.standby - appended * growing
            if missing * 1000 <= faster * (at_ms - now_ms):
                break
            missing -= int(faster * (at_ms - now_ms) / 1000)
            now_ms, growing = at_ms, growing + 1
        faster = self.rates.standby - appended * growing
        if missing and faster <= 0:
            return None
        return now_ms + (math.ceil(missing * 1000 / faster) if missing else 0)


def shared_out(missing: Mapping[TaskId, int], records: int) -> dict[TaskId, int]:
    """Divides a number of records equally among tasks. `missing`: for each task, the number of records that it has to
    read. A task gets at most this number. If the division has a remainder, the first tasks get one record more.
    """
    shares = dict(missing)
    left = records
    if sum(missing.values()) <= left:
        return shares
    for waiting, (_, wanted) in enumerate(sorted(missing.items(), key=lambda item: item[1])):
        share = left // (len(missing) - waiting)
        if wanted > share:
            short = sorted(sorted(missing, key=missing.__getitem__)[waiting:])
            for number, each in enumerate(short):
                shares[each] = share + (number < left % len(short))
            break
        left -= wanted
    return shares


def to_restore_from(offset_sum: int | None) -> int:
    """Returns the offset sum from which a copy begins to read. If the copy has no state, or if the position of its
    state is not known, this offset sum is 0.
    """
    return 0 if offset_sum is None or offset_sum == UNKNOWN_OFFSET_SUM else offset_sum


@dataclass(slots=True)
class TaskRuns:
    """Measures the periods in which tasks do not run. `unowned_since`: for each task that does not run, the time at
    which it stopped. `unowned_ms`: the sum of the periods in which a task did not run. `longest_ms`: the longest of
    these periods. A period is added when it ends. At the end of the forecast, `finish` adds the periods that have not
    ended.
    """

    unowned_since: dict[TaskId, int]
    unowned_ms: int = 0
    longest_ms: int = 0
    longest_task: TaskId | None = None
    _runs_from: dict[TaskId, int] = field(default_factory=dict)
    _ran_ms: dict[TaskId, int] = field(default_factory=dict)

    def starts(self, task: TaskId, at_ms: int) -> None:
        """Stores the time `at_ms` from which an owner runs the task. The time `at_ms` may be in the future."""
        self._runs_from[task] = at_ms

    def stops(self, task: TaskId, at_ms: int) -> None:
        """Stores the time `at_ms` at which the owner of the task closes it. Before this time, the task ran or was being
        restored.
        """
        runs_from = self._runs_from.pop(task)
        if runs_from > at_ms:
            return
        self._count(task, runs_from)
        self._ran_ms[task] = self._ran_ms.get(task, 0) + at_ms - runs_from
        self.unowned_since[task] = at_ms

    def ran_ms(self, task: TaskId, now_ms: int) -> int:
        """Returns the time, in milliseconds, during which the task has run on any thread since the recorded
        rebalance.
        """
        runs_from = self._runs_from.get(task)
        running = 0 if runs_from is None else max(now_ms - max(runs_from, 0), 0)
        return self._ran_ms.get(task, 0) + running

    def finish(self, now_ms: int) -> None:
        """Ends all periods in which a task does not run, and adds them. Call `finish` after the last assignment. For a
        task that is being restored, the period ends when the task runs. For a task without an owner, the period ends at
        `now_ms`.
        """
        for task in sorted(self.unowned_since):
            self._count(task, self._runs_from.get(task, now_ms))

    @property
    def runs_from(self) -> Mapping[TaskId, int]:
        """For each task that has an owner, the time from which it runs."""
        return self._runs_from

    def _count(self, task: TaskId, until_ms: int) -> None:
        stretch_ms = until_ms - self.unowned_since.pop(task, until_ms)
        self.unowned_ms += stretch_ms
        if stretch_ms > self.longest_ms:
            self.longest_ms, self.longest_task = stretch_ms, task


@dataclass(frozen=True, slots=True)
class ChangelogEnds:
    """The end offsets of changelogs, which grow during a forecast. `recorded`: the end-offset sum of each stateful task
    at the recorded rebalance.
    """

    recorded: Mapping[TaskId, int]
    appended_records_per_s: float
    runs: TaskRuns

    def __contains__(self, task: TaskId) -> bool:
        return task in self.recorded

    def end(self, task: TaskId, now_ms: int) -> int:
        """Returns the end-offset sum of a stateful task at the time `now_ms`."""
        return self.recorded[task] + self.appended(task, now_ms)

    def appended(self, task: TaskId, now_ms: int) -> int:
        """Returns the number of records that the task has appended since the recorded rebalance. The number has an
        upper limit, so the sum of end offsets is never larger than Java's largest long.
        """
        if not self.appended_records_per_s:
            return 0
        records = int(self.appended_records_per_s * self.runs.ran_ms(task, now_ms) / 1000)
        return min(records, JAVA_LONG_MAX - self.recorded[task])

    def ends(self, now_ms: int) -> Mapping[TaskId, int]:
        """Returns the end-offset sums of all stateful tasks at the time `now_ms`."""
        if not self.appended_records_per_s:
            return self.recorded
        return {task: self.end(task, now_ms) for task in self.recorded}
