"""Models the members of a group in a forecast: their open tasks, the closed state on their disks, and the offset sums
that they report. `first_members` reads the subscriptions, and makes the members at the start of the recorded rebalance.

If a process closes a task, the state of the task stays on disk until the clean-up delay has passed. When all members of
a Kafka group rejoin, one thread of each process locks the state directory first. This thread reports the state.
Usually, this is the last thread that had the task open. It locks the directory immediately after it has closed the
task. In this model, the last thread that had the task open always reports the state.

If a task has no owner and other tasks of the group run, the model usually assumes that the previous owner has failed.
The group notices a failed owner only after the session timeout. So the model assumes that a task of a failed owner did
not run during the session timeout. There is one exception. If the task has more caught-up copies than
num.standby.replicas, the model assumes that the previous owner has just revoked the task. In this case, the previous
owner is in the group, and the next rebalance is a follow-up. If no task of the group runs, the model assumes that the
group has just started.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from assignor.clients.client_state import is_caught_up
from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId
from rebalance_analysis.simulate.model import ForecastModel
from rebalance_analysis.simulate.modelled_thread import ChangelogEnds, ModelledThread, TaskRuns, to_restore_from

_Copy = tuple[ProcessId, TaskId]


class HandedOut(NamedTuple):
    """The tasks that one thread has open after an assignment."""

    active: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision of one rebalance. `handed_out`: the tasks of each thread, by the name of the thread. `held_back`:
    the tasks that wait until their owner has revoked them.

    `rejoin`: True if members rejoin immediately after they have applied their assignments. `probing_at_ms`: the time of
    the next probing rebalance, in milliseconds since the recorded rebalance; None if no probing rebalance is requested.
    """

    problem: PlacementProblem
    placement: Placement
    handed_out: Mapping[str, HandedOut]
    held_back: frozenset[TaskId] = field(default_factory=frozenset)
    rejoin: bool = False
    probing_at_ms: int | None = None


class ClosedState(NamedTuple):
    """The closed state of a task: it is on disk, and no thread has it open. `offset_sum`: the offset sum of the state,
    or UNKNOWN_OFFSET_SUM. `since_ms`: the time at which the state was closed. `reporter`: the thread that reports this
    state.
    """

    offset_sum: int
    since_ms: int
    reporter: str


@dataclass(slots=True)
class Members:
    """The members of a group at one time of a forecast. `threads`: the stream threads by name, in the order of the
    recorded members. All times are in milliseconds since the recorded rebalance.
    """

    threads: Mapping[str, ModelledThread]
    ends: ChangelogEnds
    runs: TaskRuns
    state_cleanup_delay_ms: int
    closed: dict[_Copy, ClosedState] = field(default_factory=dict)

    def owners(self) -> dict[TaskId, ModelledThread]:
        """Returns the thread of each active task. Active tasks include tasks that are being restored."""
        return {task: thread for thread in self.threads.values() for task in thread.active}

    def offset_sums(self, now_ms: int) -> dict[str, dict[TaskId, int]]:
        """Returns, for each thread, the offset sums that it reports. A thread reports offset sums of its open tasks and
        of closed state.
        """
        self._clean_up(now_ms)
        reported = {name: thread.offset_sums(self.ends, now_ms) for name, thread in self.threads.items()}
        for (_, task), state in self.closed.items():
            reported[state.reporter][task] = state.offset_sum
        return reported

    def hand_out(self, handed_out: Mapping[str, HandedOut], now_ms: int) -> None:
        """Applies an assignment: every thread closes its revoked tasks and opens its new tasks. `handed_out`: the new
        tasks of each thread, by name. A thread without an entry in `handed_out` closes all its tasks.
        """
        self._clean_up(now_ms)
        on_disk = self._on_disk(now_ms)
        reporters = self._reporters()
        for thread in self.threads.values():
            kept = handed_out.get(thread.name, HandedOut()).active
            for task in sorted(set(thread.active).difference(kept)):
                self.runs.stops(task, now_ms)
        for name, thread in self.threads.items():
            active, standby = handed_out.get(name, HandedOut())
            restoring = {task: self._to_restore(thread, task, on_disk, now_ms) for task in active}
            opened = {task: to_restore_from(on_disk.get((thread.process, task))) for task in standby}
            had = set(thread.active)
            thread.take(restoring, opened, self.ends, now_ms)
            for task, runs_from_ms in thread.active.items():
                if task not in had or runs_from_ms > now_ms:
                    self.runs.starts(task, runs_from_ms)
        self._close(on_disk, reporters, now_ms)

    def caught_up_ms(self) -> int | None:
        """Returns the time at which all copies will have caught up if there is no further assignment; None if a copy
        never catches up.
        """
        times = [thread.caught_up_ms(self.ends) for thread in self.threads.values()]
        known = [at_ms for at_ms in times if at_ms is not None]
        return max(known, default=0) if len(known) == len(times) else None

    def never_caught_up(self) -> tuple[TaskId, ...]:
        """Returns the standby tasks of threads that never catch up, because they read records too slowly."""
        slow = [thread for thread in self.threads.values() if thread.caught_up_ms(self.ends) is None]
        return tuple(sorted({task for thread in slow for task in thread.standby}))

    def behind(self, now_ms: int) -> tuple[TaskId, ...]:
        """Returns the tasks with an open copy that has not reached the end of its changelogs."""
        late: set[TaskId] = set()
        for thread in self.threads.values():
            for task, offset_sum in thread.offset_sums(self.ends, now_ms).items():
                if offset_sum != LATEST_OFFSET and offset_sum < self.ends.end(task, now_ms):
                    late.add(task)
        return tuple(sorted(late))

    def _to_restore(
        self, thread: ModelledThread, task: TaskId, on_disk: Mapping[_Copy, int], now_ms: int
    ) -> int | None:
        runs_from_ms = thread.active.get(task)
        if task not in self.ends or (runs_from_ms is not None and runs_from_ms <= now_ms):
            return None
        return to_restore_from(on_disk.get((thread.process, task)))

    def _on_disk(self, now_ms: int) -> dict[_Copy, int]:
        """Returns the offset sum of each copy on disk. The copy may be open or closed. The offset sum of a running task
        is the sum of its end offsets.
        """
        on_disk = {copy: state.offset_sum for copy, state in self.closed.items()}
        for thread in self.threads.values():
            for task, offset_sum in thread.offset_sums(self.ends, now_ms).items():
                is_running = offset_sum == LATEST_OFFSET
                on_disk[thread.process, task] = self.ends.end(task, now_ms) if is_running else offset_sum
        return on_disk

    def _reporters(self) -> dict[_Copy, str]:
        """Returns, for each open or closed copy, the thread that reports the state of the copy."""
        reporters = {copy: state.reporter for copy, state in self.closed.items()}
        for name, thread in self.threads.items():
            reporters.update(((thread.process, task), name) for task in (*thread.active, *thread.standby))
        return reporters

    def _close(self, on_disk: Mapping[_Copy, int], reporters: Mapping[_Copy, str], now_ms: int) -> None:
        """Sets `closed` to all state on disk that is not open. If state was closed before, its closing time does not
        change.
        """
        opened = {
            (thread.process, task) for thread in self.threads.values() for task in (*thread.active, *thread.standby)
        }
        self.closed = {
            copy: self.closed.get(copy) or ClosedState(offset_sum, now_ms, reporters[copy])
            for copy, offset_sum in sorted(on_disk.items())
            if copy not in opened
        }

    def _clean_up(self, now_ms: int) -> None:
        self.closed = {
            copy: state for copy, state in self.closed.items() if now_ms - state.since_ms <= self.state_cleanup_delay_ms
        }


_Disks = Mapping[ProcessId, Mapping[TaskId, int]]
"""Maps process and task to the offset sum of the task's state on disk."""


class Past(NamedTuple):
    """Facts about the time before the rebalance. A what-if does not change these facts. `configs`: the configs before
    the rebalance. `left_behind`: the tasks whose owners the what-if removes.
    """

    configs: AssignmentConfigs
    left_behind: frozenset[TaskId] = frozenset()


def first_members(
    problem: PlacementProblem,
    threads: Iterable[ModelledThread],
    active: Mapping[str, Iterable[TaskId]],
    reported: Mapping[str, Iterable[TaskId]],
    recorded_ends: Mapping[TaskId, int],
    model: ForecastModel,
    past: Past,
) -> Members:
    """Makes the members as they were when the recorded rebalance began. `threads`: the stream threads, without open
    tasks. `active`: the tasks that each thread reported as active. If several threads reported a task, the first of
    them owns it. `reported`: for each thread, the tasks whose state it reported.
    """
    by_name = {thread.name: thread for thread in threads}
    tasks = frozenset(problem.tasks)
    owners: dict[TaskId, str] = {}
    for name in by_name:
        for task in tasks.intersection(active.get(name, ())):
            owners.setdefault(task, name)
    runs_already = {task for task, name in owners.items() if _runs(problem, by_name[name].process, task)}
    disks = _disks(problem, recorded_ends)
    runs = TaskRuns(_unowned_since(problem, owners, runs_already, disks, recorded_ends, model, past))
    ends = ChangelogEnds(recorded_ends, model.appended_records_per_s, runs)
    for name, thread in by_name.items():
        disk = disks[thread.process]
        own = [task for task, owner in owners.items() if owner == name]
        thread.take(
            {task: None if task in runs_already else to_restore_from(disk.get(task)) for task in own}, {}, ends, 0
        )
        for task, runs_from_ms in thread.active.items():
            runs.starts(task, runs_from_ms)
    reporters = _reporters(by_name.values(), reported)
    closed = {
        (process, task): ClosedState(offset_sum, 0, reporters.get((process, task)) or reporters[process, None])
        for process, disk in disks.items()
        for task, offset_sum in disk.items()
        if task not in owners or by_name[owners[task]].process != process
    }
    return Members(by_name, ends, runs, model.state_cleanup_delay_ms, closed)


def _reporters(
    threads: Iterable[ModelledThread], reported: Mapping[str, Iterable[TaskId]]
) -> dict[tuple[ProcessId, TaskId | None], str]:
    """Returns, for each process and task, the first thread that reported the task. For each process, the key `(process,
    None)` has the first thread of the process as its value.
    """
    reporters: dict[tuple[ProcessId, TaskId | None], str] = {}
    for thread in threads:
        for task in (None, *reported.get(thread.name, ())):
            reporters.setdefault((thread.process, task), thread.name)
    return reporters


def _runs(problem: PlacementProblem, process: ProcessId, task: TaskId) -> bool:
    lags = problem.clients[process].lags
    return task not in lags or lags.lag_for(task) == LATEST_OFFSET


def _disks(problem: PlacementProblem, recorded_ends: Mapping[TaskId, int]) -> _Disks:
    """Returns the offset sums of the state that each process has on disk. If a client did not have a task, and its lag
    is the whole changelog, the client has no state of the task.
    """
    disks: dict[ProcessId, dict[TaskId, int]] = {}
    for process, client in problem.clients.items():
        had = client.previous_active | client.previous_standby
        disks[process] = {
            task: _offset_sum(lag, recorded_ends[task])
            for task, lag in client.lags.reported.items()
            if task in recorded_ends and (task in had or lag < recorded_ends[task])
        }
    return disks


def _offset_sum(lag: int, end: int) -> int:
    if lag == UNKNOWN_OFFSET_SUM:
        return UNKNOWN_OFFSET_SUM
    return end if lag == LATEST_OFFSET else max(end - lag, 0)


def _unowned_since(
    problem: PlacementProblem,
    owners: Mapping[TaskId, str],
    runs_already: set[TaskId],
    disks: _Disks,
    recorded_ends: Mapping[TaskId, int],
    model: ForecastModel,
    past: Past,
) -> dict[TaskId, int]:
    since = dict.fromkeys([task for task in problem.tasks if task not in runs_already], 0)
    if not runs_already:
        return since
    unowned = [task for task in since if task not in owners]
    left_behind = {task for task in unowned if task in past.left_behind}
    given_up: set[TaskId] = set()
    for task in unowned:
        if (
            task not in left_behind
            and task in recorded_ends
            and (recorded_ends[task] > 0 or any(task in disk for disk in disks.values()))
        ):
            (given_up if _was_given_up(problem, past.configs, disks, task) else left_behind).add(task)
    running = {task.subtopology for task in runs_already}
    if left_behind or not given_up:
        left_behind.update(task for task in unowned if task not in recorded_ends and task.subtopology in running)
    return since | dict.fromkeys(left_behind, -model.session_timeout_ms)


def _was_given_up(problem: PlacementProblem, configs: AssignmentConfigs, disks: _Disks, task: TaskId) -> bool:
    """True if a task without an owner has more caught-up copies than num.standby.replicas. One of the copies then
    belongs to an owner that is still in the group and has revoked the task.
    """
    caught_up = [
        process
        for process, disk in disks.items()
        if task in disk and is_caught_up(problem.clients[process].lags.lag_for(task), configs.acceptable_recovery_lag)
    ]
    return len(caught_up) > configs.num_standby_replicas
