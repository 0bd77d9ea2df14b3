"""LegacyStickyTaskAssignor and FallbackPriorTaskAssignor: equal to Kafka 4.3.1, and why each task is where it is.

`placements_sticky` are 73 placements of Kafka's own classes in which a rule that is easily missed decides: the pairs of
tasks, the order of the candidates' set, of its copy, of the unassigned tasks, and process ids that crowd one bucket.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.errors import IllegalStateError
from assignor.task_assignors.base import Placement, PlacementClient, PlacementProblem, TaskAssignor
from assignor.task_assignors.decisions import Decision, DecisionKind, DecisionLog
from assignor.task_assignors.legacy_sticky import FallbackPriorTaskAssignor, LegacyStickyTaskAssignor
from assignor.types import Role, TaskId
from tests.assignor.task_assignors.high_availability_cases import decision, held, process, tasks

STICKY = LegacyStickyTaskAssignor()
FALLBACK = FallbackPriorTaskAssignor()


def client(number: int, active: str = "", standby: str = "", capacity: int = 1) -> PlacementClient:
    """`active` and `standby`: what it had before."""
    return PlacementClient(
        process(number),
        capacity,
        TaskLags({}),
        previous_active=frozenset(tasks(active)),
        previous_standby=frozenset(tasks(standby)),
    )


def problem(all_tasks: str, *clients: PlacementClient, standbys: int = 0) -> PlacementProblem:
    """All tasks are stateful."""
    return PlacementProblem(
        AssignmentConfigs(num_standby_replicas=standbys),
        tasks(all_tasks),
        tasks(all_tasks),
        {each.process_id: each for each in clients},
    )


def assign(placement_problem: PlacementProblem, assignor: TaskAssignor = STICKY) -> tuple[Placement, DecisionLog]:
    log = DecisionLog()
    return assignor.assign(placement_problem, log), log


def test_should_move_only_what_exceeds_the_share_when_a_client_joins() -> None:
    """Which tasks stay is the order of their hashes."""
    placement, log = assign(problem("0_0 0_1 0_2 0_3", client(1, "0_0 0_1 0_2 0_3"), client(2)))
    assert held(placement) == {1: ("0_2 0_3", ""), 2: ("0_0 0_1", "")}
    assert log[2:] == [
        decision(DecisionKind.LEAST_LOADED, "0_0", Role.ACTIVE, 2, other=1),
        decision(DecisionKind.LEAST_LOADED, "0_1", Role.ACTIVE, 2, other=1),
    ]


def test_should_activate_a_previous_standby_when_the_owner_is_gone() -> None:
    placement, log = assign(problem("0_0 0_1", client(1, "0_1"), client(2, "", "0_0")))
    assert held(placement) == {1: ("0_1", ""), 2: ("0_0", "")}
    assert log == [
        decision(DecisionKind.PREVIOUS_ACTIVE, "0_1", Role.ACTIVE, 1),
        decision(DecisionKind.PREVIOUS_STANDBY, "0_0", Role.ACTIVE, 2),
    ]


def test_should_keep_standbys_where_they_were() -> None:
    placement, log = assign(
        problem("0_0 0_1", client(1, "0_0", "0_1"), client(2, "0_1"), client(3, "", "0_0"), standbys=1)
    )
    assert held(placement) == {1: ("0_0", "0_1"), 2: ("0_1", ""), 3: ("", "0_0")}
    assert log[2:] == [
        decision(DecisionKind.PREVIOUS_STANDBY, "0_0", Role.STANDBY, 3),
        decision(DecisionKind.PREVIOUS_STANDBY, "0_1", Role.STANDBY, 1),
    ]


def test_should_say_how_many_standbys_found_no_client() -> None:
    placement, log = assign(problem("0_0", client(1), client(2), standbys=4))
    assert held(placement) == {1: ("0_0", ""), 2: ("", "0_0")}
    assert log[1:] == [
        decision(DecisionKind.LEAST_LOADED, "0_0", Role.STANDBY, 2),
        Decision(DecisionKind.NO_STANDBY_HOST, TaskId(0, 0), Role.STANDBY, detail=3),
    ]


@pytest.mark.parametrize(
    "clients, message",
    [
        ([], "`totalCapacity` should never be zero."),
        ([client(1, capacity=0)], "`totalCapacity` should never be zero."),
        ([client(1, capacity=0), client(2)], "Capacity of this ClientState must be greater than 0."),
    ],
)
def test_should_refuse_clients_without_threads(clients: list[PlacementClient], message: str) -> None:
    with pytest.raises(IllegalStateError) as refused:
        assign(problem("0_0", *clients))
    assert str(refused.value) == message


def test_should_place_more_tasks_than_kafka_can_keep_pairs_of() -> None:
    many = " ".join(f"0_{partition}" for partition in range(50_000))
    placement, _ = assign(problem(many, client(1), client(2), client(3), standbys=1))
    sizes = [(len(placed.active), len(placed.standby)) for placed in placement.clients.values()]
    assert sum(active for active, _ in sizes) == sum(standby for _, standby in sizes) == 50_000
    assert all(active + standby in (33_333, 33_334) for active, standby in sizes)


@st.composite
def problems(draw: st.DrawFn) -> PlacementProblem:
    """Clients that claim anything: tasks twice, tasks that are gone, more standbys than asked for."""
    known = [TaskId(subtopology, partition) for subtopology in range(3) for partition in range(4)]
    all_tasks = draw(st.lists(st.sampled_from(known), unique=True))
    stateful = [task for task in all_tasks if draw(st.booleans())]
    claims = st.frozensets(st.sampled_from(known))
    clients = [
        PlacementClient(
            process(number),
            draw(st.integers(1, 3)),
            TaskLags({}),
            previous_active=draw(claims),
            previous_standby=draw(claims),
        )
        for number in draw(st.lists(st.integers(-5, 20), min_size=1, max_size=6, unique=True))
    ]
    configs = AssignmentConfigs(num_standby_replicas=draw(st.integers(0, 7)))
    return PlacementProblem(configs, tuple(all_tasks), tuple(stateful), {each.process_id: each for each in clients})


@given(problems(), st.sampled_from([STICKY, FALLBACK]))
def test_should_place_each_copy_once_and_say_why(before: PlacementProblem, assignor: TaskAssignor) -> None:
    placement, log = assign(before, assignor)
    assert list(placement.clients) == list(before.clients)
    active = [task for placed in placement.clients.values() for task in placed.active]
    assert sorted(active) == sorted(before.tasks)
    copies = {
        task: sum(task in placed.standby for placed in placement.clients.values()) for task in before.stateful_tasks
    }
    possible = min(before.configs.num_standby_replicas, len(before.clients) - 1)
    assert copies == dict.fromkeys(before.stateful_tasks, possible)
    assert all(not placed.active & placed.standby for placed in placement.clients.values())
    said = {(step.task, step.role, step.process) for step in log if step.kind is not DecisionKind.NO_STANDBY_HOST}
    assert said == {
        (task, role, process_id)
        for process_id, placed in placement.clients.items()
        for role, held_tasks in ((Role.ACTIVE, placed.active), (Role.STANDBY, placed.standby))
        for task in held_tasks
    }
