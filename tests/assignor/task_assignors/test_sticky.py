"""LegacyStickyTaskAssignor and FallbackPriorTaskAssignor, beside `small_groups/LegacyStickyTaskAssignor.toml`.

`placements_sticky` are 73 placements of Kafka's own classes in which a rule that is easily missed decides: the pairs of
tasks, the order of the candidates' set, of its copy, of the unassigned tasks, and process ids that crowd one bucket.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.errors import IllegalStateError
from assignor.task_assignors.base import Placement, PlacementClient, PlacementProblem, TaskAssignor
from assignor.task_assignors.decisions import DecisionKind, DecisionLog
from assignor.task_assignors.legacy_sticky import FallbackPriorTaskAssignor, LegacyStickyTaskAssignor
from assignor.types import Role, TaskId
from tests.assignor.task_assignors.high_availability_cases import process, tasks

STICKY = LegacyStickyTaskAssignor()
FALLBACK = FallbackPriorTaskAssignor()


def client(number: int, active: str = "", standby: str = "", capacity: int = 1) -> PlacementClient:
    """`active` and `standby`: the previous tasks."""
    had_active, had_standby = frozenset(tasks(active)), frozenset(tasks(standby))
    return PlacementClient(
        process(number), capacity, TaskLags({}), previous_active=had_active, previous_standby=had_standby
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


@pytest.mark.parametrize(
    "clients, message",
    [
        ([], "`totalCapacity` should never be zero."),
        ([client(1, capacity=0)], "`totalCapacity` should never be zero."),
        ([client(1, capacity=0), client(2)], "Capacity of this ClientState must be greater than 0."),
    ],
)
def test_should_refuse_clients_without_threads(clients: list[PlacementClient], message: str) -> None:
    with pytest.raises(IllegalStateError, match=f"^{re.escape(message)}$"):
        assign(problem("0_0", *clients))


def test_should_place_more_tasks_than_kafka_can_keep_pairs_of() -> None:
    many = " ".join(f"0_{partition}" for partition in range(46_500))
    placement, _ = assign(problem(many, client(1), client(2), client(3), standbys=1))
    sizes = [(len(placed.active), len(placed.standby)) for placed in placement.clients.values()]
    assert sum(active for active, _ in sizes) == sum(standby for _, standby in sizes) == 46_500
    assert all(active + standby == 31_000 for active, standby in sizes)


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
