"""Swaps tasks between clients to save cross-rack reads, on behalf of assignors of the public interface.

This module uses the search algorithm of `task_assignors.racks`. As in Kafka, the optimization for the public interface
differs from the optimization for Kafka's own assignors in three points. For the public interface, the cost of an active
copy includes the reads of its changelog partitions. For the public interface, clients are numbered in the leader's
order, not by process id. For the public interface, tasks are swapped only if the traffic cost and the non-overlap cost
are configured. An assignor may override the two costs, but tasks are swapped only if the costs are configured as well.
Source: `TaskAssignmentUtils.optimizeRackAwareActiveTasks`, `optimizeRackAwareStandbyTasks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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
    with_ids,
)
from assignor.types import ProcessId, Role, TaskId

Holders = Mapping[ProcessId, Iterable[TaskId]]


@dataclass(frozen=True, slots=True)
class RackAwareOptimizationParams:
    """The parameters of a rack-aware optimization. `tasks`: the tasks to optimize; None stands for all assigned tasks.
    `traffic_cost`, `non_overlap_cost`: the costs to use; None stands for the configured cost.
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
        """Returns None if the rack-aware strategy, the traffic cost or the non-overlap cost is not configured."""
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
    """Swaps active tasks in `assignments`. Swaps no task if the rack of a client or the racks of a partition are
    unknown.

    Raises IllegalArgumentError if a task to optimize does not have exactly one active copy. Raises IllegalStateError
    for a task that the application does not have.
    """
    holders = _holders(assignments, AssignedTaskType.ACTIVE)
    traffic = PublicRackTraffic.of(params, holders, Role.ACTIVE)
    if traffic is not None:
        add_missing_clients(params.application_state, assignments)
        _carry_out(active_moves(traffic, holders), traffic, assignments)


def optimize_rack_aware_standby_tasks(
    params: RackAwareOptimizationParams, assignments: dict[ProcessId, KafkaStreamsAssignment]
) -> None:
    """Swaps standbys in `assignments`. Swaps no standby if the rack of a client or the racks of a changelog are
    unknown.

    As in Kafka, if there is at least one task to optimize, the standbys of all tasks are optimized. As in Kafka, client
    tags do not prevent swaps: Kafka compares the tags of the destination with themselves. Raises the errors of
    `optimize_rack_aware_active_tasks`. The strategy balance_subtopology also raises IllegalStateError if it could swap
    a standby of a task that is not to be optimized.
    """
    active, standby = (_holders(assignments, each) for each in (AssignedTaskType.ACTIVE, AssignedTaskType.STANDBY))
    traffic = PublicRackTraffic.of(params, standby, Role.STANDBY)
    if traffic is not None:
        add_missing_clients(params.application_state, assignments)
        _carry_out(standby_moves(traffic, active, standby), traffic, assignments)


def _carry_out(
    moves: Iterable[TaskMove], traffic: PublicRackTraffic, assignments: Mapping[ProcessId, KafkaStreamsAssignment]
) -> None:
    for move in moves:
        move_copy(move, traffic.role, assignments)
        traffic.state.log.append(move.as_decision(traffic.role))


def move_copy(move: TaskMove, role: Role, assignments: Mapping[ProcessId, KafkaStreamsAssignment]) -> None:
    copy = AssignedTask.active(move.task) if role is Role.ACTIVE else AssignedTask.standby(move.task)
    assignments[move.source].remove_task(copy)
    assignments[move.destination].assign_task(copy)


def active_moves(traffic: PublicRackTraffic, holders: Holders) -> list[TaskMove]:
    """Returns the moves of active tasks. Raises the errors of `optimize_rack_aware_active_tasks`."""
    tasks = traffic.tasks
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
    moves = optimize_active_tasks(traffic, tasks, [owners[task] for task in tasks], traffic.costs, traffic.strategy)
    return with_ids(moves, tasks, traffic.processes)


def standby_moves(traffic: PublicRackTraffic, active: Holders, standby: Holders) -> list[TaskMove]:
    """Returns the moves of standbys. Raises the errors of `optimize_rack_aware_standby_tasks`."""
    with_standby = _sorted_tasks(standby.values())
    everything = _sorted_tasks([with_standby, *(active.get(process, ()) for process in traffic.processes)])
    _check_assigned(traffic.tasks, frozenset(with_standby))
    numbers = {task: number for number, task in enumerate(everything)}
    copies = Standbys(
        everything,
        [{numbers[task] for task in active.get(process, ())} for process in traffic.processes],
        [{numbers[task] for task in standby.get(process, ())} for process in traffic.processes],
    )
    if traffic.strategy == BALANCE_SUBTOPOLOGY:
        _check_may_move(traffic, copies, frozenset(traffic.tasks))
    in_order = sorted(range(len(traffic.processes)), key=traffic.processes.__getitem__)
    ranks = [0] * len(in_order)
    for rank, number in enumerate(in_order):
        ranks[number] = rank
    moves = optimize_standby_tasks(traffic, copies, traffic.costs, None, ranks, traffic.strategy)
    return with_ids(moves, everything, traffic.processes)


@dataclass(slots=True)
class PublicRackTraffic:
    """The cross-rack reads of the tasks to optimize, and the costs of these reads. `tasks`: sorted. `processes`,
    `racks`: the process id and the rack of each client, in the leader's order.
    """

    state: ApplicationState
    role: Role
    tasks: tuple[TaskId, ...]
    costs: Costs
    processes: tuple[ProcessId, ...]
    racks: tuple[str, ...]
    _known: dict[tuple[int, ...], Foreign] = field(default_factory=dict)

    @classmethod
    def of(cls, params: RackAwareOptimizationParams, holders: Holders, role: Role) -> PublicRackTraffic | None:
        """Returns None if there are no tasks to optimize or no costs. Also returns None if the rack of a client or the
        racks of a partition are unknown. The cost of an active copy includes its reads of source and changelog
        partitions. The cost of a standby includes only its reads of changelog partitions. `holders`: each process, with
        its tasks in the given role.
        """
        state, costs = params.application_state, params.costs()
        tasks = params.tasks if params.tasks is not None else _sorted_tasks(holders.values())
        clients = state.problem.clients
        racks = tuple([client.rack for client in clients.values() if client.rack is not None])
        if not tasks or costs is None or len(racks) != len(clients) or not _knows(state, role):
            return None
        return cls(state, role, tasks, costs, tuple(clients), racks)

    @property
    def strategy(self) -> str:
        return self.state.assignment_configs.rack_aware_assignment_strategy

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


def _sorted_tasks(held: Iterable[Iterable[TaskId]]) -> tuple[TaskId, ...]:
    return tuple(sorted({task for tasks in held for task in tasks}))


def _check_assigned(tasks: Iterable[TaskId], assigned: Mapping[TaskId, int] | frozenset[TaskId]) -> None:
    for task in tasks:
        if task not in assigned:
            raise IllegalArgumentError(f"Task {task} not assigned to any client")


def _check_may_move(traffic: PublicRackTraffic, copies: Standbys, wanted: frozenset[TaskId]) -> None:
    """Raises IllegalStateError if a standby of a task outside `wanted` could be swapped. The error names the first such
    task. Pairs of clients are checked in the leader's order, and the standbys of each pair are checked in sorted order.
    Source: `BalanceSubtopologyGraphConstructor.validateTasks`.
    """
    for source, destination in combinations(range(len(traffic.racks)), 2):
        if traffic.racks[source] == traffic.racks[destination]:
            continue
        there, back = copies.movable(source, destination), copies.movable(destination, source)
        for task in sorted({*there, *back}) if there and back else ():
            if copies.tasks[task] not in wanted:
                raise IllegalStateError(f"Task {copies.tasks[task]} not in tasksForTopicGroup")
