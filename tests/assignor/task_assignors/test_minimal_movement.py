"""Rules of MinimalMovementTaskAssignor beside those of `small_groups/MinimalMovementTaskAssignor.toml`."""

from dataclasses import replace

import pytest

from assignor.configs import AssignmentConfigs
from assignor.configs.pins import Pin, TaskPattern
from assignor.errors import IllegalStateError, InputError
from assignor.explain import explain_placement
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.decisions import DecisionKind, DecisionLog
from assignor.task_assignors.minimal.movement import MinimalMovementTaskAssignor
from assignor.types import LATEST_OFFSET
from tests.assignor.task_assignors.high_availability_cases import client, problem, process, tasks

NO_STANDBYS = AssignmentConfigs()
SUBTOPOLOGY = (TaskPattern(0, None),)


def assign(case: PlacementProblem, log: DecisionLog | None = None) -> Placement:
    return MinimalMovementTaskAssignor().assign(case, DecisionLog() if log is None else log)


def test_should_keep_stateless_tasks_where_they_ran() -> None:
    case = problem(NO_STANDBYS, [client(1), client(2), client(3)], "", stateless="0_0 0_1 0_2 0_3 0_4")
    ran = {1: "0_2 0_3 0_4", 2: "0_0", 3: ""}
    clients = {
        process(number): replace(case.clients[process(number)], previous_active=frozenset(tasks(text)))
        for number, text in ran.items()
    }
    placement = assign(replace(case, clients=clients))
    kept = {number: placement.clients[process(number)].active.intersection(tasks(text)) for number, text in ran.items()}
    assert [len(kept[number]) for number in ran] == [2, 1, 0]
    assert [len(placement.clients[process(number)].active) for number in ran] in ([2, 1, 2], [2, 2, 1])
    assert not placement.probing_rebalance_needed


def test_should_never_put_two_copies_on_one_host() -> None:
    configs = AssignmentConfigs(num_standby_replicas=1, minimal_movement_pins=(Pin(SUBTOPOLOGY, apart="host"),))
    clients = [client(number, tags={"host": str(number // 2)}) for number in range(8)]
    placement = assign(problem(configs, clients, "0_0 0_1 1_0 1_1"))
    hosts = [
        process_id.low // 2
        for process_id, placed in placement.clients.items()
        for task in (*placed.active, *placed.standby)
        if task.subtopology == 0
    ]
    assert sorted(hosts) == [0, 1, 2, 3]


def test_should_place_more_tasks_apart_than_there_are_places_all_the_same() -> None:
    configs, log = AssignmentConfigs(minimal_movement_pins=(Pin(SUBTOPOLOGY, apart="process"),)), DecisionLog()
    placement = assign(problem(configs, [client(1), client(2)], "0_0 0_1 0_2"), log)
    assert sorted(len(placed.active) for placed in placement.clients.values()) == [1, 2]
    assert DecisionKind.PIN_SET_ASIDE in {step.kind for step in log if step.task.partition == 2}


def test_should_tell_the_whole_history_in_words() -> None:
    ran = client(1, dict.fromkeys(("0_0", "0_1"), LATEST_OFFSET))
    case, log = problem(NO_STANDBYS, [ran, client(2)], "0_0 0_1", stateless="1_0"), DecisionLog()
    placement = assign(case, log)
    first, second = str(process(1)), str(process(2))
    assert [explanation.text for explanation in explain_placement(case, placement, log)] == [
        f"0_0 warm-up: active on {first}, warm-up on {second} – caught up: {first} (running it); {first} has more than "
        f"its share: active should go to {second}; active stays with {first} (running it) until {second} (lag 100000) "
        f"has caught up; {second} (lag 100000) warms up meanwhile",
        f"0_1 started: active on {first} – caught up: {first} (running it); active belongs on {first}, which has it "
        f"and no more than its share; active goes to {first} (running it), which is caught up",
        f"1_0 started: active on {first} – no caught-up client runs it: active belongs on {first}; it has no state "
        "to wait for",
    ]


def test_should_refuse_what_the_other_assignors_refuse() -> None:
    with pytest.raises(InputError, match="at least one client"):
        assign(PlacementProblem(NO_STANDBYS, (), (), {}))
    with pytest.raises(IllegalStateError, match="unknown task 0_0"):
        assign(PlacementProblem(NO_STANDBYS, tasks("0_0"), tasks("0_0"), {process(1): client(1)}))
