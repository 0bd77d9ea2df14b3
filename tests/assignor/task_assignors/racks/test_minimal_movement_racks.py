"""What MinimalMovementTaskAssignor does with a rack-aware strategy, in cases that a person can check.

`tests/properties/test_minimal_movement_racks.py` has the proof that there is nothing better.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from assignor.configs import AssignmentConfigs
from assignor.configs.pins import TaskWeights
from assignor.explain import explain_placement
from assignor.task_assignors.base import PlacementProblem
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.minimal.movement import MinimalMovementTaskAssignor
from assignor.types import TaskId
from tests.assignor.task_assignors.high_availability_cases import held, tasks
from tests.assignor.task_assignors.racks.test_rack_aware_assignors import BALANCED, MIN_TRAFFIC, Racks, placed
from tests.assignor.task_assignors.racks.test_rack_aware_assignors import problem as problem_of_nobody

MINIMAL = MinimalMovementTaskAssignor()
FOUR = {"0_0": "a", "0_1": "b", "0_2": "b", "0_3": "a"}
"""Tasks, and the rack of what each reads."""


def problem(
    configs: AssignmentConfigs,
    racks: Mapping[int, str | None],
    sources: Racks,
    changelogs: Racks | None = None,
    had: Mapping[int, str] | None = None,
) -> PlacementProblem:
    """`had`: the tasks that each client ran. The state of all tasks is everywhere, so that a task can run where it
    belongs.
    """
    case = problem_of_nobody(configs, racks, sources, changelogs)
    clients = {
        process: replace(client, previous_active=frozenset(tasks((had or {}).get(process.low, ""))))
        for process, client in case.clients.items()
    }
    return replace(case, clients=clients)


@pytest.mark.parametrize("configs", [MIN_TRAFFIC, BALANCED], ids=["min_traffic", "balance_subtopology"])
def test_should_give_a_newcomer_the_tasks_that_are_read_on_its_rack(configs: AssignmentConfigs) -> None:
    case = problem(configs, {1: "a", 2: "b"}, FOUR, had={1: "0_0 0_1 0_2 0_3"})
    assert placed(case, MINIMAL)[0] == {1: ("0_0 0_3", ""), 2: ("0_1 0_2", "")}


def test_should_not_look_at_racks_without_a_strategy() -> None:
    case = problem(AssignmentConfigs(), {1: "a", 2: "b"}, FOUR, had={1: "0_0 0_1 0_2 0_3"})
    assert placed(case, MINIMAL)[0] == placed(replace(case, racks=None), MINIMAL)[0]
    assert placed(case, MINIMAL)[0] != {1: ("0_0 0_3", ""), 2: ("0_1 0_2", "")}


@pytest.mark.parametrize("unknown", [{1: "a", 2: None}, {1: "a", 2: "b"}], ids=["a client's", "a broker's"])
def test_should_do_without_racks_when_one_is_not_known(unknown: Mapping[int, str | None]) -> None:
    sources = FOUR if None in unknown.values() else {**FOUR, "0_3": "a -"}
    case = problem(MIN_TRAFFIC, unknown, sources, had={1: "0_0 0_1 0_2 0_3"})
    assert placed(case, MINIMAL)[0] == placed(replace(case, racks=None), MINIMAL)[0]


def test_should_move_nothing_to_save_traffic() -> None:
    case = problem(MIN_TRAFFIC, {1: "a", 2: "b"}, FOUR, FOUR, had={1: "0_1 0_2", 2: "0_0 0_3"})
    dear = replace(case, configs=replace(MIN_TRAFFIC, rack_aware_traffic_cost=1000, rack_aware_non_overlap_cost=0))
    for each in (case, dear):
        assert placed(each, MINIMAL)[0] == {1: ("0_1 0_2", ""), 2: ("0_0 0_3", "")}


def test_should_keep_the_heavy_tasks_before_it_looks_at_racks() -> None:
    weights = TaskWeights(((TaskId(0, 1), 5.0), (TaskId(0, 2), 5.0)))
    case = problem(MIN_TRAFFIC, {1: "a", 2: "b"}, FOUR, FOUR, had={1: "0_0 0_1 0_2 0_3"})
    heavy = replace(case, configs=replace(MIN_TRAFFIC, minimal_movement_task_weights=weights))
    assert placed(case, MINIMAL)[0] == {1: ("0_0 0_3", ""), 2: ("0_1 0_2", "")}
    assert placed(heavy, MINIMAL)[0] == {1: ("0_1 0_2", ""), 2: ("0_0 0_3", "")}


def test_should_say_how_much_is_read_across_racks_where_a_task_goes() -> None:
    case = problem(MIN_TRAFFIC, {1: "a", 2: "b"}, {**FOUR, "0_2": "c"}, had={1: "0_0 0_1 0_2 0_3"})
    log = DecisionLog()
    placement = MINIMAL.assign(case, log)
    assert held(placement) == {1: ("0_0 0_3", ""), 2: ("0_1 0_2", "")}
    texts = [each.text for each in explain_placement(case, placement, log)]
    assert "which reads no partitions of it across racks" in texts[1]
    assert "which reads 1 partition of it across racks" in texts[2]
    assert "across racks" not in texts[0] + texts[3]
