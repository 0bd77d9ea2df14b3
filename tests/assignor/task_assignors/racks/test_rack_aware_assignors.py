"""What HighAvailability and LegacySticky do with a rack-aware strategy, in cases that a person can check."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import IllegalStateError, InputError
from assignor.explain import explain_placement
from assignor.task_assignors.base import PlacementProblem, RackInformation, TaskAssignor
from assignor.task_assignors.decisions import Decision, DecisionKind, DecisionLog
from assignor.task_assignors.high_availability import HighAvailabilityTaskAssignor
from assignor.task_assignors.legacy_sticky import FallbackPriorTaskAssignor
from assignor.task_assignors.racks.optimization import Costs
from assignor.task_assignors.racks.task_graph import TaskGraph
from assignor.types import JAVA_INT_MAX, JAVA_INT_MIN, Role, TaskId, TopicPartition
from tests.assignor.task_assignors.high_availability_cases import client, held, process, tasks
from tests.assignor.task_assignors.high_availability_cases import problem as problem_without_racks

MIN_TRAFFIC = AssignmentConfigs(rack_aware_assignment_strategy="min_traffic")
BALANCED = AssignmentConfigs(rack_aware_assignment_strategy="balance_subtopology")
Racks = Mapping[str, str | None]


def problem(
    configs: AssignmentConfigs, racks: Mapping[int, str | None], sources: Racks, changelogs: Racks | None = None
) -> PlacementProblem:
    """`racks`: of the clients; `sources`, `changelogs`: of the one partition that each task reads, as `a b`, with `-`
    for a broker without a rack. Tasks with a changelog are stateful.
    """
    changelogs = changelogs or {}
    stateless = " ".join(task for task in sources if task not in changelogs)
    case = problem_without_racks(configs, map(client, racks), " ".join(changelogs), stateless)
    return replace(
        case,
        clients={each: replace(one, rack=racks[each.low]) for each, one in case.clients.items()},
        racks=RackInformation(
            {TaskId.parse(task): (TopicPartition(f"in-{task}", 0),) for task in sources},
            {TaskId.parse(task): (TopicPartition(f"log-{task}", 0),) for task in changelogs},
            {
                f"{kind}-{task}": (frozenset(None if rack == "-" else rack for rack in (on or "").split()),)
                for kind, each in (("in", sources), ("log", changelogs))
                for task, on in each.items()
            },
        ),
    )


def placed(
    case: PlacementProblem, assignor: TaskAssignor | None = None
) -> tuple[dict[int, tuple[str, str]], DecisionLog]:
    log = DecisionLog()
    return held((assignor or HighAvailabilityTaskAssignor()).assign(case, log)), log


SWAPPED = {"0_0": "b", "0_1": "a"}
"""Round robin would give 0_0 to the client on rack a."""


def test_should_give_tasks_to_clients_on_the_racks_of_their_partitions() -> None:
    found, log = placed(problem(MIN_TRAFFIC, {1: "a", 2: "b"}, SWAPPED, SWAPPED))
    assert found == {1: ("0_1", ""), 2: ("0_0", "")}
    assert [step for step in log if step.kind is DecisionKind.RACK_MOVED] == [
        Decision(DecisionKind.RACK_MOVED, TaskId(0, 0), Role.ACTIVE, process(2), process(1), detail=1),
        Decision(DecisionKind.RACK_MOVED, TaskId(0, 1), Role.ACTIVE, process(1), process(2), detail=1),
    ]


def test_should_leave_racks_out_of_account_when_lags_are_not_known() -> None:
    case = problem(MIN_TRAFFIC, {1: "a", 2: "b"}, SWAPPED)
    assert placed(case, FallbackPriorTaskAssignor())[0] == {1: ("0_0", ""), 2: ("0_1", "")}


def test_should_swap_standbys_by_the_racks_of_their_changelogs_and_say_so() -> None:
    """Clients 1 and 2 run the tasks, 3 and 4 have their standbys."""
    changelogs = {"0_0": "d", "0_1": "c", "0_2": "a b c d", "0_3": "a b c d"}
    configs = replace(MIN_TRAFFIC, num_standby_replicas=1)
    racks = {1: "a", 2: "b", 3: "c", 4: "d"}
    found, log = placed(problem(configs, racks, dict.fromkeys(changelogs, "a b c d"), changelogs))
    standbys = {task: number for number, (_, text) in found.items() for task in text.split()}
    assert (standbys["0_0"], standbys["0_1"]) == (4, 3)
    swapped = [step for step in log if step.kind is DecisionKind.RACK_MOVED]
    assert {(str(step.task), step.role, step.process) for step in swapped} >= {
        ("0_0", Role.STANDBY, process(4)),
        ("0_1", Role.STANDBY, process(3)),
    }


def test_should_spread_a_subtopology_although_everything_could_be_read_on_one_rack() -> None:
    """All of subtopology 0 is on rack a: min_traffic gives it to client 1 as far as its number of tasks goes."""
    sources = {"0_0": "a", "0_1": "a", "1_0": "b", "1_1": "b"}
    racks = {1: "a", 2: "b"}
    assert placed(problem(MIN_TRAFFIC, racks, sources))[0] == {1: ("0_0 0_1", ""), 2: ("1_0 1_1", "")}
    assert placed(problem(BALANCED, racks, sources))[0] == {1: ("0_0 1_0", ""), 2: ("0_1 1_1", "")}


def test_should_name_a_task_that_reads_nothing() -> None:
    case = problem(MIN_TRAFFIC, {1: "a", 2: "b"}, SWAPPED, SWAPPED)
    assert case.racks is not None
    with pytest.raises(IllegalStateError, match="Task 0_1 has no TopicPartitions"):
        placed(
            replace(case, racks=replace(case.racks, task_partitions={**case.racks.task_partitions, TaskId(0, 1): ()}))
        )


def test_should_wrap_costs_as_javas_int_does() -> None:
    assert Costs(JAVA_INT_MAX, 1).of(2, has_copy=True) == -2
    assert Costs(10**9, 5).of(3, has_copy=False) == 3 * 10**9 + 5 - 2**32


def test_should_refuse_costs_with_which_kafkas_leader_never_ends() -> None:
    graph = TaskGraph([0, 1], (range(2),), [(JAVA_INT_MIN, 0), (0, JAVA_INT_MIN)], 2)
    with pytest.raises(InputError, match=r"rack.aware.assignment.traffic_cost: .* never end; set another cost"):
        graph.solve()


def test_should_end_with_the_one_int_without_a_negative_where_kafkas_leader_does() -> None:
    graph = TaskGraph([0], (range(1),), [(JAVA_INT_MIN, 0)], 2)
    graph.solve()
    assert graph.owner == [0]


def test_should_say_what_a_move_saves_or_for_what_it_makes_room() -> None:
    case = problem(MIN_TRAFFIC, {1: "a", 2: "b"}, {"0_0": "b", "0_1": "a b"}, {"0_0": "b", "0_1": "a b"})
    log = DecisionLog()
    placement = HighAvailabilityTaskAssignor().assign(case, log)
    first, second = (each.text for each in explain_placement(case, placement, log))
    assert "moves from 00000000-0000-0000-0000-000000000001 to" in first
    assert "because it saves reading 1 partition across racks" in first
    assert "to make room for a task that is read across racks otherwise" in second
    assert {each.target for each in explain_placement(case, placement, log, tasks("0_0")[0])} == {process(2)}
