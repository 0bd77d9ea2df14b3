"""What holds for every placement of MinimalMovementTaskAssignor, and for groups over many rebalances.

The invariants are those of HighAvailabilityTaskAssignor, tighter where this assignor promises more: every client has
the whole number below or above its share, no task moves twice to reach its place, and without standbys nothing is ever
restored in vain.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.configs import AssignmentConfigs
from assignor.configs.pins import Pin, TaskPattern, TaskWeights
from assignor.task_assignors.base import Placement, validate_placement
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.minimal.movement import MinimalMovementTaskAssignor
from assignor.types import LATEST_OFFSET, ProcessId, TaskId
from tests.properties.simulated_clients import END, SimulatedClients
from tests.properties.test_high_availability_properties import (
    all_configs,
    assert_balanced,
    assert_every_copy_is_in_place,
    assert_subtopologies_are_spread,
    convergence_configs,
    groups,
    groups_with_state,
    process_ids,
    spread,
)

Copy = tuple[TaskId, ProcessId]


def minimal(group: SimulatedClients) -> SimulatedClients:
    group.assignor = MinimalMovementTaskAssignor()
    return group


any_group = groups(all_configs(), single_threads=False).map(minimal)
any_group_with_state = groups_with_state().map(minimal)


def assert_within_shares(group: SimulatedClients, placement: Placement) -> None:
    """Stateful tasks: the whole number below or above the share by threads, of all and of each subtopology's.

    With the stateless tasks, which fill up around them: within one task per thread.
    """
    threads = sum(group.capacity.values())
    stateful = frozenset(group.stateful)
    for process, client in placement.clients.items():
        own = group.capacity[process]
        assert len(stateful) * own // threads <= len(client.active & stateful) <= -(-len(stateful) * own // threads)
        for subtopology, count in Counter(task.subtopology for task in stateful).items():
            active = sum(task.subtopology == subtopology for task in client.active)
            assert count * own // threads <= active <= -(-count * own // threads)
    assert spread(group, {process: len(client.active) for process, client in placement.clients.items()}) <= 1


def copies_of(group: SimulatedClients) -> set[Copy]:
    return {(task, process) for process in group.capacity for task in group.lags[process]}


def owners(group: SimulatedClients) -> dict[TaskId, ProcessId]:
    return {
        task: process for process in group.capacity for task, lag in group.lags[process].items() if lag == LATEST_OFFSET
    }


@dataclass(frozen=True, slots=True)
class History:
    """`restored`: copies that began to be restored; `needed`: those of them that are there in the end. `moves`: how
    often each task went from one running client to another.
    """

    rounds: int
    restored: int
    needed: int
    moves: Mapping[TaskId, int]
    end: Placement


def history_of(group: SimulatedClients, records: int = END, limit: int = 1_000) -> History:
    """Rounds until stable; `records`: how many a standby reads between two rounds."""
    begin, restored, moves = copies_of(group), 0, Counter[TaskId]()
    for rounds in range(1, limit + 1):
        before, ran_on = copies_of(group), owners(group)
        placement = group.rebalance(lambda task, lag: max(0, lag - records))
        restored += len(copies_of(group) - before)
        moves.update(task for task, process in owners(group).items() if ran_on.get(task, process) != process)
        if not placement.probing_rebalance_needed:
            return History(rounds, restored, len(copies_of(group) - begin), moves, placement)
    raise AssertionError(f"not stable after {limit} rounds")


@given(any_group)
def test_should_reach_the_exact_shares_at_once_when_all_are_caught_up(group: SimulatedClients) -> None:
    caught_up = group.with_all_caught_up()
    placement = MinimalMovementTaskAssignor().assign(caught_up.problem(), DecisionLog())
    assert_every_copy_is_in_place(caught_up.problem(), placement)
    assert not placement.probing_rebalance_needed
    assert all(not client.warm_ups for client in placement.clients.values())
    assert_within_shares(group, placement)


@given(any_group_with_state)
def test_should_move_nothing_once_it_is_stable(group: SimulatedClients) -> None:
    settled = history_of(group).end
    assert_within_shares(group, settled)
    assert group.rebalance() == settled


@given(any_group_with_state, st.sampled_from([20_000, 60_000, END]))
def test_should_restore_nothing_in_vain_without_standbys_and_move_no_task_twice(
    group: SimulatedClients, records: int
) -> None:
    """However slowly warm-ups restore, what has begun is what the next round goes on with."""
    group.configs = AssignmentConfigs(
        acceptable_recovery_lag=100, max_warmup_replicas=group.configs.max_warmup_replicas
    )
    group.rebalance()
    history = history_of(group, records)
    assert history.restored == history.needed
    assert set(history.moves.values()) <= {1}
    rounds_for_one = math.ceil((END - 100) / records)
    assert history.rounds <= math.ceil(history.needed / group.configs.max_warmup_replicas) * rounds_for_one + 2


@given(
    group=groups(convergence_configs(standbys=True), single_threads=True).map(minimal),
    newcomers=st.lists(process_ids, min_size=1, max_size=3, unique=True),
)
def test_should_restore_only_what_newcomers_are_to_have(group: SimulatedClients, newcomers: list[ProcessId]) -> None:
    """All that there is to do, in as few rounds as max.warmup.replicas allows, and balanced as by Kafka in the end."""
    assert group.rounds_until_stable(1) == 1
    for newcomer in newcomers:
        if newcomer not in group.capacity:
            group.join(newcomer)
    history = history_of(group)
    assert set(history.moves.values()) <= {1}
    assert history.rounds <= math.ceil(history.restored / group.configs.max_warmup_replicas) + 2
    assert_balanced(group, history.end)
    assert_subtopologies_are_spread(group, history.end)


@given(group=groups(convergence_configs(standbys=True), single_threads=True).map(minimal), data=st.data())
def test_should_settle_after_any_clients_come_and_go(group: SimulatedClients, data: st.DataObject) -> None:
    assert group.rounds_until_stable(1) == 1
    known = sorted(group.capacity)
    for here in data.draw(st.lists(st.sets(st.sampled_from(known), min_size=1), max_size=4)):
        for process in known:
            if process in group.capacity and process not in here:
                group.leave(process)
            elif process in here and process not in group.capacity:
                group.join(process, tags=group.tags[process])
        history = history_of(group)
        assert history.rounds <= math.ceil(history.restored / group.configs.max_warmup_replicas) + 2
        assert_balanced(group, history.end)
        assert_subtopologies_are_spread(group, history.end)


patterns = st.sampled_from([TaskPattern(None, None), TaskPattern(0, None), TaskPattern(0, 1), TaskPattern(1, 0)])
pins = st.one_of(
    st.builds(
        Pin,
        st.lists(patterns, min_size=1, max_size=2).map(tuple),
        tags=st.sampled_from("abcd").map(lambda zone: (("zone", zone),)),
    ),
    st.builds(Pin, st.lists(patterns, min_size=1, max_size=2).map(tuple), apart=st.sampled_from(["zone", "process"])),
)


@st.composite
def groups_with_pins(draw: st.DrawFn) -> SimulatedClients:
    group = draw(any_group_with_state)
    weights = draw(
        st.one_of(
            st.none(),
            st.just(TaskWeights(by_restore_size=True)),
            st.dictionaries(st.sampled_from(group.stateful), st.floats(0.5, 9), max_size=9).map(
                lambda of_tasks: TaskWeights(tuple(sorted(of_tasks.items())))
            )
            if group.stateful
            else st.none(),
        )
    )
    group.configs = AssignmentConfigs(
        num_standby_replicas=group.configs.num_standby_replicas,
        acceptable_recovery_lag=group.configs.acceptable_recovery_lag,
        max_warmup_replicas=group.configs.max_warmup_replicas,
        rack_aware_assignment_tags=group.configs.rack_aware_assignment_tags,
        minimal_movement_task_weights=weights,
        minimal_movement_pins=tuple(draw(st.lists(pins, max_size=3))),
    )
    return group


@given(groups_with_pins())
def test_should_place_every_task_and_settle_whatever_the_pins_ask_for(group: SimulatedClients) -> None:
    first = group.problem()
    validate_placement(first, MinimalMovementTaskAssignor().assign(first, DecisionLog()))
    history = history_of(group)
    validate_placement(group.problem(), history.end)
    for task in group.stateful + group.stateless:
        assert_pins_by_tags_are_kept(group, history.end, task)


def assert_pins_by_tags_are_kept(group: SimulatedClients, placement: Placement, task: TaskId) -> None:
    wanted = {tag for pin in group.configs.minimal_movement_pins if pin.names(task) for tag in pin.tags}
    allowed = {process for process in group.capacity if wanted <= set(group.tags[process].items())}
    holding = {process for process, client in placement.clients.items() if task in client.active | client.standby}
    assert not allowed or holding <= allowed


@pytest.mark.parametrize("apart", ["host", "process"])
@given(hosts=st.integers(2, 6), per_host=st.integers(1, 3), together=st.integers(2, 6), data=st.data())
def test_should_keep_tasks_apart_whenever_there_are_as_many_places(
    apart: str, hosts: int, per_host: int, together: int, data: st.DataObject
) -> None:
    together = min(together, hosts)
    others = data.draw(st.integers(0, 20))
    pin = Pin((TaskPattern(0, None),), apart=apart)
    group = SimulatedClients(
        AssignmentConfigs(minimal_movement_pins=(pin,)),
        tuple(TaskId(0, number) for number in range(together)) + tuple(TaskId(1, number) for number in range(others)),
        assignor=MinimalMovementTaskAssignor(),
    )
    for number in range(hosts * per_host):
        group.join(ProcessId(0, number), tags={"host": str(number % hosts)})
    running_on = data.draw(st.lists(st.sampled_from(sorted(group.capacity)), min_size=together, max_size=together))
    for task, process in zip(group.stateful, running_on, strict=False):
        group.lags[process][task] = LATEST_OFFSET
    placement = history_of(group).end
    places = [
        process if apart == "process" else group.tags[process]["host"]
        for process, client in placement.clients.items()
        for task in client.active
        if task.subtopology == 0
    ]
    assert len(set(places)) == len(places) == together
