"""Standbys over tags, KIP-708. Clients 1, 2, 3, ... sort in this order."""

from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import PlacementClient
from assignor.task_assignors.decisions import DecisionKind, DecisionLog
from assignor.task_assignors.standby_assignors import ClientTagStandbyTaskAssignor
from assignor.task_assignors.working_state import WorkingState
from assignor.types import Role, TaskId
from tests.assignor.task_assignors.high_availability_cases import assign, client, decision, decisions, problem


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


def test_should_log_standbys_that_found_no_client_at_all() -> None:
    case = problem(configs(2, "zone"), [tagged(1, "a"), tagged(2, "b")], "0_0")
    steps = decisions(case, "0_0")
    assert steps[1] == decision(DecisionKind.TARGET, "0_0", Role.STANDBY, 2)
    assert (steps[2].kind, steps[2].detail) == (DecisionKind.NO_STANDBY_HOST, 1)


def test_should_allow_a_standby_to_move_only_where_all_tags_of_its_client_are() -> None:
    clients = [tagged(1, "a"), tagged(2, "a"), tagged(3, "b"), tagged(4, "a", "k1"), client(5)]
    state = WorkingState.of(problem(configs(1, "zone"), clients, ""), DecisionLog())
    may_move = ClientTagStandbyTaskAssignor(state, ("zone",)).may_move
    everybody = range(len(clients))
    allowed = {(1 + source, 1 + other) for source in everybody for other in everybody if may_move(source, other)}
    to_itself = {(number, number) for number in range(1, 6)}
    # Client 4 has a tag more than 1 and 2, be it configured or not; client 5 has none that could be missed.
    assert allowed - to_itself == {(1, 2), (2, 1), (1, 4), (2, 4), (5, 1), (5, 2), (5, 3), (5, 4)}
