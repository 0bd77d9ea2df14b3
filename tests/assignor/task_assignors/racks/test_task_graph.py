"""The flow of a rack-aware strategy is as cheap as it can be. That it is the one Kafka finds, recordings show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.task_assignors.racks.task_graph import Row, TaskGraph, first_owners, shares

Case = tuple[list[int], list[range], list[Row], int, list[list[int]] | None]


def total_cost(graph: TaskGraph) -> int:
    return sum(row[client] for row, client in zip(graph.rows, graph.owner, strict=True))


def least_cost(case: Case) -> int:
    """By networkx, in a graph of its own: from tasks through their subtopology's share of a client to the client."""
    owner, groups, rows, clients, capacity = case
    graph: nx.DiGraph[tuple[str, int] | tuple[str, int, int]] = nx.DiGraph()
    counts = Counter(owner)
    for client in range(clients):
        graph.add_node(("client", client), demand=counts[client])
    for group, members in enumerate(groups):
        for client in range(clients):
            room = len(members) if capacity is None else capacity[group][client]
            graph.add_edge(("share", group, client), ("client", client), capacity=room, weight=0)
        for task in members:
            graph.add_node(("task", task), demand=-1)
            for client, cost in enumerate(rows[task]):
                graph.add_edge(("task", task), ("share", group, client), capacity=1, weight=cost)
    return int(nx.min_cost_flow_cost(graph))


def solved(case: Case) -> TaskGraph:
    owner, groups, rows, clients, capacity = case
    graph = TaskGraph(owner.copy(), groups, rows, clients, capacity)
    graph.solve()
    return graph


def shared(rows: Sequence[Row]) -> list[Row]:
    """Equal rows as the same object, as the graph wants them."""
    known: dict[Row, Row] = {}
    return [known.setdefault(row, row) for row in rows]


@st.composite
def cases(draw: st.DrawFn, balanced: bool) -> Case:
    clients = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    tasks = sum(sizes)
    owner = draw(st.lists(st.integers(0, clients - 1), min_size=tasks, max_size=tasks))
    costs = st.tuples(*[st.sampled_from([0, 1, 2, 10, 11, 20])] * clients)
    rows = shared(draw(st.lists(costs, min_size=tasks, max_size=tasks)))
    if not balanced:
        return owner, [range(tasks)], rows, clients, None
    return with_shares(owner, sizes, rows, clients)


def with_shares(owner: Sequence[int], sizes: Sequence[int], rows: list[Row], clients: int) -> Case:
    counts = [Counter(owner)[client] for client in range(clients)]
    groups, start = [], 0
    for size in sizes:
        groups.append(range(start, start + size))
        start += size
    capacity = shares(counts, sizes)
    return first_owners(groups, counts, capacity), groups, rows, clients, capacity


@pytest.mark.parametrize("balanced", [False, True])
@given(data=st.data())
def test_should_cost_no_more_than_networkx_finds(balanced: bool, data: st.DataObject) -> None:
    case = data.draw(cases(balanced))
    graph = solved(case)
    assert total_cost(graph) == least_cost(case)
    assert Counter(graph.owner) == Counter(case[0])


@given(data=st.data())
def test_should_fill_the_shares_of_every_subtopology(data: st.DataObject) -> None:
    clients = data.draw(st.integers(1, 4))
    sizes = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    owner = data.draw(st.lists(st.integers(0, clients - 1), min_size=sum(sizes), max_size=sum(sizes)))
    placed, groups, _, _, capacity = with_shares(owner, sizes, [()] * sum(sizes), clients)
    assert capacity is not None
    assert Counter(placed) == Counter(owner)
    for members, share in zip(groups, capacity, strict=True):
        held = Counter(placed[task] for task in members)
        assert all(held[client] <= share[client] for client in range(clients))


def test_should_move_tasks_that_have_a_client_when_a_later_subtopology_finds_no_room() -> None:
    """Two clients of one task each, and two subtopologies of one task: the shares let each have either."""
    assert first_owners([range(1), range(1, 2)], [1, 1], [[1, 1], [1, 0]]) == [1, 0]


def test_should_keep_a_placement_that_costs_the_least() -> None:
    row = (0, 0)
    graph = solved(([0, 1, 0], [range(3)], [row] * 3, 2, None))
    assert graph.owner == [0, 1, 0]
