"""The number of tasks that move is the least there can be, and with racks the traffic is the least that goes with it:
held against networkx's minimum-cost flow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from assignor.task_assignors.minimal.copies import CAUGHT_UP, NO_COPY, NOBODY
from assignor.task_assignors.minimal.flow import FlowNetwork
from assignor.task_assignors.minimal.pin_lookup import AllowedClients
from assignor.task_assignors.minimal.shares import level_shares
from assignor.task_assignors.minimal.targets import TaskToPlace, place_evenly
from assignor.types import TaskId

FOREIGN_PARTITION = 10_000
UNIT_OF_WEIGHT = 1_000 * FOREIGN_PARTITION
MOVE = 10_000 * UNIT_OF_WEIGHT
"""Each more than all of what is below it can add up to."""


@st.composite
def tasks_on(draw: st.DrawFn, racks: Sequence[str], count_racks: bool) -> list[TaskToPlace]:
    clients = len(racks)
    everybody = AllowedClients.of(range(clients))
    partitions = st.integers(0, 3) if count_racks else st.just(0)
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    weights = st.just(1) if draw(st.booleans()) else st.integers(1, 20)
    tasks: list[TaskToPlace] = []
    for subtopology, size in enumerate(sizes):
        for partition in range(size):
            home = draw(st.integers(-1, clients - 1))
            levels = draw(st.dictionaries(st.integers(0, clients - 1), st.integers(0, NO_COPY - 1), max_size=2))
            if home != NOBODY:
                levels[home] = CAUGHT_UP
            read = {rack: draw(partitions) for rack in sorted(set(racks))}
            foreign = [read[rack] for rack in racks] if count_racks else []
            task = TaskId(subtopology, partition)
            tasks.append(TaskToPlace(task, home, levels, NO_COPY, draw(weights), everybody, foreign))
    return tasks


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[TaskToPlace], list[int], list[str]]:
    """Tasks, the threads of each client, and the racks of clients where they count."""
    capacity = draw(st.lists(st.sampled_from([1, 1, 1, 2, 3]), min_size=1, max_size=6))
    racks = [draw(st.sampled_from("abc")) for _ in capacity]
    count_racks = draw(st.booleans())
    return draw(tasks_on(racks, count_racks)), capacity, racks if count_racks else []


def price(task: TaskToPlace, client: int) -> int:
    """A task without an owner is at home where it is caught up. Moves, then weight moved, then traffic, then levels."""
    foreign = FOREIGN_PARTITION * task.foreign[client] if task.foreign else 0
    level = task.level.get(client, NO_COPY)
    homes = {task.home}
    if task.home == NOBODY:
        homes = {other for other, other_level in task.level.items() if other_level == CAUGHT_UP}
    if client in homes:
        return foreign
    return foreign + (MOVE + UNIT_OF_WEIGHT * task.weight if homes else 0) + level * task.weight


def least_price(tasks: Sequence[TaskToPlace], capacity: Sequence[int]) -> int:
    """Every task with every client as an arc, and the bounds as demands: nothing is left out to be fast."""
    threads = sum(capacity)
    graph: nx.DiGraph[object] = nx.DiGraph()
    subtopologies = Counter(task.task.subtopology for task in tasks)
    demand: Counter[object] = Counter({"sink": len(tasks)})
    for client, own in enumerate(capacity):
        low, high = len(tasks) * own // threads, -(-len(tasks) * own // threads)
        graph.add_edge(("client", client), "sink", capacity=high - low, weight=0)
        demand["client", client] += low
        demand["sink"] -= low
        for subtopology, size in subtopologies.items():
            low, high = size * own // threads, -(-size * own // threads)
            graph.add_edge(("cell", client, subtopology), ("client", client), capacity=high - low, weight=0)
            demand["cell", client, subtopology] += low
            demand["client", client] -= low
    for task in tasks:
        demand[task.task] -= 1
        for client in range(len(capacity)):
            cell = ("cell", client, task.task.subtopology)
            graph.add_edge(task.task, cell, capacity=1, weight=price(task, client))
    for node, units in demand.items():
        graph.add_node(node, demand=units)
    return int(nx.min_cost_flow_cost(graph))


@given(problems())
def test_should_move_as_few_tasks_as_balance_allows_and_then_read_as_little_across_racks(
    problem: tuple[list[TaskToPlace], list[int], list[str]],
) -> None:
    tasks, capacity, racks = problem
    nothing = [0] * len(capacity)
    owners = place_evenly(tasks, capacity, nothing, nothing, racks)
    assert sum(price(task, client) for task, client in zip(tasks, owners, strict=True)) == least_price(tasks, capacity)
    threads = sum(capacity)
    for client, own in enumerate(capacity):
        assert len(tasks) * own // threads <= owners.count(client) <= -(-len(tasks) * own // threads)


def test_should_keep_the_heaviest_of_those_of_which_some_must_go() -> None:
    everybody = AllowedClients.of(range(2))
    weights = [3, 9, 1, 7]
    tasks = [
        TaskToPlace(TaskId(0, number), 0, {0: CAUGHT_UP}, NO_COPY, weight, everybody)
        for number, weight in enumerate(weights)
    ]
    assert place_evenly(tasks, [1, 1], [0, 0], [0, 0]) == [1, 0, 1, 0]


def test_should_give_heavy_tasks_without_an_owner_to_where_least_weight_is() -> None:
    everybody = AllowedClients.of(range(3))
    tasks = [
        TaskToPlace(TaskId(0, number), NOBODY, {}, NO_COPY, weight, everybody)
        for number, weight in enumerate([5, 1, 9, 6, 1, 2])
    ]
    owners = place_evenly(tasks, [1, 1, 1], [0, 0, 0], [0, 0, 0])
    carried = Counter[int]()
    for task, client in zip(tasks, owners, strict=True):
        carried[client] += task.weight
    assert (sorted(Counter(owners).values()), sorted(carried.values())) == ([2, 2, 2], [7, 7, 10])


def test_should_fill_clients_up_around_what_pins_put_there() -> None:
    """Four tasks may only go to client 0; of the eight others it gets none, though its share would be four."""
    tasks = [TaskToPlace(TaskId(0, n), NOBODY, {}, NO_COPY, 1, AllowedClients.of([0])) for n in range(4)]
    tasks += [TaskToPlace(TaskId(1, n), NOBODY, {}, NO_COPY, 1, AllowedClients.of(range(3))) for n in range(8)]
    owners = place_evenly(tasks, [1, 1, 1], [0, 0, 0], [0, 0, 0])
    assert Counter(owners) == {0: 4, 1: 4, 2: 4}
    assert set(owners[:4]) == {0}


@given(
    arcs=st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 5), st.integers(0, 9)).filter(
            lambda arc: arc[0] != arc[1]
        ),
        max_size=25,
        unique_by=lambda arc: (arc[0], arc[1]),
    )
)
def test_should_fill_a_network_with_the_most_for_the_least(arcs: list[tuple[int, int, int, int]]) -> None:
    network = FlowNetwork()
    graph: nx.DiGraph[int] = nx.DiGraph()
    for node in range(7):
        network.node()
        graph.add_node(node)
    numbers = [network.arc(*arc) for arc in arcs]
    for source, target, capacity, cost in arcs:
        graph.add_edge(source, target, capacity=capacity, weight=cost)
    network.fill(0, 6)
    cheapest = nx.max_flow_min_cost(graph, 0, 6)
    most = sum(cheapest[0].values()) - sum(cheapest[node].get(0, 0) for node in cheapest)
    sent = sum(network.flow(number) for number, arc in zip(numbers, arcs, strict=True) if arc[0] == 0)
    sent -= sum(network.flow(number) for number, arc in zip(numbers, arcs, strict=True) if arc[1] == 0)
    paid = sum(network.flow(number) * arc[3] for number, arc in zip(numbers, arcs, strict=True))
    assert (sent, paid) == (most, nx.cost_of_flow(graph, cheapest))


@given(
    clients=st.lists(st.tuples(st.integers(1, 8), st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=8),
    total=st.integers(0, 60),
)
def test_should_share_all_that_fits_and_keep_every_bound(clients: list[tuple[int, int, int]], total: int) -> None:
    capacity = [threads for threads, _, _ in clients]
    least = [low for _, low, _ in clients]
    most = [low + more for _, low, more in clients]
    shares = level_shares(total, capacity, least, most)
    assert sum(shares) == max(sum(least), min(total, sum(most)))
    assert all(low <= share <= high for low, share, high in zip(least, shares, most, strict=True))
    free = [client for client, share in enumerate(shares) if least[client] < share < most[client]]
    assert len({shares[client] / capacity[client] for client in free}) <= 1
