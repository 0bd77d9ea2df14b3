"""Standbys over tags, KIP-708. Clients 1, 2, 3, ... sort in this order."""

from __future__ import annotations

from assignor.configs import AssignmentConfigs
from assignor.decisions import DecisionKind, DecisionLog
from assignor.task_assignors.base import PlacementClient
from assignor.task_assignors.high_availability import HighAvailabilityTaskAssignor
from assignor.task_assignors.standby_assignors import ClientTagStandbyTaskAssignor
from assignor.task_assignors.working_state import WorkingState
from assignor.types import Role, TaskId
from tests.assignor.task_assignors.high_availability_cases import (
    assign,
    client,
    decision,
    decisions,
    problem,
)


def tagged(number: int, zone: str, cluster: str | None = None, capacity: int = 1) -> PlacementClient:
    tags = {"zone": zone} if cluster is None else {"zone": zone, "cluster": cluster}
    return client(number, capacity=capacity, tags=tags)


def configs(num_standby_replicas: int, *tags: str) -> AssignmentConfigs:
    return AssignmentConfigs(num_standby_replicas=num_standby_replicas, rack_aware_assignment_tags=tags)


def standby_hosts(clients: list[PlacementClient], settings: AssignmentConfigs, task: str = "0_0") -> list[int]:
    placement = assign(problem(settings, clients, task))
    return [
        process_id.low
        for process_id, placed in sorted(placement.clients.items())
        if TaskId.parse(task) in placed.standby
    ]


def test_should_place_standby_in_another_zone_though_a_client_in_the_same_zone_is_as_free() -> None:
    clients = [tagged(1, "a"), tagged(2, "a"), tagged(3, "b")]
    assert standby_hosts(clients, configs(1, "zone")) == [3]


def test_should_place_each_standby_in_a_zone_of_its_own() -> None:
    clients = [tagged(1, "a"), tagged(2, "b"), tagged(3, "b"), tagged(4, "c")]
    assert standby_hosts(clients, configs(2, "zone")) == [2, 4]


def test_should_leave_tags_out_that_are_not_configured() -> None:
    clients = [tagged(1, "a", "k1"), tagged(2, "a", "k2"), tagged(3, "b", "k1")]
    assert standby_hosts(clients, configs(1, "zone")) == [3]
    assert standby_hosts(clients, configs(1, "cluster")) == [2]


def test_should_differ_in_every_configured_tag_when_a_client_does() -> None:
    clients = [tagged(1, "a", "k1"), tagged(2, "a", "k2"), tagged(3, "b", "k1"), tagged(4, "b", "k2")]
    assert standby_hosts(clients, configs(1, "zone", "cluster")) == [4]


def test_should_give_up_a_tag_whose_values_are_used_up_and_go_on_with_the_others() -> None:
    clients = [
        tagged(1, "a", "k1"),
        tagged(2, "b", "k1"),
        tagged(3, "c", "k1"),
        tagged(4, "a", "k2"),
        tagged(5, "b", "k2"),
        tagged(6, "c", "k2"),
    ]
    # The first standby differs in both tags. Both clusters are used then, so only the zone counts for the second.
    assert standby_hosts(clients, configs(2, "zone", "cluster")) == [3, 5]


def test_should_take_the_least_loaded_client_when_all_are_in_one_zone() -> None:
    clients = [tagged(1, "a"), tagged(2, "a"), tagged(3, "a")]
    assert standby_hosts(clients, configs(1, "zone")) == [2]
    assert standby_hosts(clients, configs(2, "zone")) == [2, 3]


def test_should_fall_back_to_the_least_loaded_client_when_nobody_differs_in_all_tags() -> None:
    clients = [tagged(1, "a", "k1"), tagged(2, "b", "k1"), tagged(3, "a", "k2")]
    assert standby_hosts(clients, configs(1, "zone", "cluster")) == [2]


def test_should_place_standby_anywhere_when_clients_have_no_tags() -> None:
    assert standby_hosts([client(1), client(2), client(3)], configs(2, "zone")) == [2, 3]


def test_should_log_standbys_that_found_no_client_at_all() -> None:
    case = problem(configs(2, "zone"), [tagged(1, "a"), tagged(2, "b")], "0_0")
    steps = decisions(case, "0_0")
    assert steps[1] == decision(DecisionKind.TARGET, "0_0", Role.STANDBY, 2)
    assert (steps[2].kind, steps[2].detail) == (DecisionKind.NO_STANDBY_HOST, 1)


def test_should_place_what_is_left_in_the_order_of_a_hash_map_of_tasks() -> None:
    log = DecisionLog()
    # Nobody differs from client 1 in both tags, and neither tag is used up after one client.
    clients = [tagged(1, "a", "k1"), tagged(2, "b", "k1"), tagged(3, "a", "k2")]
    names = " ".join(f"0_{number}" for number in range(17))
    HighAvailabilityTaskAssignor().assign(problem(configs(1, "zone", "cluster"), clients, names), log)
    placed = [step.task.partition for step in log if step.kind is DecisionKind.TARGET and step.role is Role.STANDBY]
    # 17 tasks make a table of 32 buckets, in which partition p of subtopology 0 lies in bucket 31 - p.
    assert placed == [1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 15, 12, 9, 6, 3, 0]


def test_should_allow_a_standby_to_move_only_where_all_tags_of_its_client_are() -> None:
    clients = [tagged(1, "a"), tagged(2, "a"), tagged(3, "b"), tagged(4, "a", "k1"), client(5)]
    state = WorkingState.of(problem(configs(1, "zone"), clients, ""), DecisionLog())
    may_move = ClientTagStandbyTaskAssignor(state, ("zone",)).may_move
    everybody = range(len(clients))
    allowed = {(1 + source, 1 + other) for source in everybody for other in everybody if may_move(source, other)}
    to_itself = {(number, number) for number in range(1, 6)}
    # Client 4 has a tag more than 1 and 2, be it configured or not; client 5 has none that could be missed.
    assert allowed - to_itself == {(1, 2), (2, 1), (1, 4), (2, 4), (5, 1), (5, 2), (5, 3), (5, 4)}
