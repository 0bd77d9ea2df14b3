"""The default task assignor of Kafka Streams: every task runs where it is balanced, as soon as its state is there.

First come the targets, as if every client were caught up: stateful tasks round robin over the sorted clients, balanced
over threads, then standbys. Then comes lag: tasks stay for now where their state is, while their targets warm up. Then
each stateless task goes to the client with the lowest load. With a rack-aware strategy, each of the three steps that
place tasks is followed by swaps that save traffic. Source: `HighAvailabilityTaskAssignor`, KIP-441, KIP-925.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from itertools import cycle, islice

from assignor.decisions import Decision, DecisionKind, DecisionLog
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.lag_ranking import rank_by_lag
from assignor.task_assignors.racks.costs import STATELESS_COSTS, Costs, RackTraffic
from assignor.task_assignors.racks.optimization import Standbys, optimize_active_tasks, optimize_standby_tasks
from assignor.task_assignors.standby_assignors import StandbyTaskAssignor, standby_task_assignor
from assignor.task_assignors.task_movement import WarmUpBudget, move_active_tasks, move_standby_tasks
from assignor.task_assignors.thread_balance import balance_active_over_threads, balance_standbys_over_threads
from assignor.task_assignors.working_state import WorkingState
from assignor.types import Role, TaskId

DEFAULT_COSTS = Costs(traffic=10, non_overlap=1)


class HighAvailabilityTaskAssignor:
    name = "HighAvailabilityTaskAssignor"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        """Raises InputError (no clients or threads), IllegalStateError (a lag or a partition's racks are missing)."""
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
    """Gives each to the client with the fewest active tasks per thread. Returns the tasks of each client.

    In this step of Kafka's ConstrainedPrioritySet a client's load changes only while it is drawn, so a plain heap
    gives the same clients.
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
    """Returns the tasks of each client."""
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
