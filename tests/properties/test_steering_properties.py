"""What holds for every steered placement, whatever clients report, and whichever assignor is steered."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from assignor.clients.client_state import is_caught_up
from assignor.explain import explain_placement
from assignor.task_assignors.base import PlacementProblem, validate_placement
from assignor.task_assignors.decisions import DecisionKind, DecisionLog
from assignor.task_assignors.registry import BUILT_IN_ASSIGNORS, task_assignor_named
from assignor.task_assignors.steering import Steering, steered_assignor
from assignor.types import LATEST_OFFSET, ProcessId, TaskId
from tests.properties.simulated_clients import SimulatedClients
from tests.properties.test_high_availability_properties import all_configs, groups, groups_with_state

assignors = st.sampled_from(sorted(BUILT_IN_ASSIGNORS))


def as_reported(problem: PlacementProblem) -> PlacementProblem:
    """With what each client would say it has: tasks whose lag says running are active there, others are standbys."""
    tasks = frozenset(problem.stateful_tasks)
    clients = {}
    for process, client in problem.clients.items():
        reported = {task: lag for task, lag in client.lags.reported.items() if task in tasks}
        running = frozenset(task for task, lag in reported.items() if lag == LATEST_OFFSET)
        clients[process] = replace(
            client, previous_active=client.previous_active | running, previous_standby=frozenset(reported) - running
        )
    return replace(problem, clients=clients)


def caught_up(problem: PlacementProblem, process: ProcessId, task: TaskId) -> bool:
    lag = problem.clients[process].lags.lag_for(task)
    return is_caught_up(lag, problem.configs.acceptable_recovery_lag)


@given(groups_with_state(), assignors, st.data())
def test_should_leave_on_drained_clients_only_what_runs_there_and_nobody_else_has(
    group: SimulatedClients, assignor: str, data: st.DataObject
) -> None:
    problem = as_reported(group.problem())
    processes = sorted(problem.clients)
    drained = frozenset(data.draw(st.sets(st.sampled_from(processes), max_size=len(processes) - 1)))
    left = problem.clients.keys() - drained
    log = DecisionLog()
    placement = steered_assignor(task_assignor_named(assignor), Steering(drained)).assign(problem, log)
    validate_placement(problem, placement)
    stateful = frozenset(problem.stateful_tasks)
    waiting: set[TaskId] = set()
    for process in drained:
        placed = placement.clients[process]
        assert placed.active <= problem.clients[process].previous_active & stateful
        assert not placed.standby
        waiting |= placed.active
    assert not any(caught_up(problem, process, task) for process in left for task in waiting)
    warm_ups = [task for client in placement.clients.values() for task in client.warm_ups]
    assert len(warm_ups) <= problem.configs.max_warmup_replicas
    if waiting:
        assert placement.probing_rebalance_needed
        assert warm_ups
    said = {step.task for step in log if step.kind is DecisionKind.DRAIN_WAITS}
    assert said == waiting
    assert len([each.text for each in explain_placement(problem, placement, log)]) == len(problem.tasks)


@given(groups(all_configs(), single_threads=False), assignors, st.data())
def test_should_empty_a_drained_client_once_warm_ups_have_caught_up(
    group: SimulatedClients, assignor: str, data: st.DataObject
) -> None:
    for _ in range(3):
        group.rebalance()
    processes = sorted(group.capacity)
    drained = frozenset(data.draw(st.sets(st.sampled_from(processes), max_size=len(processes) - 1)))
    steering = Steering(drained)
    most_rounds = len(group.stateful) + 2
    for _ in range(most_rounds):
        problem = as_reported(group.problem())
        placement = steered_assignor(task_assignor_named(assignor), steering).assign(problem, DecisionLog())
        group.hold(placement)
        if not any(placement.clients[process].active for process in drained):
            break
    assert not any(placement.clients[process].active or placement.clients[process].standby for process in drained)


@given(groups_with_state(), assignors, st.booleans(), st.data())
def test_should_move_nothing_that_runs_when_everything_is_kept(
    group: SimulatedClients, assignor: str, drains: bool, data: st.DataObject
) -> None:
    problem = as_reported(group.problem())
    drained = frozenset(data.draw(st.sets(st.sampled_from(sorted(problem.clients))))) if drains else frozenset()
    log = DecisionLog()
    steering = Steering(drained, keeps_owned=True)
    placement = steered_assignor(task_assignor_named(assignor), steering).assign(problem, log)
    validate_placement(problem, placement)
    assert not placement.probing_rebalance_needed
    owned = {task for client in problem.clients.values() for task in client.previous_active} & set(problem.tasks)
    for process, client in problem.clients.items():
        placed = placement.clients[process]
        assert placed.active & owned <= client.previous_active
        assert placed.standby == client.previous_standby & frozenset(problem.stateful_tasks) - placed.active
    assert {step.task for step in log if step.kind is DecisionKind.KEPT_OWNED} == owned
    assert len([each.text for each in explain_placement(problem, placement, log)]) == len(problem.tasks)


@given(groups_with_state(), assignors, st.booleans(), st.booleans(), st.data())
def test_should_give_nothing_new_to_clients_that_are_away(
    group: SimulatedClients, assignor: str, drains: bool, keeps: bool, data: st.DataObject
) -> None:
    problem = as_reported(group.problem())
    processes = sorted(problem.clients)
    away = frozenset(data.draw(st.sets(st.sampled_from(processes), max_size=len(processes) - 1)))
    drained = frozenset(data.draw(st.sets(st.sampled_from(processes)))) if drains else frozenset()
    log = DecisionLog()
    steering = Steering(drained, keeps_owned=keeps, away_processes=away)
    placement = steered_assignor(task_assignor_named(assignor), steering).assign(problem, log)
    validate_placement(problem, placement)
    for process in away:
        client, placed = problem.clients[process], placement.clients[process]
        assert placed.active <= client.previous_active
        assert keeps or placed.warm_ups <= client.previous_standby | client.previous_active
    passed_over = {step.task for step in log if step.kind is DecisionKind.AWAY_PASSED_OVER}
    runs = {task: process for process, placed in placement.clients.items() for task in placed.active}
    present = problem.clients.keys() - away
    owned = {task for process in present for task in problem.clients[process].previous_active}
    assert all(task in problem.clients[runs[task]].previous_active for task in passed_over & owned)
    waited_for = {task for process in away - drained for task in problem.clients[process].previous_active} - owned
    elsewhere = {task for process in drained & away for task in problem.clients[process].previous_active}
    assert all(runs[task] in away for task in (waited_for & set(problem.tasks)) - elsewhere)
    assert len([each.text for each in explain_placement(problem, placement, log)]) == len(problem.tasks)


@given(groups_with_state(), assignors)
def test_should_decide_the_same_when_nobody_or_a_stranger_is_drained(group: SimulatedClients, assignor: str) -> None:
    problem = as_reported(group.problem())
    chosen = task_assignor_named(assignor)
    assert steered_assignor(chosen, Steering()) is chosen
    logs = (DecisionLog(), DecisionLog())
    plain = chosen.assign(problem, logs[0])
    stranger = Steering(frozenset({ProcessId(2**62, 1)}), frozenset({"nobody"}))
    assert steered_assignor(chosen, stranger).assign(problem, logs[1]) == plain
    assert logs[0] == logs[1]
