"""Compares two results of the same rebalance: the tasks with copies on other processes, the records to restore, and the
restore time. The first result is without changes, and the second is with changes. The leader of this project computed
both results, so they are not estimates. In both results, the members own the same tasks when the rebalance begins. If a
task has different processes in the two results, this does not always mean that the second result moved the task.
Perhaps only the first result moved the task away from its owner.
"""

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
"""The default restore rate of one stream thread, in records per second."""


@dataclass(frozen=True, slots=True)
class ComparedRebalance:
    """The numbers of one rebalance in a comparison. `error`: the reason why no task was placed; None if tasks were
    placed. `measures`: the measures of the rebalance; None if no task was placed.

    `records_by_process`: the number of records that each process has to read to catch up; None if a lag is not known.
    `restore_s`: the number of seconds that the slowest process needs to restore its records with all its threads.
    `restore_s` is None if a lag is not known.
    """

    error: str | None
    measures: RebalanceMeasures | None = None
    probing_rebalance_needed: bool = False
    followup_rebalance: bool = False
    records_by_process: Mapping[ProcessId, int] | None = None
    restore_s: float | None = None


@dataclass(frozen=True, slots=True)
class TaskDifference:
    """A task whose copies differ between two rebalances. `active_from`: the process of the active copy in the first
    rebalance; None if this rebalance does not have the task. `active_to`: the process of the active copy in the second
    rebalance; None if this rebalance does not have the task.

    The lists of standbys do not contain warm-ups. `records`: for each copy in the second rebalance, the number of
    records that its process has to restore; None if the number is not known. For a stateless task, `records` is empty.
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
        """True if both rebalances have the task, and it is active on different processes."""
        return None not in (self.active_from, self.active_to) and self.active_from != self.active_to


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two rebalances. `tasks`: the tasks whose copies differ between the rebalances, sorted;
    empty if one of the rebalances placed no tasks. The counts of a Difference compare the copies in the two rebalances.
    In contrast, the measures of a rebalance compare the copies before and after it. `processes_new`, `tasks_new`:
    processes and tasks that only the second rebalance has. `processes_gone`, `tasks_gone`: processes and tasks that
    only the first rebalance has.
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
        """The number of standbys that only the second rebalance has. A standby does not count if its process has
        another copy of the task in the first rebalance.
        """
        return sum(
            process != each.active_from and process not in each.warm_up_gone
            for each in self.tasks
            for process in each.standby_new
        )

    @property
    def standbys_gone(self) -> int:
        """The number of standbys that only the first rebalance has. A standby does not count if its process has another
        copy of the task in the second rebalance.
        """
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
    """Compares two rebalances. `restore_records_per_s`: the restore rate of one stream thread. Raises InputError if
    `restore_records_per_s` is not above 0.
    """
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
    """Returns the numbers of one rebalance."""
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
    """The numbers of copies on one process. `active_kept`: the number of active tasks that ran on this process before
    the rebalance. `active_moved_in`: the number of active tasks that did not run on this process before.

    `standby_kept`: the number of standbys whose task had a copy of any role on this process before. `standby_new`: the
    number of standbys whose task had no copy on this process before. Warm-ups do not count as standbys, but have the
    count `warm_ups`. `threads`: the number of stream threads.
    """

    process: ProcessId
    threads: int
    active_kept: int
    active_moved_in: int
    standby_kept: int
    standby_new: int
    warm_ups: int


def copies_by_process(problem: PlacementProblem, placement: Placement) -> tuple[ProcessCopies, ...]:
    """Counts the copies on each process, in the order of the clients of the problem."""
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
    """Returns a difference as a JSON document. Processes and tasks are text, and times are in seconds. The document has
    every task whose copies differ.
    """
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
