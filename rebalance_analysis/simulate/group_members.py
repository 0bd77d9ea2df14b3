"""The members of a group during a forecast: what each has open, which closed state lies on which disk, what each would
report.

A process keeps the state of a task that it gave up until the clean-up delay has passed. In Kafka the thread reports
that state which is the first to lock its directory when all members rejoin. That is usually the thread that had the
task open last, because it locks the directory as soon as it has closed the task; in this model it always is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from assignor.types import LATEST_OFFSET, ProcessId, TaskId
from rebalance_analysis.simulate.modelled_thread import ModelledThread, to_restore_from
from rebalance_analysis.simulate.task_runs import ChangelogEnds, TaskRuns


class HandedOut(NamedTuple):
    """The tasks that one thread has open from now on."""

    active: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()


class ClosedState(NamedTuple):
    """State on disk that no thread has open. `offset_sum` may be UNKNOWN_OFFSET_SUM; `reporter`: the thread that
    reports it.
    """

    offset_sum: int
    since_ms: int
    reporter: str


@dataclass(slots=True)
class Members:
    """`threads`: by name, in the order of the recorded members. All times are since the recorded rebalance."""

    threads: Mapping[str, ModelledThread]
    ends: ChangelogEnds
    runs: TaskRuns
    state_cleanup_delay_ms: int
    closed: dict[ProcessId, dict[TaskId, ClosedState]] = field(default_factory=dict)

    def owners(self) -> dict[TaskId, ModelledThread]:
        """The thread that has each task active, whether the task runs already or is still being restored."""
        return {task: thread for thread in self.threads.values() for task in thread.active}

    def offset_sums(self, now_ms: int) -> dict[str, dict[TaskId, int]]:
        """What every thread reports: the tasks it has open, and the closed state that it reports."""
        self._clean_up(now_ms)
        reported = {name: thread.offset_sums(self.ends, now_ms) for name, thread in self.threads.items()}
        for states in self.closed.values():
            for task, state in states.items():
                reported[state.reporter][task] = state.offset_sum
        return reported

    def hand_out(self, handed_out: Mapping[str, HandedOut], now_ms: int) -> None:
        """Every thread closes what it loses and opens what it gets. A thread that is not named loses everything."""
        self._clean_up(now_ms)
        on_disk = self._on_disk(now_ms)
        reporters = self._reporters()
        for thread in self.threads.values():
            kept = handed_out.get(thread.name, HandedOut()).active
            for task in set(thread.active).difference(kept):
                self.runs.stops(task, now_ms)
        for name, thread in self.threads.items():
            active, standby = handed_out.get(name, HandedOut())
            disk = on_disk.setdefault(thread.process, {})
            restoring = {task: self._to_restore(thread, task, disk, now_ms) for task in active}
            opened = {task: to_restore_from(disk.get(task)) for task in standby}
            had = set(thread.active)
            thread.take(restoring, opened, self.ends, now_ms)
            for task, runs_from_ms in thread.active.items():
                if task not in had or runs_from_ms > now_ms:
                    self.runs.starts(task, runs_from_ms)
        self._close(on_disk, reporters, now_ms)

    def caught_up_ms(self) -> int | None:
        """When every copy will have caught up if nothing is handed out any more; None for never."""
        times = [thread.caught_up_ms(self.ends) for thread in self.threads.values()]
        known = [at_ms for at_ms in times if at_ms is not None]
        return max(known, default=0) if len(known) == len(times) else None

    def never_caught_up(self) -> tuple[TaskId, ...]:
        """Tasks with a copy on a thread that reads more slowly than records are appended."""
        slow = [thread for thread in self.threads.values() if thread.caught_up_ms(self.ends) is None]
        return tuple(sorted({task for thread in slow for task in thread.standby}))

    def behind(self, now_ms: int) -> tuple[TaskId, ...]:
        """Tasks with an open copy that has not reached the end."""
        late: set[TaskId] = set()
        for thread in self.threads.values():
            for task, offset_sum in thread.offset_sums(self.ends, now_ms).items():
                if offset_sum != LATEST_OFFSET and offset_sum < self.ends.end(task, now_ms):
                    late.add(task)
        return tuple(sorted(late))

    def _to_restore(self, thread: ModelledThread, task: TaskId, disk: Mapping[TaskId, int], now_ms: int) -> int | None:
        runs_from_ms = thread.active.get(task)
        if task not in self.ends or (runs_from_ms is not None and runs_from_ms <= now_ms):
            return None
        return to_restore_from(disk.get(task))

    def _on_disk(self, now_ms: int) -> dict[ProcessId, dict[TaskId, int]]:
        """Offset sums of all state, open and closed; a task that ran until now is at the end."""
        on_disk = {
            process: {task: each.offset_sum for task, each in states.items()} for process, states in self.closed.items()
        }
        for thread in self.threads.values():
            disk = on_disk.setdefault(thread.process, {})
            for task, offset_sum in thread.offset_sums(self.ends, now_ms).items():
                disk[task] = self.ends.end(task, now_ms) if offset_sum == LATEST_OFFSET else offset_sum
        return on_disk

    def _reporters(self) -> dict[tuple[ProcessId, TaskId], str]:
        """The thread that reports each piece of state, open or closed."""
        closed = {
            (process, task): each.reporter for process, states in self.closed.items() for task, each in states.items()
        }
        opened = {
            (thread.process, task): name
            for name, thread in self.threads.items()
            for task in (*thread.active, *thread.standby)
        }
        return closed | opened

    def _close(
        self,
        on_disk: Mapping[ProcessId, Mapping[TaskId, int]],
        reporters: Mapping[tuple[ProcessId, TaskId], str],
        now_ms: int,
    ) -> None:
        """State on disk that no thread has open any more; what was closed before keeps its time."""
        opened: dict[ProcessId, set[TaskId]] = {}
        for thread in self.threads.values():
            opened.setdefault(thread.process, set()).update(thread.active, thread.standby)
        closed_before, self.closed = self.closed, {}
        for process, states in on_disk.items():
            before = closed_before.get(process, {})
            self.closed[process] = {
                task: before.get(task) or ClosedState(offset_sum, now_ms, reporters[process, task])
                for task, offset_sum in sorted(states.items())
                if task not in opened.get(process, ())
            }

    def _clean_up(self, now_ms: int) -> None:
        for states in self.closed.values():
            for task in [task for task, each in states.items() if now_ms - each.since_ms > self.state_cleanup_delay_ms]:
                del states[task]
