"""What holds for every placement of MinimalMovementTaskAssignor, and for groups over many rebalances.

The invariants are those of HighAvailabilityTaskAssignor, tighter where this assignor promises more: every client has
the whole number below or above its share, no task moves twice to reach its place, and no copy is restored in vain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from assignor.configs import AssignmentConfigs
from assignor.decisions import DecisionKind, DecisionLog
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.minimal_movement import MinimalMovementTaskAssignor
from assignor.types import LATEST_OFFSET, ProcessId, Role, TaskId
from tests.properties.simulated_clients import END, SimulatedClients, at_once
from tests.properties.test_high_availability_properties import (
    all_configs,
    assert_balanced,
    assert_every_copy_is_in_place,
    assert_runs_where_it_ran_or_where_it_is_caught_up,
    assert_subtopologies_are_spread,
    convergence_configs,
    groups,
    groups_with_state,
    process_ids,
)

Copy = tuple[TaskId, ProcessId]


def minimal(group: SimulatedClients) -> SimulatedClients:
    group.assignor = MinimalMovementTaskAssignor()
    return group


any_group_with_state = groups_with_state().map(minimal)


def caught_up_at_the_end(task: TaskId, lag: int) -> int:
    return 0


def assert_within_shares(group: SimulatedClients, placement: Placement) -> None:
    """Active tasks: the whole number below or above the share by threads, of all and of each subtopology."""
    threads = sum(group.capacity.values())
    stateful = frozenset(group.stateful)
    by_subtopology = Counter(task.subtopology for task in stateful)
    for process, client in placement.clients.items():
        own = group.capacity[process]
        assert (len(client.active & stateful) * threads) // own in _around(len(stateful) * own, threads, own)
        for subtopology, count in by_subtopology.items():
            active = sum(task.subtopology == subtopology for task in client.active & stateful)
            assert count * own // threads <= active <= -(-count * own // threads)
        assert len(group.stateful + group.stateless) * own // threads <= len(client.active)
        assert len(client.active) <= -(-len(group.stateful + group.stateless) * own // threads)


def _around(share_times_threads: int, threads: int, own: int) -> Iterable[int]:
    low, high = share_times_threads // threads, -(-share_times_threads // threads)
    return {low * threads // own, high * threads // own}


def copies_of(group: SimulatedClients) -> set[Copy]:
    return {(task, process) for process in group.capacity for task in group.lags[process]}


def owners(group: SimulatedClients) -> dict[TaskId, ProcessId]:
    return {
        task: process
        for process in group.capacity
        for task, lag in group.lags[process].items()
        if lag == LATEST_OFFSET
    }


@settings(max_examples=300, deadline=None)
@given(any_group_with_state)
def test_should_place_every_copy_whatever_clients_report(group: SimulatedClients) -> None:
    problem = group.problem()
    placement = MinimalMovementTaskAssignor().assign(problem, [])
    assert_every_copy_is_in_place(problem, placement)
    for client in placement.clients.values():
        assert placement.probing_rebalance_needed or not client.warm_ups


@settings(max_examples=200, deadline=None)
@given(any_group_with_state, st.data())
def test_should_not_depend_on_the_order_of_clients_and_tasks(group: SimulatedClients, data: st.DataObject) -> None:
    problem = group.problem()
    shuffled = PlacementProblem(
        problem.configs,
        tuple(data.draw(st.permutations(problem.tasks))),
        tuple(data.draw(st.permutations(problem.stateful_tasks))),
        {process: problem.clients[process] for process in data.draw(st.permutations(list(problem.clients)))},
    )
    logs: tuple[DecisionLog, DecisionLog] = ([], [])
    first = MinimalMovementTaskAssignor().assign(problem, logs[0])
    second = MinimalMovementTaskAssignor().assign(shuffled, logs[1])
    assert (first, logs[0]) == (second, logs[1])


@settings(max_examples=200, deadline=None)
@given(any_group_with_state)
def test_should_say_where_every_task_went(group: SimulatedClients) -> None:
    """The last word of the log about a task's active copy names the client that got it."""
    log: DecisionLog = []
    placement = MinimalMovementTaskAssignor().assign(group.problem(), log)
    says_where = {
        DecisionKind.KEPT,
        DecisionKind.HANDED_OVER,
        DecisionKind.WAITS,
        DecisionKind.MOVED_TO_CAUGHT_UP,
        DecisionKind.MOVED_TO_MOST_CAUGHT_UP,
        DecisionKind.STATELESS,
    }
    said = [(step.task, step.process) for step in log if step.role is Role.ACTIVE and step.kind in says_where]
    active = [(task, process) for process, client in placement.clients.items() for task in client.active]
    assert sorted(said) == sorted(active)
    warmed_up = [(step.task, step.process) for step in log if step.kind is DecisionKind.WARM_UP]
    warm_ups = [(task, process) for process, client in placement.clients.items() for task in client.warm_ups]
    assert sorted(warmed_up) == sorted(warm_ups)


@settings(max_examples=200, deadline=None)
@given(groups(all_configs(), single_threads=False).map(minimal))
def test_should_reach_the_exact_shares_at_once_when_all_are_caught_up(group: SimulatedClients) -> None:
    caught_up = group.with_all_caught_up()
    placement = MinimalMovementTaskAssignor().assign(caught_up.problem(), [])
    assert_every_copy_is_in_place(caught_up.problem(), placement)
    assert not placement.probing_rebalance_needed
    assert all(not client.warm_ups for client in placement.clients.values())
    assert_within_shares(group, placement)


@settings(max_examples=300, deadline=None)
@given(any_group_with_state)
def test_should_move_nothing_once_it_is_stable(group: SimulatedClients) -> None:
    assert group.rounds_until_stable(200) is not None
    settled = group.rebalance()
    assert group.rebalance() == settled
    assert_within_shares(group, settled)


@settings(max_examples=300, deadline=None)
@given(any_group_with_state, st.integers(1, END))
def test_should_settle_without_a_copy_restored_in_vain(group: SimulatedClients, records: int) -> None:
    """However slowly warm-ups restore: whatever began to restore stays until it is done, and then takes over."""
    started: set[Copy] = copies_of(group)
    placed: list[Copy] = []
    for _ in range(400):
        before = copies_of(group)
        placement = group.rebalance(lambda task, lag: max(0, lag - records))
        placed += sorted(copies_of(group) - before)
        if not placement.probing_rebalance_needed:
            break
    else:
        raise AssertionError("never settled")
