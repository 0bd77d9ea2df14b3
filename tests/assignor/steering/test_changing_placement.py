"""What steering changes in a placement that another assignor made."""

from dataclasses import replace

from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementProblem
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.steering.away import AwayAssignor
from assignor.task_assignors.steering.changing_placement import ChangingPlacement
from assignor.task_assignors.steering.draining import DrainingAssignor
from assignor.task_assignors.steering.keeping import KeepingAssignor
from assignor.types import ProcessId, TaskId
from tests.assignor.task_assignors.high_availability_cases import client, problem, process, tasks

A, B, C, D = map(process, (1, 2, 3, 4))
ONE, TWO = tasks("0_0 0_1")


def holding(active: str, standby: str = "", warm_ups: str = "") -> ClientPlacement:
    return ClientPlacement(frozenset(tasks(active)), frozenset(tasks(standby)), frozenset(tasks(warm_ups)))


class Places:
    name = "places as it is told"

    def __init__(self, clients: dict[ProcessId, ClientPlacement]) -> None:
        self._clients = clients

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        return Placement(False, self._clients)


def running(case: PlacementProblem, by: ProcessId, task: TaskId) -> PlacementProblem:
    client_of = replace(case.clients[by], previous_active=frozenset({task}))
    return replace(case, clients={**case.clients, by: client_of})


def test_should_give_the_owner_the_standby_of_who_takes_over_and_no_warm_up() -> None:
    copies = ChangingPlacement.of(Placement(False, {A: holding("0_0 0_1"), B: holding("", "0_0 0_1", "0_1")}))
    copies.swap_with_standby(ONE, B)
    copies.swap_with_standby(TWO, B)
    assert copies.placed() == {A: holding("", "0_0"), B: holding("0_0 0_1")}


def test_should_leave_a_task_with_who_runs_it_when_it_would_go_to_one_that_is_away() -> None:
    case = problem(AssignmentConfigs(), [client(1), client(2, {"0_0": 50_000}), client(3)], "0_0 0_1")
    wrapped = Places({A: holding("0_0"), B: holding("0_1"), C: holding("")})
    placed = AwayAssignor(wrapped, frozenset({A})).assign(running(case, B, ONE), DecisionLog())
    assert placed.clients == {A: holding(""), B: holding("0_0 0_1"), C: holding("")}


def test_should_leave_the_standby_with_who_would_have_taken_over_from_one_that_is_away() -> None:
    case = problem(AssignmentConfigs(num_standby_replicas=1), [client(1), client(2)], "0_0")
    had = replace(case.clients[B], previous_standby=frozenset({ONE}))
    case = running(replace(case, clients={**case.clients, B: had}), A, ONE)
    placed = AwayAssignor(Places({A: holding("", "0_0"), B: holding("0_0")}), frozenset({A})).assign(
        case, DecisionLog()
    )
    assert placed.clients == {A: holding("0_0"), B: holding("", "0_0")}


def test_should_move_from_a_drained_instance_at_once_to_the_least_loaded_that_has_caught_up() -> None:
    clients = [client(1), client(2, {"0_0": 50_000}), client(3, {"0_0": 5}), client(4, {"0_0": 5})]
    case = running(problem(AssignmentConfigs(), clients, "0_0 0_1"), A, ONE)
    wrapped = Places({B: holding("0_0"), C: holding("0_1"), D: holding("")})
    draining = DrainingAssignor(wrapped, frozenset({A}), frozenset(), frozenset())
    placed = draining.assign(case, DecisionLog())
    assert placed.clients == {A: holding(""), B: holding(""), C: holding("0_1"), D: holding("0_0")}


def test_should_believe_who_has_caught_up_when_two_say_that_they_run_a_task() -> None:
    case = problem(AssignmentConfigs(), [client(1, {"0_0": 50_000}), client(2, {"0_0": 5})], "0_0")
    kept = KeepingAssignor(Places({})).assign(running(running(case, A, ONE), B, ONE), DecisionLog())
    assert kept.clients == {A: holding(""), B: holding("0_0")}
