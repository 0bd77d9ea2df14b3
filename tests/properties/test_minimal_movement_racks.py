"""MinimalMovementTaskAssignor with a rack-aware strategy: as few moves as without one, then the least traffic.

Small groups are held against every placement that there is; groups over many rebalances against the same group without
a strategy.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import PlacementProblem, RackInformation
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.minimal.movement import MinimalMovementTaskAssignor
from assignor.types import ProcessId, TaskId, TopicPartition
from rebalance_analysis.measures import cross_rack_reads
from tests.known import known
from tests.properties.simulated_clients import SimulatedClients
from tests.properties.test_high_availability_properties import groups_with_state
from tests.properties.test_minimal_movement_properties import history_of, minimal

MIN_TRAFFIC = "min_traffic"
racks_of_a_partition = st.sets(st.sampled_from("abc"), min_size=1, max_size=2).map(frozenset)


@st.composite
def read_by(draw: st.DrawFn, tasks: Sequence[TaskId], stateful: Sequence[TaskId]) -> RackInformation:
    """Every task reads one to three partitions, and a stateful one has one changelog."""
    sources = {task: tuple(TopicPartition(f"in-{task}", n) for n in range(draw(st.integers(1, 3)))) for task in tasks}
    changelogs = {task: (TopicPartition(f"log-{task}", 0),) for task in stateful}
    every = [partition for by_task in (sources, changelogs) for each in by_task.values() for partition in each]
    on: dict[str, tuple[frozenset[str], ...]] = {}
    for partition in every:
        on[partition.topic] = (*on.get(partition.topic, ()), draw(racks_of_a_partition))
    return RackInformation(sources, changelogs, on)


@st.composite
def caught_up_groups(draw: st.DrawFn) -> SimulatedClients:
    """Every client has all state, so tasks are at once where they belong. One to six tasks, stateful or stateless."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    tasks = tuple(TaskId(number, partition) for number, size in enumerate(sizes) for partition in range(size))
    is_stateful = draw(st.booleans())
    group = SimulatedClients(
        AssignmentConfigs(rack_aware_assignment_strategy=MIN_TRAFFIC),
        tasks if is_stateful else (),
        () if is_stateful else tasks,
        read=draw(read_by(tasks, tasks if is_stateful else ())),
    )
    for number in range(draw(st.integers(2, 4))):
        process = ProcessId(0, number)
        group.join(process, draw(st.sampled_from([1, 1, 2])))
        group.racks[process] = draw(st.sampled_from("abc"))
        group.lags[process] = dict.fromkeys(group.stateful, 0)
    for task in tasks:
        owner = draw(st.sampled_from(list(group.capacity)))
        group.running[owner] = group.running.get(owner, frozenset()) | {task}
    return group


def every_even_placement(group: SimulatedClients, tasks: Sequence[TaskId]) -> Iterator[tuple[ProcessId, ...]]:
    """Each client has its share of all tasks and of each subtopology's, rounded down or up."""
    threads = sum(group.capacity.values())
    sizes = Counter(task.subtopology for task in tasks)
    for owners in product(group.capacity, repeat=len(tasks)):
        of_all = Counter(owners)
        of_class = Counter((process, task.subtopology) for process, task in zip(owners, tasks, strict=True))
        if all(
            size * own // threads <= count <= -(-size * own // threads)
            for process, own in group.capacity.items()
            for size, count in (
                (len(tasks), of_all[process]),
                *((size, of_class[process, number]) for number, size in sizes.items()),
            )
        ):
            yield owners


def moves(problem: PlacementProblem, tasks: Sequence[TaskId], owners: Sequence[ProcessId]) -> int:
    return sum(
        task not in problem.clients[process].previous_active for process, task in zip(owners, tasks, strict=True)
    )


def reads(problem: PlacementProblem, tasks: Sequence[TaskId], owners: Sequence[ProcessId]) -> int:
    return foreign(problem, owners, tasks, known(problem.racks).task_partitions)


def foreign(
    problem: PlacementProblem,
    processes: Sequence[ProcessId],
    tasks: Sequence[TaskId],
    partitions: Mapping[TaskId, tuple[TopicPartition, ...]],
) -> int:
    """How many partitions the processes read across racks."""
    return sum(
        problem.clients[process].rack not in (known(problem.racks).racks_of(partition) or ())
        for process, task in zip(processes, tasks, strict=True)
        for partition in partitions[task]
    )


@given(caught_up_groups())
def test_should_read_least_across_racks_of_all_placements_that_move_as_few_tasks(group: SimulatedClients) -> None:
    problem = group.problem()
    tasks = problem.tasks
    placement = MinimalMovementTaskAssignor().assign(problem, DecisionLog())
    chosen = {task: process for process, client in placement.clients.items() for task in client.active}
    owners = [chosen[task] for task in tasks]
    best = min(
        (moves(problem, tasks, each), reads(problem, tasks, each)) for each in every_even_placement(group, tasks)
    )
    assert (moves(problem, tasks, owners), reads(problem, tasks, owners)) == best
    assert cross_rack_reads(problem, placement) == best[1]


@given(groups_with_state().map(minimal), st.data())
def test_should_move_as_few_tasks_over_all_rebalances_as_without_racks(
    group: SimulatedClients, data: st.DataObject
) -> None:
    """And no task twice; nothing that was restored is given up; when it is stable, nothing moves. More may be restored:
    where a task reads less counts more than where its state is.
    """
    group.configs = AssignmentConfigs(
        acceptable_recovery_lag=100, max_warmup_replicas=group.configs.max_warmup_replicas
    )
    group.rebalance()
    with_racks = deepcopy(group)
    with_racks.configs = replace(group.configs, rack_aware_assignment_strategy=MIN_TRAFFIC)
    with_racks.racks = {process: data.draw(st.sampled_from("abc")) for process in group.lags}
    with_racks.read = data.draw(read_by(group.stateful + group.stateless, group.stateful))
    without, history = history_of(group), history_of(with_racks)
    assert history.restored == history.needed
    assert set(history.moves.values()) <= {1}
    assert sum(history.moves.values()) == sum(without.moves.values())
    assert with_racks.rebalance() == history.end


@given(caught_up_groups())
def test_should_read_least_with_standbys_that_restore_as_little(group: SimulatedClients) -> None:
    """All state is everywhere, so nothing but the shares and the racks decide about standbys."""
    group.configs = replace(group.configs, num_standby_replicas=1)
    problem = group.problem()
    if not problem.stateful_tasks:
        return
    placement = MinimalMovementTaskAssignor().assign(problem, DecisionLog())
    tasks = problem.stateful_tasks
    owner = {task: process for process, client in placement.clients.items() for task in client.active}
    standby = {task: process for process, client in placement.clients.items() for task in client.standby}
    assert standby.keys() == set(tasks)
    counts = Counter([*owner.values(), *standby.values()])
    options = [[process for process in group.capacity if process != owner[task]] for task in tasks]
    same_counts = [each for each in product(*options) if Counter([*owner.values(), *each]) == counts]
    chosen = [standby[task] for task in tasks]
    assert standby_reads(problem, chosen) == min(standby_reads(problem, each) for each in same_counts)


def standby_reads(problem: PlacementProblem, standbys: Sequence[ProcessId]) -> int:
    return foreign(problem, standbys, problem.stateful_tasks, known(problem.racks).changelog_partitions)
