"""Keeps all tasks on their clients until an operator approves a new placement.

Every task and standby stays on the client that reports it, even if the client's load is high. If no client runs a task,
the task goes to the client that the wrapped assignor chooses. The keeping assignor neither adds nor removes warm-ups. A
subscription does not distinguish warm-ups from standbys. If a task has more standbys than num.standby.replicas, the
standbys with the greatest lags are treated as warm-ups.
"""

from collections.abc import Iterable
from dataclasses import replace

from assignor.task_assignors.base import AssignmentError, ClientPlacement, Placement, PlacementProblem, TaskAssignor
from assignor.task_assignors.decisions import Decision, DecisionKind, DecisionLog
from assignor.task_assignors.steering.changing_placement import is_caught_up_on
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, Role, TaskId

_NO_COPY_COMES_OF_IT = frozenset({DecisionKind.WARM_UP, DecisionKind.WARM_UP_BUDGET_SPENT})


class KeepingAssignor:
    def __init__(self, assignor: TaskAssignor) -> None:
        self.name = assignor.name
        self._assignor = assignor

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        owner = _owners(problem)
        ownerless = frozenset(problem.tasks) - owner.keys()
        error: AssignmentError | None = None
        if ownerless:
            inner_log = DecisionLog()
            placed = self._assignor.assign(problem, inner_log)
            error = placed.assignment_error
            log.extend(_of_placed(inner_log, ownerless))
            for process, client in placed.clients.items():
                owner.update(dict.fromkeys(client.active & ownerless, process))
            leaves_some = error is None and not owner.keys() >= ownerless
            if placed.is_refused or leaves_some or not problem.clients.keys() >= set(owner.values()):
                return placed  # `validate_placement` raises an error for this placement
        log.extend(
            Decision(DecisionKind.KEPT_OWNED, task, Role.ACTIVE, owner[task])
            for task in sorted(problem.tasks)
            if task not in ownerless
        )
        return replace(_kept(problem, owner), assignment_error=error)


def _owners(problem: PlacementProblem) -> dict[TaskId, ProcessId]:
    """Returns the client that runs each task. If several clients report the task, the result contains the first
    caught-up client, or else the first client that reports it.
    """
    tasks = frozenset(problem.tasks)
    owner: dict[TaskId, ProcessId] = {}
    for process in sorted(problem.clients):
        for task in problem.clients[process].previous_active & tasks:
            known = owner.get(task)
            if known is None or (not is_caught_up_on(problem, known, task) and is_caught_up_on(problem, process, task)):
                owner[task] = process
    return owner


def _of_placed(log: Iterable[Decision], ownerless: frozenset[TaskId]) -> Iterable[Decision]:
    """Yields the wrapped assignor's decisions about the active copies of tasks that no client runs. Leaves out the
    wrapped assignor's decisions about standbys and warm-ups.
    """
    for step in log:
        if step.task not in ownerless or step.role is not Role.ACTIVE or step.kind in _NO_COPY_COMES_OF_IT:
            continue
        # in a swap, the target would get a standby, but this assignor gives no copy to the target
        if step.kind is DecisionKind.SWAPPED:
            step = step._replace(kind=DecisionKind.MOVED_TO_CAUGHT_UP)
        yield step


def _kept(problem: PlacementProblem, owner: dict[TaskId, ProcessId]) -> Placement:
    stateful = frozenset(problem.stateful_tasks)
    active: dict[ProcessId, set[TaskId]] = {process: set() for process in problem.clients}
    for task, process in owner.items():
        active[process].add(task)
    standby = {
        process: (client.previous_standby & stateful) - active[process] for process, client in problem.clients.items()
    }
    warm_ups = _most_behind(problem, standby)
    return Placement(
        False,
        {
            process: ClientPlacement(frozenset(active[process]), standby[process], warm_ups[process] & standby[process])
            for process in problem.clients
        },
    )


def _most_behind(
    problem: PlacementProblem, standby: dict[ProcessId, frozenset[TaskId]]
) -> dict[ProcessId, frozenset[TaskId]]:
    holders: dict[TaskId, list[ProcessId]] = {}
    for process in sorted(standby):
        for task in standby[process]:
            holders.setdefault(task, []).append(process)
    found: dict[ProcessId, set[TaskId]] = {process: set() for process in standby}
    for task, processes in holders.items():
        by_lag = sorted(processes, key=lambda process: _distance(problem, process, task))
        for process in by_lag[max(0, problem.configs.num_standby_replicas) :]:
            found[process].add(task)
    return {process: frozenset(tasks) for process, tasks in found.items()}


def _distance(problem: PlacementProblem, process: ProcessId, task: TaskId) -> int:
    lags = problem.clients[process].lags
    lag = lags.lag_for(task) if task in lags else UNKNOWN_OFFSET_SUM
    return JAVA_LONG_MAX if lag == UNKNOWN_OFFSET_SUM else max(lag, LATEST_OFFSET)
