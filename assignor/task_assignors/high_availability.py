"""The default task assignor of Kafka Streams, which balances the tasks over the clients. A task moves only after its
state was restored on the new client.

The assignor works in three steps:

1. The assignor decides the target of each copy, as if every client were caught up. Stateful tasks are assigned to the
   sorted clients round robin and balanced over threads, before the standbys are placed.
2. The assignor considers lags. While the target of a task warms up, the task stays on a client that has the task's
   state.
3. The assignor gives each stateless task to the client with the lowest load.

With a rack-aware strategy, tasks are swapped three times to save cross-rack traffic: after the
placement of active tasks, after the placement of standbys, and after the placement of stateless tasks.

Balancing moves tasks from clients with many tasks per thread to clients with few tasks per thread, in Kafka's order.
Two loops visit each pair of a source and a destination, in the order of the process ids. Tasks move from the source to
the destination, lowest task id first. Each move has to narrow the gap between the loads of the source and the
destination. The loops over sources and destinations repeat until no task moves. Kafka checks all pairs of clients, and
sorts the source's tasks for each pair. This module only compares two numbers, one of each client, to find out if a task
can move. A client is not tried as a source if no task could move from this client to the least loaded client.

Source: `HighAvailabilityTaskAssignor`, KIP-441, KIP-925.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heapreplace
from itertools import cycle, islice

from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.decisions import Decision, DecisionKind, DecisionLog
from assignor.task_assignors.racks.optimization import (
    STATELESS_COSTS,
    Costs,
    RackTraffic,
    Standbys,
    optimize_active_tasks,
    optimize_standby_tasks,
)
from assignor.task_assignors.standby_assignors import StandbyTaskAssignor, standby_task_assignor
from assignor.task_assignors.task_movement import WarmUpBudget, move_active_tasks, move_standby_tasks, rank_by_lag
from assignor.task_assignors.working_state import WorkingState
from assignor.types import Role, TaskId


def balance_active_over_threads(state: WorkingState) -> None:
    """Balances the active stateful tasks over threads. Call this function before standbys are placed."""
    _balance(state, Role.ACTIVE, lambda source, destination: True)


def balance_standbys_over_threads(state: WorkingState, may_move: Callable[[int, int], bool]) -> None:
    """Balances the standbys over threads. `may_move(source, destination)`: True if the standby assignor allows moves
    from `source` to `destination`.
    """
    _balance(state, Role.STANDBY, may_move)


def _balance(state: WorkingState, role: Role, may_move: Callable[[int, int], bool]) -> None:
    held, move = (state.standby, state.move_standby) if role is Role.STANDBY else (state.active, state.move_active)
    assigned, capacity = state.assigned, state.capacity
    clients = range(len(capacity))
    load_with_one_more = [(assigned[client] + 1.0) / capacity[client] for client in clients]
    moved_any = True
    while moved_any:
        moved_any = False
        lowest = min(load_with_one_more)
        for source in clients:
            if (assigned[source] - 1.0) / capacity[source] < lowest:
                continue
            before = assigned[source]
            for destination in clients:
                if load_with_one_more[destination] > (assigned[source] - 1.0) / capacity[source]:
                    continue
                if destination == source or not may_move(source, destination):
                    continue
                for task in _moves(state, held[source], source, destination):
                    move(source, destination, task)
                    state.log_decision(DecisionKind.BALANCED, task, role, destination, source)
                load_with_one_more[destination] = (assigned[destination] + 1.0) / capacity[destination]
            if assigned[source] != before:
                moved_any = True
                load_with_one_more[source] = (assigned[source] + 1.0) / capacity[source]
                lowest = min(load_with_one_more)


def _moves(state: WorkingState, held: set[int], source: int, destination: int) -> Iterator[int]:
    """Yields the tasks to move, lowest task id first. The caller has to move each task before it asks for the next
    task.
    """
    for task in sorted(held):
        if not _should_move(state, source, destination):
            return
        if not state.holds(destination, task):
            yield task


def _should_move(state: WorkingState, source: int, destination: int) -> bool:
    """True if the move of one task narrows the gap between the two loads and does not reverse it.

    Source: `HighAvailabilityTaskAssignor.shouldMoveATask`, which also computes with doubles.
    """
    skew = state.load(source) - state.load(destination)
    if skew <= 0:
        return False
    skew_after = (state.assigned[source] - 1.0) / state.capacity[source] - (
        state.assigned[destination] + 1.0
    ) / state.capacity[destination]
    return 0 <= skew_after < skew


DEFAULT_COSTS = Costs(traffic=10, non_overlap=1)


class HighAvailabilityTaskAssignor:
    name = "HighAvailabilityTaskAssignor"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        """Raises InputError if there are no clients or threads, and IllegalStateError if a lag or the racks of a
        partition are missing.
        """
        configs = problem.configs
        state = WorkingState.of(problem, log)
        traffic = RackTraffic.of(problem, state.processes)
        costs = DEFAULT_COSTS.with_configs(configs)
        assign_active_targets(state)
        if traffic is not None:
            _save_traffic_of_active(state, traffic, costs, configs.rack_aware_assignment_strategy)
        if configs.num_standby_replicas != 0:
            standbys = standby_task_assignor(state, configs)
            standbys.assign(state, configs.num_standby_replicas)
            balance_standbys_over_threads(state, standbys.may_move)
            if traffic is not None:
                _save_traffic_of_standbys(state, traffic, costs, standbys)
        lags = rank_by_lag(state, configs.acceptable_recovery_lag)
        budget = WarmUpBudget(configs.max_warmup_replicas)
        moved_active = move_active_tasks(state, lags, budget)
        moved_standbys = move_standby_tasks(state, lags, budget)
        all_are_stateful = len(problem.stateful_tasks) == len(problem.tasks)
        names = [] if all_are_stateful else sorted(set(problem.tasks).difference(state.tasks))
        stateless = assign_stateless_tasks(state, names)
        if traffic is not None:
            stateless = _save_traffic_of_stateless(state, traffic, configs.rack_aware_assignment_strategy, stateless)
        return state.placement(stateless, probing_rebalance_needed=moved_active + moved_standbys > 0)


def assign_active_targets(state: WorkingState) -> None:
    client_count, names = len(state.clients), state.names
    for client in range(client_count):
        tasks = range(client, len(state.tasks), client_count)
        state.active[client].update(tasks)
        state.assigned[client] += len(tasks)
    state.owner[:] = islice(cycle(range(client_count)), len(state.tasks))
    state.log.later(
        lambda: (
            Decision(DecisionKind.TARGET, task, Role.ACTIVE, names.processes[number % client_count])
            for number, task in enumerate(names.tasks)
        )
    )
    balance_active_over_threads(state)


def assign_stateless_tasks(state: WorkingState, tasks: list[TaskId]) -> list[list[TaskId]]:
    """Places each stateless task on the client with the fewest active tasks per thread. Returns the tasks of each
    client.

    Kafka takes clients from its ConstrainedPrioritySet to place stateless tasks. A client's load changes only while the
    client is not in the queue, so `heapq` gives the same clients.
    """
    counts = [len(active) for active in state.active]
    capacity = state.capacity
    stateless: list[list[TaskId]] = [[] for _ in counts]
    queue = [(count / capacity[client], client) for client, count in enumerate(counts)]
    heapify(queue)
    for task in tasks:
        client = queue[0][1]
        counts[client] += 1
        stateless[client].append(task)
        heapreplace(queue, (counts[client] / capacity[client], client))
        state.log.append(Decision(DecisionKind.STATELESS, task, Role.ACTIVE, state.processes[client]))
    return stateless


def _save_traffic_of_active(state: WorkingState, traffic: RackTraffic, costs: Costs, strategy: str) -> None:
    for task, source, destination, saved in optimize_active_tasks(traffic, state.tasks, state.owner, costs, strategy):
        state.move_active(source, destination, task)
        state.log_decision(DecisionKind.RACK_MOVED, task, Role.ACTIVE, destination, source, saved)


def _save_traffic_of_standbys(
    state: WorkingState, traffic: RackTraffic, costs: Costs, assignor: StandbyTaskAssignor
) -> None:
    def may_swap(task: int, source: int, destination: int) -> bool:
        return assignor.may_swap(state, task, source, destination)

    standbys = Standbys(state.tasks, state.active, state.standby)
    moves = optimize_standby_tasks(traffic, standbys, costs, may_swap if assignor.limits_swaps else None)
    for task, source, destination, saved in moves:
        state.log_decision(DecisionKind.RACK_MOVED, task, Role.STANDBY, destination, source, saved)


def _save_traffic_of_stateless(
    state: WorkingState, traffic: RackTraffic, strategy: str, stateless: list[list[TaskId]]
) -> list[list[TaskId]]:
    """Swaps stateless tasks to save cross-rack traffic. Returns the stateless tasks of each client."""
    owners = {task: client for client, tasks in enumerate(stateless) for task in tasks}
    tasks = sorted(owners)
    moves = optimize_active_tasks(traffic, tasks, [owners[task] for task in tasks], STATELESS_COSTS, strategy)
    for number, source, destination, saved in moves:
        task, processes = tasks[number], state.processes
        owners[task] = destination
        state.log.append(
            Decision(
                DecisionKind.RACK_MOVED, task, Role.ACTIVE, processes[destination], processes[source], detail=saved
            )
        )
    placed: list[list[TaskId]] = [[] for _ in stateless]
    for task, client in owners.items():
        placed[client].append(task)
    return placed
