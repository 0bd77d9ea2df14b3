"""What MinimalMovementTaskAssignor does, one small group each."""

from dataclasses import replace

import pytest

from assignor.configs import AssignmentConfigs
from assignor.configs.pins import Pin, TaskPattern, TaskWeights
from assignor.errors import IllegalStateError, InputError
from assignor.explain import explain_placement
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.decisions import Decision, DecisionKind, DecisionLog
from assignor.task_assignors.minimal.movement import MinimalMovementTaskAssignor
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, Role, TaskId
from tests.assignor.task_assignors.high_availability_cases import (
    client,
    decision,
    held,
    problem,
    process,
    tasks,
    warm_ups,
)

RUNNING = LATEST_OFFSET
NO_STANDBYS = AssignmentConfigs()
ONE_STANDBY = AssignmentConfigs(num_standby_replicas=1)


def assign(case: PlacementProblem) -> Placement:
    return MinimalMovementTaskAssignor().assign(case, DecisionLog())


def decisions(case: PlacementProblem, task: str) -> list[Decision]:
    log = DecisionLog()
    MinimalMovementTaskAssignor().assign(case, log)
    return [step for step in log if step.task == TaskId.parse(task)]


def running(text: str) -> dict[str, int]:
    return dict.fromkeys(text.split(), RUNNING)


def test_should_leave_everything_where_it_runs_when_that_is_balanced() -> None:
    case = problem(NO_STANDBYS, [client(1, running("0_1 0_2")), client(2, running("0_0 0_3"))], "0_0 0_1 0_2 0_3")
    placement = assign(case)
    assert held(placement) == {1: ("0_1 0_2", ""), 2: ("0_0 0_3", "")}
    assert not placement.probing_rebalance_needed
    assert decisions(case, "0_1") == [
        decision(DecisionKind.TARGET_KEPT, "0_1", Role.ACTIVE, 1),
        decision(DecisionKind.KEPT, "0_1", Role.ACTIVE, 1),
    ]


def test_should_warm_up_only_what_a_new_client_is_to_have_while_all_runs_where_it_ran() -> None:
    case = problem(NO_STANDBYS, [client(1, running("0_0 0_1 0_2 0_3")), client(2)], "0_0 0_1 0_2 0_3")
    placement = assign(case)
    assert held(placement) == {1: ("0_0 0_1 0_2 0_3", ""), 2: ("", "0_0 0_1")}
    assert warm_ups(placement) == {2: "0_0 0_1"}
    assert placement.probing_rebalance_needed
    assert decisions(case, "0_0") == [
        decision(DecisionKind.TARGET_MOVED, "0_0", Role.ACTIVE, 2, other=1),
        decision(DecisionKind.WAITS, "0_0", Role.ACTIVE, 1, other=2),
        decision(DecisionKind.WARM_UP, "0_0", Role.ACTIVE, 2, other=1),
    ]


def test_should_hand_over_what_has_caught_up_and_go_on_with_what_is_on_its_way() -> None:
    on_its_way = client(2, {"0_2": 9_000, "0_3": 60_000})
    case = problem(NO_STANDBYS, [client(1, running("0_0 0_1 0_2 0_3")), on_its_way], "0_0 0_1 0_2 0_3")
    placement = assign(case)
    assert held(placement) == {1: ("0_0 0_1 0_3", ""), 2: ("0_2", "0_3")}
    assert decisions(case, "0_2") == [
        decision(DecisionKind.TARGET_MOVED, "0_2", Role.ACTIVE, 2, other=1),
        decision(DecisionKind.HANDED_OVER, "0_2", Role.ACTIVE, 2, other=1),
    ]


def test_should_warm_up_no_more_than_allowed_and_what_is_nearest_to_the_end_first() -> None:
    configs = AssignmentConfigs(max_warmup_replicas=1)
    case = problem(configs, [client(1, running("0_0 0_1 0_2 0_3")), client(2, {"0_2": 60_000})], "0_0 0_1 0_2 0_3")
    placement = assign(case)
    assert warm_ups(placement) == {2: "0_2"}
    assert decisions(case, "0_0")[-1] == decision(DecisionKind.WARM_UP_BUDGET_SPENT, "0_0", Role.ACTIVE, 2, other=1)


def test_should_spread_each_subtopology_even_where_the_totals_are_even_already() -> None:
    """Kafka's balance, too: 0_0 and 0_1 do not stay together."""
    caught_up = dict.fromkeys(["0_0", "0_1", "1_0", "1_1"], 0)
    clients = [client(1, caught_up | running("0_0 0_1")), client(2, caught_up | running("1_0 1_1"))]
    placement = assign(problem(NO_STANDBYS, clients, "0_0 0_1 1_0 1_1"))
    assert held(placement) == {1: ("0_1 1_0", ""), 2: ("0_0 1_1", "")}


def test_should_let_the_standby_take_over_and_place_a_new_one_when_an_owner_is_lost() -> None:
    clients = [client(1, {**running("0_0"), "0_1": 5}), client(2, {**running("0_2"), "0_0": 5})]
    case = problem(ONE_STANDBY, clients, "0_0 0_1 0_2")
    placement = assign(case)
    assert held(placement) == {1: ("0_0 0_1", "0_2"), 2: ("0_2", "0_0 0_1")}
    assert not placement.probing_rebalance_needed
    assert decisions(case, "0_1") == [
        decision(DecisionKind.TARGET_NEW, "0_1", Role.ACTIVE, 1),
        decision(DecisionKind.TARGET_NEW, "0_1", Role.STANDBY, 2),
        decision(DecisionKind.KEPT, "0_1", Role.ACTIVE, 1),
        decision(DecisionKind.KEPT, "0_1", Role.STANDBY, 2),
    ]


def test_should_keep_standbys_where_they_are_while_their_task_waits() -> None:
    clients = [
        client(1, {**running("0_0 0_1"), "0_2": 0, "0_3": 0}),
        client(2, {**running("0_2 0_3"), "0_0": 0, "0_1": 0}),
    ]
    placement = assign(problem(ONE_STANDBY, [*clients, client(3)], "0_0 0_1 0_2 0_3"))
    by_client = held(placement)
    assert (by_client[1], by_client[2]) == (("0_0 0_1", "0_2 0_3"), ("0_2 0_3", "0_0 0_1"))
    assert by_client[3] == ("", warm_ups(placement)[3])


def test_should_make_the_client_that_gives_a_task_up_its_standby() -> None:
    """Client 1 hands 0_0 over to the standby, and becomes the standby itself: nothing is restored."""
    clients = [client(1, running("0_0 0_1")), client(2, {"0_0": 3, "0_1": 3})]
    placement = assign(problem(ONE_STANDBY, clients, "0_0 0_1"))
    assert held(placement) == {1: ("0_1", "0_0"), 2: ("0_0", "0_1")}
    assert not placement.probing_rebalance_needed


def test_should_place_standbys_at_once_where_there_are_none_to_wait_for() -> None:
    clients = [client(1, running("0_0")), client(2, running("0_1"))]
    placement = assign(problem(ONE_STANDBY, clients, "0_0 0_1"))
    assert held(placement) == {1: ("0_0", "0_1"), 2: ("0_1", "0_0")}
    assert not placement.probing_rebalance_needed


def test_should_say_how_many_standbys_found_no_client() -> None:
    case = problem(AssignmentConfigs(num_standby_replicas=2), [client(1, running("0_0")), client(2)], "0_0")
    assert Decision(DecisionKind.NO_STANDBY_HOST, TaskId(0, 0), Role.STANDBY, detail=1) in decisions(case, "0_0")


def test_should_spread_standbys_over_tags_and_leave_those_that_are_spread() -> None:
    """0_0 needs a standby outside of zone a; that of 0_1 only goes to the other client of its zone for balance."""
    configs = AssignmentConfigs(num_standby_replicas=1, rack_aware_assignment_tags=("zone",))
    clients = [
        client(1, {**running("0_0"), "0_1": 0}, tags={"zone": "a"}),
        client(2, {"0_0": 0}, tags={"zone": "a"}),
        client(3, running("0_1"), tags={"zone": "b"}),
        client(4, {}, tags={"zone": "b"}),
    ]
    placement = assign(problem(configs, clients, "0_0 0_1"))
    assert held(placement) == {1: ("0_0", "0_1"), 2: ("", "0_0 0_1"), 3: ("0_1", ""), 4: ("", "0_0")}
    assert warm_ups(placement) == {2: "0_1", 4: "0_0"}


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


def test_should_take_an_unknown_lag_for_a_whole_restore() -> None:
    """Kafka would take it for less than any other, as it is a negative number."""
    clients = [client(1, {"0_0": UNKNOWN_OFFSET_SUM}), client(2, {"0_0": 50_000})]
    assert held(assign(problem(NO_STANDBYS, clients, "0_0"))) == {1: ("", ""), 2: ("0_0", "")}


def test_should_keep_the_heavy_tasks_and_move_the_light_ones() -> None:
    weights = TaskWeights(((TaskId(0, 0), 8.0), (TaskId(0, 1), 0.5), (TaskId(0, 3), 0.25)))
    configs = AssignmentConfigs(minimal_movement_task_weights=weights)
    placement = assign(problem(configs, [client(1, running("0_0 0_1 0_2 0_3")), client(2)], "0_0 0_1 0_2 0_3"))
    assert warm_ups(placement) == {2: "0_1 0_3"}


def test_should_weigh_tasks_by_what_would_have_to_be_restored() -> None:
    configs = AssignmentConfigs(minimal_movement_task_weights=TaskWeights(by_restore_size=True))
    sizes = {"0_0": 70_000, "0_1": 20_000, "0_2": 90_000, "0_3": 15_000}
    case = problem(configs, [client(1, running("0_0 0_1 0_2 0_3")), client(2, sizes)], "0_0 0_1 0_2 0_3")
    assert warm_ups(assign(case)) == {2: "0_1 0_3"}


def pinned(*pins: Pin, standbys: int = 0) -> AssignmentConfigs:
    return AssignmentConfigs(num_standby_replicas=standbys, minimal_movement_pins=pins)


FIRST = (TaskPattern(0, 0),)
SUBTOPOLOGY = (TaskPattern(0, None),)


def test_should_move_a_task_to_where_its_pin_wants_it() -> None:
    case = problem(
        pinned(Pin(FIRST, tags=(("zone", "b"),))),
        [client(1, running("0_0"), tags={"zone": "a"}), client(2, running("0_1"), tags={"zone": "b"})],
        "0_0 0_1",
    )
    assert warm_ups(assign(case)) == {1: "0_1", 2: "0_0"}
    assert decisions(case, "0_0")[0] == decision(DecisionKind.TARGET_PINNED, "0_0", Role.ACTIVE, 2, other=1)
    assert decisions(case, "0_1")[0] == decision(DecisionKind.TARGET_MOVED, "0_1", Role.ACTIVE, 1, other=2)


def test_should_keep_standbys_within_the_pin_rather_than_have_them() -> None:
    case = problem(
        pinned(Pin(FIRST, tags=(("zone", "b"),)), standbys=1),
        [client(1, tags={"zone": "a"}), client(2, running("0_0"), tags={"zone": "b"})],
        "0_0",
    )
    assert held(assign(case)) == {1: ("", ""), 2: ("0_0", "")}
    assert Decision(DecisionKind.NO_STANDBY_HOST, TaskId(0, 0), Role.STANDBY, detail=1) in decisions(case, "0_0")


def test_should_set_a_pin_aside_that_no_client_can_keep_and_say_so() -> None:
    case = problem(pinned(Pin(FIRST, tags=(("zone", "c"),))), [client(1, running("0_0"), tags={"zone": "a"})], "0_0")
    assert held(assign(case)) == {1: ("0_0", "")}
    assert decisions(case, "0_0")[0] == decision(DecisionKind.PIN_SET_ASIDE, "0_0", Role.ACTIVE, 1)


def test_should_never_put_two_copies_on_one_host() -> None:
    case = problem(
        pinned(Pin(SUBTOPOLOGY, apart="host"), standbys=1),
        [client(number, tags={"host": str(number // 2)}) for number in range(8)],
        "0_0 0_1 1_0 1_1",
    )
    placement = assign(case)
    hosts = [
        process_id.low // 2
        for process_id, placed in placement.clients.items()
        for task in (*placed.active, *placed.standby)
        if task.subtopology == 0
    ]
    assert sorted(hosts) == [0, 1, 2, 3]


def test_should_make_room_for_a_task_that_can_only_be_on_one_host() -> None:
    """0_1 may be anywhere but runs where 0_0 has to be."""
    case = problem(
        pinned(Pin(FIRST, tags=(("zone", "a"),)), Pin(SUBTOPOLOGY, apart="process")),
        [client(1, {"0_1": RUNNING, "0_0": 0}, tags={"zone": "a"}), client(2, {"0_0": RUNNING, "0_1": 0})],
        "0_0 0_1",
    )
    assert held(assign(case)) == {1: ("0_0", ""), 2: ("0_1", "")}


def test_should_place_more_tasks_apart_than_there_are_places_all_the_same() -> None:
    case = problem(pinned(Pin(SUBTOPOLOGY, apart="process")), [client(1), client(2)], "0_0 0_1 0_2")
    assert sorted(len(active.split()) for active, _ in held(assign(case)).values()) == [1, 2]
    assert DecisionKind.PIN_SET_ASIDE in {step.kind for step in decisions(case, "0_2")}


def test_should_tell_the_whole_history_in_words() -> None:
    case = problem(NO_STANDBYS, [client(1, running("0_0 0_1")), client(2)], "0_0 0_1", stateless="1_0")
    log = DecisionLog()
    placement = MinimalMovementTaskAssignor().assign(case, log)
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
