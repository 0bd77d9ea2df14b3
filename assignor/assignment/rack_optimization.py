"""Swaps tasks between clients to save cross-rack reads, for assignors of the public interface.

It uses the search of `task_assignors.racks`, with three differences from Kafka's own assignors, as in Kafka. The cost
of an active copy includes its changelog partitions. Clients are numbered in the leader's order, not by process id. And
nothing is done unless both costs are configured, even if an assignor overrides them. Source:
`TaskAssignmentUtils.optimizeRackAwareActiveTasks`, `optimizeRackAwareStandbyTasks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from assignor.assignment.application_state import ApplicationState
from assignor.assignment.task_assignment import (
    AssignedTask,
    AssignedTaskType,
    KafkaStreamsAssignment,
    add_missing_clients,
)
from assignor.errors import IllegalArgumentError, IllegalStateError
from assignor.task_assignors.racks.optimization import (
    BALANCE_SUBTOPOLOGY,
    Costs,
    Foreign,
    Standbys,
    TaskMove,
    optimize_active_tasks,
    optimize_standby_tasks,
)
from assignor.types import ProcessId, Role, TaskId

Holders = Mapping[ProcessId, Iterable[TaskId]]


@dataclass(frozen=True, slots=True)
class RackAwareOptimizationParams:
    """The parameters of an optimization. `tasks`: the tasks to optimize, None for all assigned tasks. `traffic_cost`,
    `non_overlap_cost`: None for the configured cost.
    """

    application_state: ApplicationState
    traffic_cost: int | None = None
    non_overlap_cost: int | None = None
    tasks: tuple[TaskId, ...] | None = None

    def for_tasks(self, tasks: Iterable[TaskId]) -> RackAwareOptimizationParams:
        return replace(self, tasks=tuple(sorted(set(tasks))))

    def for_stateful_tasks(self) -> RackAwareOptimizationParams:
        state = self.application_state
        return self.for_tasks([task for task in state.problem.tasks if state.is_stateful(task)])

    def for_stateless_tasks(self) -> RackAwareOptimizationParams:
        state = self.application_state
        return self.for_tasks([task for task in state.problem.tasks if not state.is_stateful(task)])

    def with_traffic_cost(self, traffic_cost: int) -> RackAwareOptimizationParams:
        return replace(self, traffic_cost=traffic_cost)

    def with_non_overlap_cost(self, non_overlap_cost: int) -> RackAwareOptimizationParams:
        return replace(self, non_overlap_cost=non_overlap_cost)

    def costs(self) -> Costs | None:
        """The costs; None if no strategy is configured, or if one of the two costs is not configured."""
        configs = self.application_state.assignment_configs
        traffic, non_overlap = configs.rack_aware_traffic_cost, configs.rack_aware_non_overlap_cost
        if not configs.rack_aware or traffic is None or non_overlap is None:
            return None
        return Costs(
            traffic if self.traffic_cost is None else self.traffic_cost,
            non_overlap if self.non_overlap_cost is None else self.non_overlap_cost,
        )


def optimize_rack_aware_active_tasks(
    params: RackAwareOptimizationParams, assignments: dict[ProcessId, KafkaStreamsAssignment]
) -> None:
    """Swaps active tasks in `assignments`. Does nothing if the rack of a client or the racks of a partition are
    unknown.

    Raises IllegalArgumentError if a task to optimize has no active copy, or two; IllegalStateError for a task that the
    application does not have.
    """
    holders = _holders(assignments, AssignedTaskType.ACTIVE)
    tasks = params.tasks if params.tasks is not None else _sorted_tasks(holders)
    if tasks and params.costs() is not None and PublicRackTraffic.of(params.application_state, Role.ACTIVE) is not None:
        add_missing_clients(params.application_state, assignments)
    for move in active_moves(params, tasks, holders):
        assignments[move.source].remove_task(AssignedTask.active(move.task))
        assignments[move.destination].assign_task(AssignedTask.active(move.task))
        params.application_state.log.append(move.as_decision(Role.ACTIVE))


def optimize_rack_aware_standby_tasks(
    params: RackAwareOptimizationParams, assignments: dict[ProcessId, KafkaStreamsAssignment]
) -> None:
    """Swaps standbys in `assignments`. Does nothing if the rack of a client or the racks of a changelog are unknown.

    As in Kafka, all standbys are optimized if there are any tasks to optimize. Also as in Kafka, client tags forbid no
    swap: Kafka compares the destination of a standby with itself. Raises the errors of
    `optimize_rack_aware_active_tasks`; with balance_subtopology, also raises IllegalStateError if a standby that could
    move is not among the tasks to optimize.
    """
    active, standby = (_holders(assignments, each) for each in (AssignedTaskType.ACTIVE, AssignedTaskType.STANDBY))
    tasks = params.tasks if params.tasks is not None else _sorted_tasks(standby)
    if (
        tasks
        and params.costs() is not None
        and PublicRackTraffic.of(params.application_state, Role.STANDBY) is not None
    ):
        add_missing_clients(params.application_state, assignments)
    for move in standby_moves(params, tasks, active, standby):
        assignments[move.source].remove_task(AssignedTask.standby(move.task))
        assignments[move.destination].assign_task(AssignedTask.standby(move.task))
        params.application_state.log.append(move.as_decision(Role.STANDBY))


def active_moves(params: RackAwareOptimizationParams, tasks: Sequence[TaskId], holders: Holders) -> list[TaskMove]:
    """Returns the moves of active tasks. `tasks`: sorted. Raises the errors of `optimize_rack_aware_active_tasks`."""
    costs = params.costs()
    traffic = PublicRackTraffic.of(params.application_state, Role.ACTIVE) if tasks and costs is not None else None
    if traffic is None or costs is None:
        return []
    owners: dict[TaskId, int] = {}
    wanted = frozenset(tasks)
    for number, process in enumerate(traffic.processes):
        for task in holders.get(process, ()):
            if task in wanted and task in owners:
                raise IllegalArgumentError(
                    f"Task {task} assigned to multiple clients {process}, {traffic.processes[owners[task]]}"
                )
            owners[task] = number
    _check_assigned(tasks, owners)
    strategy = params.application_state.assignment_configs.rack_aware_assignment_strategy
    moves = optimize_active_tasks(traffic, tasks, [owners[task] for task in tasks], costs, strategy)
    return [
        TaskMove(tasks[move.task], traffic.processes[move.source], traffic.processes[move.destination], move.saved)
        for move in moves
    ]


def standby_moves(
    params: RackAwareOptimizationParams, tasks: Sequence[TaskId], active: Holders, standby: Holders
) -> list[TaskMove]:
    """Returns the moves of standbys. `tasks`: sorted. Raises the errors of `optimize_rack_aware_standby_tasks`."""
    costs = params.costs()
    traffic = PublicRackTraffic.of(params.application_state, Role.STANDBY) if tasks and costs is not None else None
    if traffic is None or costs is None:
        return []
    everything = _sorted_tasks({**{process: [*active.get(process, ())] for process in traffic.processes}})
    everything = tuple(sorted({*everything, *_sorted_tasks(standby)}))
    _check_assigned(tasks, frozenset(_sorted_tasks(standby)))
    strategy = params.application_state.assignment_configs.rack_aware_assignment_strategy
    numbers = {task: number for number, task in enumerate(everything)}
    copies = Standbys(
        everything,
        [{numbers[task] for task in active.get(process, ())} for process in traffic.processes],
        [{numbers[task] for task in standby.get(process, ())} for process in traffic.processes],
    )
    if strategy == BALANCE_SUBTOPOLOGY:
        _check_may_move(traffic, copies, frozenset(tasks))
    in_order = sorted(range(len(traffic.processes)), key=traffic.processes.__getitem__)
    ranks = [0] * len(in_order)
    for rank, number in enumerate(in_order):
        ranks[number] = rank
    moves = optimize_standby_tasks(traffic, copies, costs, None, ranks, strategy)
    return [
        TaskMove(everything[move.task], traffic.processes[move.source], traffic.processes[move.destination], move.saved)
        for move in moves
    ]


@dataclass(slots=True)
class PublicRackTraffic:
    """The cross-rack reads of tasks. `processes`, `racks`: the process id and the rack of each client, in the leader's
    order.
    """

    state: ApplicationState
    processes: tuple[ProcessId, ...]
    racks: tuple[str, ...]
    _known: dict[tuple[int, ...], Foreign]

    @classmethod
    def of(cls, state: ApplicationState, role: Role) -> PublicRackTraffic | None:
        """Returns None if a client has no rack, or if the racks of a partition are unknown. For active copies, all
        partitions count; for standbys, only changelogs count.
        """
        clients = state.problem.clients
        racks = tuple([client.rack for client in clients.values() if client.rack is not None])
        if len(racks) != len(clients) or not _knows(state, role):
            return None
        return cls(state, tuple(clients), racks, {})

    def foreign_partitions(self, task: TaskId, role: Role) -> Foreign:
        """Counts the partitions that each client would read across racks. Raises IllegalStateError for a task that the
        application does not have.
        """
        info = self.state.all_tasks.get(task)
        if info is None:
            raise IllegalStateError(f"{task} is no task of this application")
        replicas = [
            each.rack_ids or frozenset() for each in info.topic_partitions if role is Role.ACTIVE or each.is_changelog
        ]
        by_rack = {rack: sum(rack not in racks for racks in replicas) for rack in set(self.racks)}
        foreign = tuple([by_rack[rack] for rack in self.racks])
        return self._known.setdefault(foreign, foreign)


def _knows(state: ApplicationState, role: Role) -> bool:
    return all(
        each.rack_ids
        for info in state.all_tasks.values()
        for each in info.topic_partitions
        if role is Role.ACTIVE or each.is_changelog
    )


def _holders(
    assignments: Mapping[ProcessId, KafkaStreamsAssignment], type: AssignedTaskType
) -> dict[ProcessId, list[TaskId]]:
    return {
        process: [task.id for task in assignment.tasks.values() if task.type is type]
        for process, assignment in assignments.items()
    }


def _sorted_tasks(holders: Holders) -> tuple[TaskId, ...]:
    return tuple(sorted({task for tasks in holders.values() for task in tasks}))


def _check_assigned(tasks: Iterable[TaskId], assigned: Mapping[TaskId, int] | frozenset[TaskId]) -> None:
    for task in tasks:
        if task not in assigned:
            raise IllegalArgumentError(f"Task {task} not assigned to any client")


def _check_may_move(traffic: PublicRackTraffic, copies: Standbys, wanted: frozenset[TaskId]) -> None:
    """Raises IllegalStateError for the first standby that could be swapped but is not in `wanted`. The pairs of clients
    are checked in order, and the standbys of each pair in sorted order.
    Source: `BalanceSubtopologyGraphConstructor.validateTasks`.
    """
    for source, destination in combinations(range(len(traffic.racks)), 2):
        if traffic.racks[source] == traffic.racks[destination]:
            continue
        there, back = copies.movable(source, destination), copies.movable(destination, source)
        for task in sorted({*there, *back}) if there and back else ():
            if copies.tasks[task] not in wanted:
                raise IllegalStateError(f"Task {copies.tasks[task]} not in tasksForTopicGroup")
