"""The search for cycles without any shortcut: every pass over every edge of the whole graph, as KIP-925 describes it.

Nodes are numbers: the source -1, tasks, a node for each client in each subtopology, a node for each client where its
subtopologies come together (only with a capacity), the sink. The node from which a search starts is None.
"""

from __future__ import annotations

from collections.abc import Sequence

from assignor.task_assignors.racks.task_graph import Row

Residual = dict[int, dict[int, list[int]]]
"""By node and destination, both sorted: how much may flow, and what it costs."""

SOURCE = -1


def plain_solution(
    owner: Sequence[int],
    groups: Sequence[range],
    rows: Sequence[Row],
    clients: int,
    capacity: Sequence[Sequence[int]] | None,
) -> list[int]:
    """The owner of each task in the end."""
    edges = _edges(owner, groups, rows, clients, capacity)
    residual: Residual = {}
    for start, end, room, cost, flow in edges:
        residual.setdefault(start, {})[end] = [room - flow, cost]
        residual.setdefault(end, {})[start] = [flow, -cost]
    residual = {start: dict(sorted(residual[start].items())) for start in sorted(residual)}
    while True:
        cycle = _negative_cycle(residual)
        if not cycle:
            break
        amount = min(residual[start][end][0] for start, end in cycle)
        for start, end in cycle:
            residual[start][end][0] -= amount
            residual[end][start][0] += amount
    tasks = len(owner)
    return [
        next((node - tasks) % clients for node, edge in residual[task].items() if node >= tasks and edge[0] == 0)
        for task in range(tasks)
    ]


def _edges(
    owner: Sequence[int],
    groups: Sequence[range],
    rows: Sequence[Row],
    clients: int,
    capacity: Sequence[Sequence[int]] | None,
) -> list[tuple[int, int, int, int, int]]:
    """Start, destination, capacity, cost and flow."""
    tasks = len(owner)
    second = tasks + len(groups) * clients
    sink = second if capacity is None else second + clients
    edges = [(SOURCE, task, 1, 0, 1) for task in range(tasks)]
    for group, members in enumerate(groups):
        for client in range(clients):
            node = tasks + group * clients + client
            edges += [(task, node, 1, rows[task][client], int(owner[task] == client)) for task in members]
            if capacity is not None:
                held = sum(owner[task] == client for task in members)
                edges.append((node, second + client, capacity[group][client], 0, held))
    for client in range(clients):
        held = sum(each == client for each in owner)
        edges.append((tasks + client if capacity is None else second + client, sink, held, 0, held))
    return edges


def _negative_cycle(residual: Residual) -> list[tuple[int, int]]:
    distance = dict.fromkeys(residual, 0)
    parent: dict[int, int] = {}
    passes = len(residual) + 1
    found: int | None = None
    for number in range(passes):
        for start, ends in residual.items():
            for end, (room, cost) in ends.items():
                if room > 0 and distance[start] + cost < distance[end]:
                    distance[end] = distance[start] + cost
                    parent[end] = start
                    if number == passes - 1:
                        found = end
                        break
            if found is not None:
                break
    if found is None:
        return []
    seen: set[int] = set()
    while found not in seen:
        seen.add(found)
        found = parent[found]
    cycle: list[tuple[int, int]] = []
    node = found
    while not cycle or node != found:
        cycle.append((parent[node], node))
        node = parent[node]
    return cycle


def plain_first_owners(
    groups: Sequence[range], task_counts: Sequence[int], capacity: Sequence[Sequence[int]]
) -> list[int]:
    """By a breadth-first search over the whole graph for one task after the other (`Graph.calculateMaxFlow`)."""
    tasks, clients = sum(map(len, groups)), len(task_counts)
    second = tasks + len(groups) * clients
    sink = second + clients
    edges = [(SOURCE, task, 1) for task in range(tasks)]
    for group, members in enumerate(groups):
        for client in range(clients):
            node = tasks + group * clients + client
            edges += [(task, node, 1) for task in members]
            edges.append((node, second + client, capacity[group][client]))
    edges += [(second + client, sink, count) for client, count in enumerate(task_counts)]
    residual: dict[int, dict[int, int]] = {}
    for start, end, room in edges:
        residual.setdefault(start, {})[end] = room
        residual.setdefault(end, {})[start] = 0
    residual = {start: dict(sorted(ends.items())) for start, ends in residual.items()}
    while path := _path(residual, sink):
        for start, end in path:
            residual[start][end] -= 1
            residual[end][start] += 1
    return [
        next((node - tasks) % clients for node, room in residual[task].items() if node >= tasks and room == 0)
        for task in range(tasks)
    ]


def _path(residual: dict[int, dict[int, int]], sink: int) -> list[tuple[int, int]]:
    parent: dict[int, int] = {}
    queue = [SOURCE]
    for node in queue:
        for end, room in residual[node].items():
            if room <= 0 or end in parent or end == SOURCE:
                continue
            parent[end] = node
            if end == sink:
                path = []
                while end != SOURCE:
                    path.append((parent[end], end))
                    end = parent[end]
                return path
            queue.append(end)
    return []
