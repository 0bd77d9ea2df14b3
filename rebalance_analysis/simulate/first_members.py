"""The members as they were when the recorded rebalance began, as far as their subscriptions tell.

In a group where tasks run, a task without an owner was left behind by an owner that is gone; it ran nowhere for the
session timeout until the group noticed. There is one exception: a process that is still alive has just given the task
up, as it does between a rebalance and its follow-up. A group in which no task runs is only starting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from assignor.clients.client_state import is_caught_up
from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import PlacementProblem
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId
from rebalance_analysis.simulate.group_members import ClosedState, Members
from rebalance_analysis.simulate.model import ForecastModel
from rebalance_analysis.simulate.modelled_thread import ModelledThread, to_restore_from
from rebalance_analysis.simulate.task_runs import ChangelogEnds, TaskRuns

Disks = Mapping[ProcessId, Mapping[TaskId, int]]
"""The offset sums of the state that each process reported."""


class Past(NamedTuple):
    """What is known of the time before the rebalance, which a what-if does not change. `configs`: as they were then.
    `left_behind`: tasks whose owners the what-if takes away.
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
    """`threads`: with nothing open yet. `active`: the tasks that each thread reported as active; the first of several
    owners counts. `reported`: the tasks whose state each thread reported.
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
        process: {
            task: ClosedState(offset_sum, 0, reporters[process].get(task) or reporters[process][None])
            for task, offset_sum in disk.items()
            if task not in owners or by_name[owners[task]].process != process
        }
        for process, disk in disks.items()
    }
    return Members(by_name, ends, runs, model.state_cleanup_delay_ms, closed)


def _reporters(
    threads: Iterable[ModelledThread], reported: Mapping[str, Iterable[TaskId]]
) -> dict[ProcessId, dict[TaskId | None, str]]:
    """For each process the first thread that reported a task; under None its first thread."""
    reporters: dict[ProcessId, dict[TaskId | None, str]] = {}
    for thread in threads:
        of_process = reporters.setdefault(thread.process, {None: thread.name})
        for task in reported.get(thread.name, ()):
            of_process.setdefault(task, thread.name)
    return reporters


def _runs(problem: PlacementProblem, process: ProcessId, task: TaskId) -> bool:
    lags = problem.clients[process].lags
    return task not in lags or lags.lag_for(task) == LATEST_OFFSET


def _disks(problem: PlacementProblem, recorded_ends: Mapping[TaskId, int]) -> Disks:
    """A client that lags by everything there is, and never had the task, has no state of it."""
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
    disks: Disks,
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


def _was_given_up(problem: PlacementProblem, configs: AssignmentConfigs, disks: Disks, task: TaskId) -> bool:
    """Whether there is one caught-up copy more than standbys are wanted: that of an owner which is still alive."""
    caught_up = [
        process
        for process, disk in disks.items()
        if task in disk and is_caught_up(problem.clients[process].lags.lag_for(task), configs.acceptable_recovery_lag)
    ]
    return len(caught_up) > configs.num_standby_replicas
