"""Balancing must make the very moves that looking at all pairs of clients makes, in the same order."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.decisions import DecisionLog
from assignor.task_assignors.base import PlacementClient, PlacementProblem
from assignor.task_assignors.high_availability import balance_active_over_threads, balance_standbys_over_threads
from assignor.task_assignors.working_state import WorkingState
from assignor.types import ProcessId, TaskId

Moves = list[tuple[int, int, int]]
"""Task, source, destination."""


def moves_over_all_pairs(state: WorkingState, standby: bool, may_move: Callable[[int, int], bool]) -> Moves:
    """What `HighAvailabilityTaskAssignor.balanceTasksOverThreads` does, on lists that it changes."""
    held = [sorted(tasks) for tasks in (state.standby if standby else state.active)]
    blocked = [set(tasks) for tasks in (state.active if standby else state.standby)]
    counts, threads = list(state.assigned), state.capacity
    moves: Moves = []
    found = -1
    while found != len(moves):
        found = len(moves)
        for source in range(len(threads)):
            for destination in range(len(threads)):
                for task in sorted(held[source]) if source != destination else ():
                    gap = counts[source] / threads[source] - counts[destination] / threads[destination]
                    after = (counts[source] - 1) / threads[source] - (counts[destination] + 1) / threads[destination]
                    if not (gap > 0 and 0 <= after < gap):
                        break
                    if task in held[destination] or task in blocked[destination] or not may_move(source, destination):
                        continue
                    held[source].remove(task)
                    held[destination].append(task)
                    counts[source] -= 1
                    counts[destination] += 1
                    moves.append((task, source, destination))
    return moves


def state_of(threads: list[int], task_count: int, log: DecisionLog) -> WorkingState:
    tasks = tuple(TaskId(0, number) for number in range(task_count))
    clients = {
        ProcessId(0, number): PlacementClient(ProcessId(0, number), count, TaskLags({}))
        for number, count in enumerate(threads)
    }
    return WorkingState.of(PlacementProblem(AssignmentConfigs(), tasks, tasks, clients), log)


def moves_in(log: DecisionLog) -> Moves:
    return [
        (decision.task.partition, decision.other.low, decision.process.low)
        for decision in log
        if decision.process is not None and decision.other is not None
    ]


all_threads = st.lists(st.sampled_from([1, 1, 2, 3, 5, 100]), min_size=1, max_size=8)


@given(threads=all_threads, owners=st.lists(st.integers(0, 7), max_size=40))
def test_should_balance_active_tasks_as_if_all_pairs_were_looked_at(threads: list[int], owners: list[int]) -> None:
    log = DecisionLog()
    state = state_of(threads, len(owners), log)
    for task, owner in enumerate(owners):
        state.assign_active(owner % len(threads), task)
    expected = moves_over_all_pairs(state, False, lambda source, destination: True)
    balance_active_over_threads(state)
    assert moves_in(log) == expected
    assert state.assigned == [len(tasks) for tasks in state.active]


@given(
    threads=all_threads,
    copies=st.lists(st.tuples(st.integers(0, 7), st.sets(st.integers(0, 7), max_size=4)), max_size=30),
    zones=st.lists(st.integers(0, 1), min_size=8, max_size=8),
)
def test_should_balance_standbys_as_if_all_pairs_were_looked_at(
    threads: list[int], copies: list[tuple[int, set[int]]], zones: list[int]
) -> None:
    def may_move(source: int, destination: int) -> bool:
        return zones[source] == zones[destination]

    log = DecisionLog()
    state = state_of(threads, len(copies), log)
    for task, (owner, standbys) in enumerate(copies):
        state.assign_active(owner % len(threads), task)
        for client in {standby % len(threads) for standby in standbys} - {owner % len(threads)}:
            state.assign_standby(client, task)
    expected = moves_over_all_pairs(state, True, may_move)
    balance_standbys_over_threads(state, may_move)
    assert moves_in(log) == expected
