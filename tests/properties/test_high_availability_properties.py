"""What holds for every placement of HighAvailabilityTaskAssignor, in part of MinimalMovementTaskAssignor too, and for
groups over many rebalances.

Balance and number of rounds are what Kafka's own TaskAssignorConvergenceTest and AssignmentTestUtils ask for.
"""

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import Placement, PlacementProblem, TaskAssignor, validate_placement
from assignor.task_assignors.decisions import DecisionKind, DecisionLog
from assignor.task_assignors.high_availability import HighAvailabilityTaskAssignor
from assignor.task_assignors.minimal.movement import MinimalMovementTaskAssignor
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, Role, TaskId
from tests.properties.simulated_clients import END, SimulatedClients

process_ids = st.builds(ProcessId, st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
sizes_of_subtopologies = st.lists(st.integers(1, 8), max_size=4)
both_assignors = st.sampled_from([HighAvailabilityTaskAssignor(), MinimalMovementTaskAssignor()])


def tasks_of(sizes: list[int], first: int = 0) -> tuple[TaskId, ...]:
    return tuple(TaskId(first + number, partition) for number, size in enumerate(sizes) for partition in range(size))


@st.composite
def all_configs(draw: st.DrawFn) -> AssignmentConfigs:
    return AssignmentConfigs(
        num_standby_replicas=draw(st.integers(0, 4)),
        acceptable_recovery_lag=draw(st.sampled_from([0, 100, 10_000, JAVA_LONG_MAX])),
        max_warmup_replicas=draw(st.integers(1, 6)),
        rack_aware_assignment_tags=draw(st.sampled_from([(), (), ("zone",), ("zone", "cluster")])),
    )


@st.composite
def groups(draw: st.DrawFn, configs: st.SearchStrategy[AssignmentConfigs], single_threads: bool) -> SimulatedClients:
    """Clients that have just joined, without any state."""
    stateful = draw(sizes_of_subtopologies)
    group = SimulatedClients(draw(configs), tasks_of(stateful), tasks_of(draw(sizes_of_subtopologies), len(stateful)))
    tags = st.fixed_dictionaries({"zone": st.sampled_from("abc")}, optional={"cluster": st.sampled_from("kl")})
    for process in draw(st.lists(process_ids, min_size=1, max_size=9, unique=True)):
        group.join(process, 1 if single_threads else draw(st.sampled_from([1, 1, 2, 3, 8])), draw(tags))
    return group


@st.composite
def groups_with_state(draw: st.DrawFn) -> SimulatedClients:
    """As `groups`, and every client reports some lags of any kind."""
    group = draw(groups(all_configs(), single_threads=False))
    lag = st.sampled_from([LATEST_OFFSET, LATEST_OFFSET, 0, 0, 50, 5_000, 20_000, END, UNKNOWN_OFFSET_SUM])
    if group.stateful:
        for process in group.capacity:
            group.lags[process] = draw(st.dictionaries(st.sampled_from(group.stateful), lag, max_size=12))
    return group


def assert_every_copy_is_in_place(problem: PlacementProblem, placement: Placement) -> None:
    """Each task active once, no two copies on one client, and as many copies as there should be, plus its warm-ups."""
    validate_placement(problem, placement)
    clients = placement.clients.values()
    copies = Counter(task for client in clients for task in (*client.active, *client.standby))
    warm_ups = Counter(task for client in clients for task in client.warm_ups)
    wanted = min(len(problem.clients), 1 + problem.configs.num_standby_replicas)
    stateful = frozenset(problem.stateful_tasks)
    assert copies == {task: wanted + warm_ups[task] if task in stateful else 1 for task in problem.tasks}
    assert warm_ups.total() <= problem.configs.max_warmup_replicas


def spread(group: SimulatedClients, counts: Mapping[ProcessId, int]) -> float:
    """Between the most and the least loaded client, in tasks per thread."""
    loads = [count / group.capacity[process] for process, count in counts.items()]
    return max(loads) - min(loads)


def assert_balanced(group: SimulatedClients, placement: Placement) -> None:
    """For clients of one thread each. Source: `assertBalancedActiveAssignment`, `assertBalancedStatefulAssignment`."""
    stateful = frozenset(group.stateful)
    clients = placement.clients.items()
    assert spread(group, {process: len(client.active) for process, client in clients}) <= 1
    copies = {process: len(client.active & stateful) + len(client.standby) for process, client in clients}
    assert spread(group, copies) <= 1


def assert_subtopologies_are_spread(group: SimulatedClients, placement: Placement) -> None:
    """Source: `AssignmentTestUtils.analyzeTaskAssignmentBalance`, for clients of one thread each."""
    for subtopology in {task.subtopology for task in group.stateful + group.stateless}:
        counts = [
            sum(task.subtopology == subtopology for task in client.active) for client in placement.clients.values()
        ]
        assert max(counts) - min(counts) <= 1, (subtopology, placement)


@given(groups_with_state(), both_assignors)
def test_should_place_every_copy_whatever_clients_report(group: SimulatedClients, assignor: TaskAssignor) -> None:
    problem = group.problem()
    log = DecisionLog()
    placement = assignor.assign(problem, log)
    assert_every_copy_is_in_place(problem, placement)
    for client in placement.clients.values():
        assert placement.probing_rebalance_needed or not client.warm_ups


@given(groups_with_state(), both_assignors, st.data())
def test_should_not_depend_on_the_order_of_clients_and_tasks(
    group: SimulatedClients, assignor: TaskAssignor, data: st.DataObject
) -> None:
    problem = group.problem()
    shuffled = PlacementProblem(
        problem.configs,
        tuple(data.draw(st.permutations(problem.tasks))),
        tuple(data.draw(st.permutations(problem.stateful_tasks))),
        {process: problem.clients[process] for process in data.draw(st.permutations(list(problem.clients)))},
    )
    logs = (DecisionLog(), DecisionLog())
    first = assignor.assign(problem, logs[0])
    second = assignor.assign(shuffled, logs[1])
    assert (first, logs[0]) == (second, logs[1])


@given(groups_with_state(), both_assignors)
def test_should_say_where_every_task_went(group: SimulatedClients, assignor: TaskAssignor) -> None:
    """The last word of the log about a task's active copy names the client that got it."""
    log = DecisionLog()
    placement = assignor.assign(group.problem(), log)
    says_where = {
        DecisionKind.KEPT,
        DecisionKind.SWAPPED,
        DecisionKind.MOVED_TO_CAUGHT_UP,
        DecisionKind.MOVED_TO_MOST_CAUGHT_UP,
        DecisionKind.STATELESS,
        DecisionKind.HANDED_OVER,
        DecisionKind.WAITS,
        DecisionKind.NO_STATE,
    }
    said = [
        (decision.task, decision.process)
        for decision in log
        if decision.role is Role.ACTIVE and decision.kind in says_where
    ]
    active = [(task, process) for process, client in placement.clients.items() for task in client.active]
    assert sorted(said) == sorted(active)
    warmed_up = [(step.task, step.process) for step in log if step.kind is DecisionKind.WARM_UP]
    warm_ups = [(task, process) for process, client in placement.clients.items() for task in client.warm_ups]
    assert sorted(warmed_up) == sorted(warm_ups)


@given(groups(all_configs(), single_threads=False))
def test_should_place_as_many_standbys_as_clients_allow_and_no_warm_ups_when_all_are_caught_up(
    group: SimulatedClients,
) -> None:
    caught_up = group.with_all_caught_up()
    placement = HighAvailabilityTaskAssignor().assign(caught_up.problem(), DecisionLog())
    assert_every_copy_is_in_place(caught_up.problem(), placement)
    assert not placement.probing_rebalance_needed
    assert all(not client.warm_ups for client in placement.clients.values())
    assert spread(group, {process: len(client.active) for process, client in placement.clients.items()}) <= 1


@st.composite
def convergence_configs(draw: st.DrawFn, standbys: bool) -> AssignmentConfigs:
    return AssignmentConfigs(
        acceptable_recovery_lag=100,
        max_warmup_replicas=draw(st.integers(1, 10)),
        num_standby_replicas=draw(st.integers(0, 3)) if standbys else 0,
    )


@given(stateful=st.integers(1, 30), stateless=st.integers(0, 10), data=st.data())
def test_should_settle_within_kafkas_rounds_after_a_second_client_joins(
    stateful: int, stateless: int, data: st.DataObject
) -> None:
    """Source: `TaskAssignorConvergenceTest.assignmentShouldConvergeAfterAddingNode`, for any numbers."""
    warm_ups = data.draw(st.integers(1, stateful))
    configs = AssignmentConfigs(acceptable_recovery_lag=100, max_warmup_replicas=warm_ups)
    group = SimulatedClients(configs, tasks_of([stateful]), tasks_of([stateless], first=1))
    group.join(ProcessId(0, 0))
    assert group.rounds_until_stable(1) == 1
    group.join(ProcessId(0, 1))
    assert group.rounds_until_stable(stateful // warm_ups + 1) is not None
    assert_balanced(group, group.rebalance())


@given(group=groups(convergence_configs(standbys=False), single_threads=True), newcomer=process_ids)
def test_should_settle_in_one_round_for_each_set_of_warm_ups_after_a_client_is_added(
    group: SimulatedClients, newcomer: ProcessId
) -> None:
    """Kafka asks for this when one client becomes two; for more, what is left of the division is a round as well."""
    assert group.rounds_until_stable(1) == 1
    if newcomer in group.capacity:
        return
    group.join(newcomer)
    full_rounds = -(-len(group.stateful) // group.configs.max_warmup_replicas)
    assert group.rounds_until_stable(full_rounds + 1) is not None
    placement = group.rebalance()
    assert_balanced(group, placement)
    assert_subtopologies_are_spread(group, placement)


@given(group=groups(convergence_configs(standbys=False), single_threads=True), data=st.data())
def test_should_settle_within_kafkas_rounds_after_one_is_lost(group: SimulatedClients, data: st.DataObject) -> None:
    """Source: `TaskAssignorConvergenceTest.droppingNodesShouldConverge`, for any numbers and any client."""
    assert group.rounds_until_stable(1) == 1
    if len(group.capacity) == 1:
        return
    group.leave(data.draw(st.sampled_from(sorted(group.capacity))))
    assert group.rounds_until_stable(len(group.stateful) // group.configs.max_warmup_replicas + 2) is not None
    placement = group.rebalance()
    assert_balanced(group, placement)
    assert_subtopologies_are_spread(group, placement)


@given(group=groups(convergence_configs(standbys=True), single_threads=True), data=st.data())
def test_should_settle_within_kafkas_rounds_after_any_clients_come_and_go(
    group: SimulatedClients, data: st.DataObject
) -> None:
    """Source: `TaskAssignorConvergenceTest.randomClusterPerturbationsShouldConverge`; who comes back has its state."""
    standbys = group.configs.num_standby_replicas
    limit = max(1, 2 * (len(group.stateful) + len(group.stateful) * standbys))
    assert group.rounds_until_stable(1) == 1
    known = sorted(group.capacity)
    for here in data.draw(st.lists(st.sets(st.sampled_from(known), min_size=1), max_size=4)):
        for process in known:
            if process in group.capacity and process not in here:
                group.leave(process)
            elif process in here and process not in group.capacity:
                group.join(process)
        assert group.rounds_until_stable(limit) is not None
        placement = group.rebalance()
        assert_every_copy_is_in_place(group.problem(), placement)
        assert_balanced(group, placement)
        assert_subtopologies_are_spread(group, placement)


@given(group=groups(all_configs(), single_threads=False), assignor=both_assignors, data=st.data())
def test_should_keep_every_copy_in_place_in_every_round_while_standbys_catch_up_slowly(
    group: SimulatedClients, assignor: TaskAssignor, data: st.DataObject
) -> None:
    group.assignor = assignor
    known = sorted(group.capacity)
    steps = data.draw(
        st.lists(st.tuples(st.sets(st.sampled_from(known), min_size=1), st.integers(1, END)), min_size=1, max_size=6)
    )
    for here, records in steps:
        for process in known:
            if process in group.capacity and process not in here:
                group.leave(process)
            elif process in here and process not in group.capacity:
                group.join(process, tags=group.tags[process])
        problem = group.problem()
        placement = group.rebalance(lambda task, lag, records=records: max(0, lag - records))  # type: ignore[misc]
        assert_every_copy_is_in_place(problem, placement)
        for task in group.stateful:
            assert_runs_where_it_ran_or_where_it_is_caught_up(problem, placement, task)


def assert_runs_where_it_ran_or_where_it_is_caught_up(
    problem: PlacementProblem, placement: Placement, task: TaskId
) -> None:
    """The point of KIP-441: a task goes to a client without its state only when nobody has caught up on it."""
    acceptable = problem.configs.acceptable_recovery_lag
    lags = {process: client.lags.lag_for(task) for process, client in problem.clients.items()}
    caught_up = {process for process, lag in lags.items() if lag == LATEST_OFFSET or 0 <= lag <= acceptable}
    owner = next(process for process, client in placement.clients.items() if task in client.active)
    if caught_up:
        assert owner in caught_up
    else:
        assert lags[owner] == min(lags.values())
