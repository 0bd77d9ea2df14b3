"""Two rebalances beside each other: which tasks are elsewhere, what has to be restored, and how long that takes.

`before` and `after` have both been run here, so neither is estimated. The members hold the same tasks in both. So a
task can be on another process in `after` without moving: it may stay where it runs, while `before` would have moved it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from assignor.errors import InputError
from assignor.recording.documents import document_of, document_of_fields
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.types import UNKNOWN_OFFSET_SUM, ProcessId, TaskId
from rebalance_analysis.measures import RebalanceMeasures, measure, records_to_restore_by_process
from rebalance_analysis.rerun import Rerun, RerunRebalance

RESTORE_RECORDS_PER_S = 100_000.0
"""How many records one stream thread restores in a second, unless the caller gives another rate."""


@dataclass(frozen=True, slots=True)
class ComparedRebalance:
    """`error`: why no task was placed; None when tasks were placed, and then there are `measures`.

    `records_by_process`: how many records each process has to read until all its copies have caught up; None when a
    lag is not known. `restore_s`: how many seconds the slowest process needs for that with all its threads; None
    likewise.
    """

    error: str | None
    measures: RebalanceMeasures | None = None
    probing_rebalance_needed: bool = False
    followup_rebalance: bool = False
    records_by_process: Mapping[ProcessId, int] | None = None
    restore_s: float | None = None


@dataclass(frozen=True, slots=True)
class TaskDifference:
    """A task whose copies differ. `active_from`, `active_to`: None where the rebalance does not have the task.

    Standbys are listed without warm-ups. `records`: how many records each copy in the second rebalance has to restore,
    None when not known; empty for a stateless task.
    """

    task: TaskId
    active_from: ProcessId | None
    active_to: ProcessId | None
    standby_gone: tuple[ProcessId, ...]
    standby_new: tuple[ProcessId, ...]
    warm_up_gone: tuple[ProcessId, ...]
    warm_up_new: tuple[ProcessId, ...]
    records: Mapping[ProcessId, int | None] = field(default_factory=dict)

    @property
    def active_is_elsewhere(self) -> bool:
        """Whether both rebalances have the task, active on different processes."""
        return None not in (self.active_from, self.active_to) and self.active_from != self.active_to


@dataclass(frozen=True, slots=True)
class Difference:
    """`tasks`: those whose copies differ, in order; empty when one of the rebalances placed none. The counts say which
    copies the second rebalance has and the first has not, and the other way round; the measures of each say what
    moves, compared with what the members hold. `processes_new`, `tasks_new`: only in the second rebalance;
    `processes_gone`, `tasks_gone`: only in the first.
    """

    before: ComparedRebalance
    after: ComparedRebalance
    restore_records_per_s: float
    tasks: tuple[TaskDifference, ...] = ()
    tasks_new: tuple[TaskId, ...] = ()
    tasks_gone: tuple[TaskId, ...] = ()
    processes_new: tuple[ProcessId, ...] = ()
    processes_gone: tuple[ProcessId, ...] = ()

    @property
    def active_elsewhere(self) -> int:
        return sum(each.active_is_elsewhere for each in self.tasks)

    @property
    def standbys_new(self) -> int:
        """Standbys on a process that has no copy of the task in the first rebalance; a copy that only changes its role
        does not count.
        """
        return sum(
            process != each.active_from and process not in each.warm_up_gone
            for each in self.tasks
            for process in each.standby_new
        )

    @property
    def standbys_gone(self) -> int:
        """Standbys of a process that has no copy of the task in the second rebalance."""
        return sum(
            process != each.active_to and process not in each.warm_up_new
            for each in self.tasks
            for process in each.standby_gone
        )

    @property
    def warm_ups_new(self) -> int:
        return sum(len(each.warm_up_new) for each in self.tasks)

    @property
    def warm_ups_gone(self) -> int:
        return sum(len(each.warm_up_gone) for each in self.tasks)


def difference(before: Rerun, after: Rerun, *, restore_records_per_s: float = RESTORE_RECORDS_PER_S) -> Difference:
    """`restore_records_per_s`: the rate of one stream thread. Raises InputError unless it is a number above 0."""
    if not (math.isfinite(restore_records_per_s) and restore_records_per_s > 0):
        raise InputError(f"must be a number above 0, not {restore_records_per_s}", "restore_records_per_s")
    old, new = before.placed, after.placed
    summaries = summary(before, restore_records_per_s), summary(after, restore_records_per_s)
    if old is None or new is None:
        return Difference(*summaries, restore_records_per_s)
    old_tasks, new_tasks = frozenset(old[0].tasks), frozenset(new[0].tasks)
    old_clients, new_clients = old[0].clients.keys(), new[0].clients.keys()
    return Difference(
        *summaries,
        restore_records_per_s,
        tasks=tuple(_task_differences(old[1], *new)),
        tasks_new=tuple(sorted(new_tasks - old_tasks)),
        tasks_gone=tuple(sorted(old_tasks - new_tasks)),
        processes_new=tuple(sorted(new_clients - old_clients)),
        processes_gone=tuple(sorted(old_clients - new_clients)),
    )


def summary(ran: Rerun, restore_records_per_s: float = RESTORE_RECORDS_PER_S) -> ComparedRebalance:
    """One rebalance in numbers."""
    both = ran.placed
    if both is None:
        return ComparedRebalance(ran.error)
    problem, placement = both
    records = records_to_restore_by_process(problem, placement)
    return ComparedRebalance(
        error=None,
        measures=measure(problem, placement),
        probing_rebalance_needed=placement.probing_rebalance_needed,
        followup_rebalance=isinstance(ran, RerunRebalance) and ran.result.followup_rebalance,
        records_by_process=None if records is None else dict(sorted(records.items())),
        restore_s=None if records is None else _slowest(problem, records, restore_records_per_s),
    )


def _slowest(problem: PlacementProblem, records: Mapping[ProcessId, int], records_per_s: float) -> float:
    seconds = (count / (records_per_s * problem.clients[process].capacity) for process, count in records.items())
    return max(seconds, default=0.0)


@dataclass(slots=True)
class _TaskCopies:
    active: ProcessId | None = None
    standby: set[ProcessId] = field(default_factory=set)
    warm_up: set[ProcessId] = field(default_factory=set)


def _copies(placement: Placement) -> dict[TaskId, _TaskCopies]:
    copies: dict[TaskId, _TaskCopies] = {}
    for process, client in placement.clients.items():
        for task in client.active:
            copies.setdefault(task, _TaskCopies()).active = process
        for task in client.standby:
            of_task = copies.setdefault(task, _TaskCopies())
            (of_task.warm_up if task in client.warm_ups else of_task.standby).add(process)
    return copies


def _task_differences(before: Placement, problem: PlacementProblem, after: Placement) -> Iterable[TaskDifference]:
    old, new = _copies(before), _copies(after)
    stateful = frozenset(problem.stateful_tasks)
    for task in sorted(old.keys() | new.keys()):
        was, is_now = old.get(task, _TaskCopies()), new.get(task, _TaskCopies())
        if was != is_now:
            yield TaskDifference(
                task,
                was.active,
                is_now.active,
                tuple(sorted(was.standby - is_now.standby)),
                tuple(sorted(is_now.standby - was.standby)),
                tuple(sorted(was.warm_up - is_now.warm_up)),
                tuple(sorted(is_now.warm_up - was.warm_up)),
                _records(problem, task, is_now) if task in stateful else {},
            )


def _records(problem: PlacementProblem, task: TaskId, copies: _TaskCopies) -> dict[ProcessId, int | None]:
    records: dict[ProcessId, int | None] = {}
    for process in sorted({*copies.standby, *copies.warm_up, *([] if copies.active is None else [copies.active])}):
        lags = problem.clients[process].lags
        lag = lags.lag_for(task) if task in lags else 0
        records[process] = None if lag == UNKNOWN_OFFSET_SUM else max(lag, 0)
    return records


@dataclass(frozen=True, slots=True)
class ProcessCopies:
    """Numbers of copies. `active_kept`: tasks that ran on this process before; `active_moved_in`: tasks that ran
    elsewhere or nowhere.

    `standby_kept`: standbys of tasks of which the process had a copy before, in any role; `standby_new`: standbys of
    tasks of which it had none. Warm-ups are counted separately. `threads`: stream threads.
    """

    process: ProcessId
    threads: int
    active_kept: int
    active_moved_in: int
    standby_kept: int
    standby_new: int
    warm_ups: int


def copies_by_process(problem: PlacementProblem, placement: Placement) -> tuple[ProcessCopies, ...]:
    """One entry for each client, in the order of `problem`."""
    copies = []
    for process, client in problem.clients.items():
        after = placement.clients[process]
        standby = after.standby - after.warm_ups
        kept = len(after.active & client.previous_active)
        standby_kept = len(standby & (client.previous_active | client.previous_standby))
        copies.append(
            ProcessCopies(
                process=process,
                threads=client.capacity,
                active_kept=kept,
                active_moved_in=len(after.active) - kept,
                standby_kept=standby_kept,
                standby_new=len(standby) - standby_kept,
                warm_ups=len(after.warm_ups),
            )
        )
    return tuple(copies)


def difference_document(difference: Difference) -> dict[str, object]:
    """The difference as JSON: processes and tasks as text, times in seconds, every task whose copies differ."""
    return {
        **document_of_fields(difference, "before", "after", "active_elsewhere"),
        **document_of_fields(difference, "standbys_new", "standbys_gone", "warm_ups_new", "warm_ups_gone"),
        **document_of_fields(difference, "tasks_new", "tasks_gone", "processes_new", "processes_gone"),
        "restore_records_per_s": difference.restore_records_per_s,
        "tasks": [task_document(task) for task in difference.tasks],
    }


def task_document(task: TaskDifference) -> dict[str, object]:
    return {
        "task": str(task.task),
        "active": {"from": document_of(task.active_from), "to": document_of(task.active_to)},
        "standby": {"gone": document_of(task.standby_gone), "new": document_of(task.standby_new)},
        "warm_up": {"gone": document_of(task.warm_up_gone), "new": document_of(task.warm_up_new)},
        "records_to_restore": document_of(task.records),
    }
