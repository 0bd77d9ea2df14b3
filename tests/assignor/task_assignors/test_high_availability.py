"""The rules of KIP-441, one small group each."""

import pytest

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.errors import IllegalStateError, InputError
from assignor.task_assignors.base import PlacementClient, PlacementProblem
from assignor.task_assignors.decisions import Decision, DecisionKind
from assignor.types import LATEST_OFFSET, Role, TaskId
from tests.assignor.task_assignors.high_availability_cases import (
    assign,
    client,
    decision,
    decisions,
    held,
    problem,
    process,
    tasks,
    warm_ups,
)

RUNNING = LATEST_OFFSET
NO_STANDBYS = AssignmentConfigs()
ONE_STANDBY = AssignmentConfigs(num_standby_replicas=1)


def test_should_move_tasks_to_clients_with_more_threads_lowest_tasks_first() -> None:
    stateful = "0_0 0_1 0_2 0_3 0_4 0_5 0_6 0_7"
    case = problem(NO_STANDBYS, [client(1, capacity=1), client(2, capacity=3)], stateful)
    assert held(assign(case)) == {1: ("0_4 0_6", ""), 2: ("0_0 0_1 0_2 0_3 0_5 0_7", "")}
    assert decisions(case, "0_0") == [
        decision(DecisionKind.TARGET, "0_0", Role.ACTIVE, 1),
        decision(DecisionKind.BALANCED, "0_0", Role.ACTIVE, 2, other=1),
        decision(DecisionKind.KEPT, "0_0", Role.ACTIVE, 2),
    ]


def test_should_give_stateless_tasks_to_the_client_with_fewest_active_tasks_per_thread() -> None:
    case = problem(NO_STANDBYS, [client(1, capacity=1), client(2, capacity=2)], "0_0", stateless="1_0 1_1 1_2 1_3")
    assert held(assign(case)) == {1: ("0_0 1_2", ""), 2: ("1_0 1_1 1_3", "")}
    assert decisions(case, "1_2") == [decision(DecisionKind.STATELESS, "1_2", Role.ACTIVE, 1)]


def test_should_log_how_many_standbys_found_no_client() -> None:
    configs = AssignmentConfigs(num_standby_replicas=3)
    case = problem(configs, [client(1), client(2)], "0_0")
    assert held(assign(case)) == {1: ("0_0", ""), 2: ("", "0_0")}
    assert decisions(case, "0_0")[:3] == [
        decision(DecisionKind.TARGET, "0_0", Role.ACTIVE, 1),
        decision(DecisionKind.TARGET, "0_0", Role.STANDBY, 2),
        Decision(DecisionKind.NO_STANDBY_HOST, TaskId(0, 0), Role.STANDBY, detail=2),
    ]


def test_should_leave_active_where_it_runs_and_warm_up_its_target() -> None:
    case = problem(NO_STANDBYS, [client(1), client(2, {"0_0": RUNNING, "0_1": RUNNING})], "0_0 0_1")
    placement = assign(case)
    assert held(placement) == {1: ("", "0_0"), 2: ("0_0 0_1", "")}
    assert warm_ups(placement) == {1: "0_0"}
    assert placement.probing_rebalance_needed
    assert decisions(case, "0_0") == [
        decision(DecisionKind.TARGET, "0_0", Role.ACTIVE, 1),
        decision(DecisionKind.MOVED_TO_CAUGHT_UP, "0_0", Role.ACTIVE, 2, other=1),
        decision(DecisionKind.WARM_UP, "0_0", Role.ACTIVE, 1, other=2),
    ]


def test_should_stop_warming_up_when_max_warmup_replicas_is_spent() -> None:
    running = dict.fromkeys(("0_0", "0_1", "0_2", "0_3"), RUNNING)
    case = problem(AssignmentConfigs(max_warmup_replicas=1), [client(1), client(2, running)], "0_0 0_1 0_2 0_3")
    placement = assign(case)
    assert held(placement) == {1: ("", "0_0"), 2: ("0_0 0_1 0_2 0_3", "")}
    assert warm_ups(placement) == {1: "0_0"}
    assert decisions(case, "0_2")[-1] == decision(DecisionKind.WARM_UP_BUDGET_SPENT, "0_2", Role.ACTIVE, 1, other=2)


def test_should_swap_with_the_caught_up_standby_without_spending_a_warm_up() -> None:
    case = problem(ONE_STANDBY, [client(1), client(2, {"0_0": 5})], "0_0")
    placement = assign(case)
    assert held(placement) == {1: ("", "0_0"), 2: ("0_0", "")}
    assert warm_ups(placement) == {}
    assert placement.probing_rebalance_needed
    assert decisions(case, "0_0")[2:] == [
        decision(DecisionKind.SWAPPED, "0_0", Role.ACTIVE, 2, other=1),
        decision(DecisionKind.NOWHERE_TO_MOVE, "0_0", Role.STANDBY, 1),
    ]


def test_should_move_active_to_the_least_behind_when_nobody_is_caught_up() -> None:
    clients = [client(1), client(2, {"0_0": 30_000}), client(3, {"0_0": 20_000})]
    case = problem(NO_STANDBYS, clients, "0_0")
    placement = assign(case)
    assert held(placement) == {1: ("", "0_0"), 2: ("", ""), 3: ("0_0", "")}
    assert decisions(case, "0_0")[1:] == [
        decision(DecisionKind.MOVED_TO_MOST_CAUGHT_UP, "0_0", Role.ACTIVE, 3, other=1),
        decision(DecisionKind.WARM_UP, "0_0", Role.ACTIVE, 1, other=3),
    ]


def test_should_move_standby_to_a_caught_up_client_and_warm_up_its_target() -> None:
    clients = [client(1, {"0_0": RUNNING}), client(2), client(3, {"0_0": 0})]
    case = problem(ONE_STANDBY, clients, "0_0")
    placement = assign(case)
    assert held(placement) == {1: ("0_0", ""), 2: ("", "0_0"), 3: ("", "0_0")}
    assert warm_ups(placement) == {2: "0_0"}
    assert decisions(case, "0_0")[3:] == [
        decision(DecisionKind.MOVED_TO_CAUGHT_UP, "0_0", Role.STANDBY, 3, other=2),
        decision(DecisionKind.WARM_UP, "0_0", Role.STANDBY, 2, other=3),
    ]


def test_should_not_warm_up_standbys_with_a_budget_that_active_tasks_have_spent() -> None:
    configs = AssignmentConfigs(num_standby_replicas=1, max_warmup_replicas=1)
    case = problem(configs, [client(1), client(2), client(3, {"0_0": RUNNING}), client(4, {"0_0": 0})], "0_0")
    assert warm_ups(assign(case)) == {1: "0_0"}
    assert decisions(case, "0_0")[-2:] == [
        decision(DecisionKind.MOVED_TO_CAUGHT_UP, "0_0", Role.STANDBY, 4, other=2),
        decision(DecisionKind.WARM_UP_BUDGET_SPENT, "0_0", Role.STANDBY, 2, other=4),
    ]


def test_should_refuse_what_no_group_can_be() -> None:
    with pytest.raises(InputError, match="clients: a placement needs at least one client"):
        assign(problem(NO_STANDBYS, [], "0_0"))
    with pytest.raises(InputError, match="capacity must be at least 1, not 0"):
        assign(problem(NO_STANDBYS, [client(1, capacity=0)], "0_0"))


def test_should_say_which_task_has_no_lag() -> None:
    clients = {
        process(1): PlacementClient(process(1), 1, TaskLags({TaskId(0, 0): 5})),
        process(2): PlacementClient(process(2), 1, TaskLags({})),
    }
    with pytest.raises(IllegalStateError, match="Tried to lookup lag for unknown task 0_0"):
        assign(PlacementProblem(NO_STANDBYS, tasks("0_0"), tasks("0_0"), clients))
