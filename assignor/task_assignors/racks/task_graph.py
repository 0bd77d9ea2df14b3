"""The cheapest placement of tasks in which every client keeps its number of tasks, in Kafka's order of steps.

Kafka sees a flow: from each task to the client that has it, and on to the sink. It searches for a cycle of moves that
lowers the cost, with Bellman-Ford, carries the cycle out, and repeats until there is none. Of several placements that
cost the same, the order of that search decides, so the search is the same here: the same nodes and edges in the same
order, and as many passes. Source: `Graph`, `MinTrafficGraphConstructor`, `BalanceSubtopologyGraphConstructor`.

What is left out are steps that change nothing:

- Tasks of one subtopology on one client whose costs are equal always have the same distance. The first of them lowers
  a distance, and the others cannot lower it further, so only the first one is looked at.
- A node that has not come closer since its edges were looked at cannot bring others closer.
- Once some passes are certain to repeat, with all distances shorter by what they fell in that time, they are not
  carried out again; only the last pass is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from assignor.configs import RACK_AWARE_ASSIGNMENT_TRAFFIC_COST
from assignor.errors import InputError
from assignor.java.order import int32
from assignor.types import JAVA_INT_MIN

_LONGEST_PERIOD = 32
_SOURCE = -1

Row = tuple[int, ...]
"""What a task costs on each client."""


@dataclass(slots=True, eq=False)
class _Alike:
    """Tasks of one subtopology on one client that cost the same everywhere; `tasks` is a heap.

    `moves`: what they cost on the other clients, by their nodes; `cheapest_moves`: the same by cost. `back`: minus what
    they cost where they are, as an int.
    """

    group: int
    node: int
    moves: list[tuple[int, int]]
    cheapest_moves: list[tuple[int, int]]
    back: int
    tasks: list[int] = field(default_factory=list)


@dataclass(slots=True)
class TaskGraph:
    """`owner[task]`: its client. `groups`: tasks in order, those of each subtopology together; `rows[task]`: its costs,
    the same object for tasks whose costs are equal. `capacity[group][client]`: how many tasks of that subtopology the
    client may have; None for min_traffic, whose graph knows one group and no such bound.

    A client has one node for each group; nodes are numbered by group, then by client.
    """

    owner: list[int]
    groups: Sequence[range]
    rows: Sequence[Row]
    clients: int
    capacity: Sequence[Sequence[int]] | None = None
    alike: dict[tuple[int, int], _Alike] = field(init=False, default_factory=dict)
    room: list[int] | None = field(init=False, default=None)  # by node, with a capacity
    held: list[int] = field(init=False)  # by node: how many tasks are there

    def __post_init__(self) -> None:
        self.held = [0] * (len(self.groups) * self.clients)
        if self.capacity is not None:
            self.room = [room for by_client in self.capacity for room in by_client]
        for group, tasks in enumerate(self.groups):
            for task in tasks:
                self._put(task, group * self.clients + self.owner[task])

    @property
    def node_count(self) -> int:
        """Of Kafka's graph during the search: with source, sink, and the node from which the search starts."""
        second_stage = 0 if self.capacity is None else self.clients
        return len(self.owner) + len(self.held) + second_stage + 3

    def total_cost(self) -> int:
        return sum(row[client] for row, client in zip(self.rows, self.owner, strict=True))

    def solve(self) -> None:
        """Changes `owner` until no cycle of moves lowers the cost.

        Raises InputError when that never comes, as Kafka's leader does not end then: the one int without a negative
        costs as much as it saves, so that a move and its reversal can both seem to lower the cost.
        """
        may_go_on = any(JAVA_INT_MIN in row for row in self.rows)
        seen: set[tuple[int, ...]] = set()
        while True:
            moves = _CycleSearch(self).negative_cycle()
            if not moves:
                return
            if may_go_on:
                if tuple(self.owner) in seen:
                    raise InputError(
                        f"a task costs {JAVA_INT_MIN:,}, the one int without a negative, and Kafka's leader would "
                        "never end; set another cost",
                        RACK_AWARE_ASSIGNMENT_TRAFFIC_COST,
                    )
                seen.add(tuple(self.owner))
            for task, _ in moves:
                self._take(task)
            for task, node in moves:
                self._put(task, node)

    def _group_of(self, task: int) -> int:
        return next(group for group, tasks in enumerate(self.groups) if task in tasks)

    def _put(self, task: int, node: int) -> None:
        group, client = divmod(node, self.clients)
        row = self.rows[task]
        alike = self.alike.get((node, id(row)))
        if alike is None:
            first = group * self.clients
            moves = [(first + other, cost) for other, cost in enumerate(row) if other != client]
            cheapest = sorted(moves, key=itemgetter(1))
            alike = self.alike[node, id(row)] = _Alike(group, node, moves, cheapest, int32(-row[client]))
        heappush(alike.tasks, task)
        self.owner[task] = client
        self.held[node] += 1

    def _take(self, task: int) -> None:
        """`task`: the first one of those that are alike."""
        node = self._group_of(task) * self.clients + self.owner[task]
        alike = self.alike[node, id(self.rows[task])]
        first = heappop(alike.tasks)
        assert first == task
        self.held[node] -= 1
        if not alike.tasks:
            del self.alike[node, id(self.rows[task])]


Edge = tuple[int, int]


class _Pass(NamedTuple):
    """`distance`: before it. `shortened`: the edges that have shortened a distance, by their places."""

    distance: list[int]
    shortened: list[Edge]


class _CycleSearch:
    """One search for a cycle. Its places: the nodes of the graph, then with a capacity one for each client, where its
    nodes come together, then the first task of each `_Alike`, in order; the source is the last one.

    `distance` and `parent` by place. The sink and the node from which the search starts have no edge that shortens a
    distance, once all distances are 0. Source: `Graph.detectNegativeCycles`.
    """

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        self._nodes = len(graph.held)
        self._first_task = self._nodes + (0 if graph.room is None else graph.clients)
        self._alike = sorted(graph.alike.values(), key=lambda alike: alike.tasks[0])
        self._tasks_at: list[list[tuple[int, int]]] = [[] for _ in range(self._nodes)]
        for place, alike in enumerate(self._alike, self._first_task):
            self._tasks_at[alike.node].append((place, alike.back))
        places = self._first_task + len(self._alike) + 1
        self.distance = [0] * places
        self.parent: list[int | None] = [None] * places
        self._seen: list[int | None] = [None] * places  # the distance at which a place's edges were looked at

    def negative_cycle(self) -> list[tuple[int, int]]:
        """Tasks with the nodes that they move to; empty when nothing lowers the cost."""
        last = self._graph.node_count - 1
        history: deque[_Pass] = deque(maxlen=_LONGEST_PERIOD)
        at = 0
        while at < last:
            done = _Pass(self.distance.copy(), [])
            self._pass(done.shortened, stops=False)
            if not done.shortened:
                return []
            at += 1
            history.appendleft(done)
            if last - at > 1:
                period = self._period(history)
                if period:
                    at += (last - at) // period * period
                    history.clear()
        found = self._pass([], stops=True)
        return [] if found is None else self._cycle(found)

    def _pass(self, shortened: list[Edge], stops: bool) -> int | None:
        """Shortens distances along all edges once, and notes which. `stops`: at the first, whose end it returns."""
        end = self._shorten_from_tasks(shortened, stops)
        if end is None:
            end = self._shorten_from_nodes(shortened, stops)
        if end is None and self._graph.room is not None:
            end = self._shorten_from_clients(shortened, stops)
        return end

    def _shorten_from_tasks(self, shortened: list[Edge], stops: bool) -> int | None:
        distance, parent, seen = self.distance, self.parent, self._seen
        farthest = self._farthest()
        for place, alike in enumerate(self._alike, self._first_task):
            here = distance[place]
            if here == seen[place]:
                continue
            seen[place] = here
            if here < distance[_SOURCE]:
                distance[_SOURCE], parent[_SOURCE] = here, place
                shortened.append((place, _SOURCE))
                if stops:
                    return _SOURCE
            limit = farthest[alike.group] - here
            for node, cost in alike.moves if stops else alike.cheapest_moves:
                if cost >= limit and not stops:
                    break
                if here + cost < distance[node]:
                    distance[node], parent[node] = here + cost, place
                    shortened.append((place, node))
                    if stops:
                        return node
        return None

    def _farthest(self) -> list[int]:
        """By group: no node of it is farther now, or will be."""
        clients = self._graph.clients
        return [max(self.distance[first : first + clients]) for first in range(0, self._nodes, clients)]

    def _shorten_from_nodes(self, shortened: list[Edge], stops: bool) -> int | None:
        distance, parent, seen = self.distance, self.parent, self._seen
        room, held, clients = self._graph.room, self._graph.held, self._graph.clients
        for node, tasks in enumerate(self._tasks_at):
            here = distance[node]
            if here == seen[node]:
                continue
            seen[node] = here
            for place, cost in tasks:
                if here + cost < distance[place]:
                    distance[place], parent[place] = here + cost, node
                    shortened.append((node, place))
                    if stops:
                        return place
            if room is not None and held[node] < room[node]:
                client = self._nodes + node % clients
                if here < distance[client]:
                    distance[client], parent[client] = here, node
                    shortened.append((node, client))
                    if stops:
                        return client
        return None

    def _shorten_from_clients(self, shortened: list[Edge], stops: bool) -> int | None:
        distance, parent, seen = self.distance, self.parent, self._seen
        held, clients = self._graph.held, self._graph.clients
        for place in range(self._nodes, self._first_task):
            here = distance[place]
            if here == seen[place]:
                continue
            seen[place] = here
            for node in range(place - self._nodes, self._nodes, clients):
                if held[node] and here < distance[node]:
                    distance[node], parent[node] = here, place
                    shortened.append((place, node))
                    if stops:
                        return node
        return None

    def _period(self, history: Sequence[_Pass]) -> int:
        """After how many passes everything repeats, only closer; 0 when that is not certain. `history`: newest first.

        Within that time each distance has fallen by some amount. It falls by the same again when no edge leads to a
        place that has fallen less, and only edges between places that have fallen alike have shortened anything: then
        each comparison comes out as it did.
        """
        now = self.distance
        for period, oldest in enumerate(history, 1):
            before = oldest.distance
            repeats = all(
                before[start] - now[start] == before[end] - now[end]
                for done in islice(history, period)
                for start, end in done.shortened
            )
            if repeats and self._leads_to_no_slower([then - each for then, each in zip(before, now, strict=True)]):
                return period
        return 0

    def _leads_to_no_slower(self, fallen: list[int]) -> bool:
        graph = self._graph
        for place, alike in enumerate(self._alike, self._first_task):
            here = fallen[place]
            if here > fallen[_SOURCE] or any(here > fallen[node] for node, _ in alike.moves):
                return False
        for node, tasks in enumerate(self._tasks_at):
            here = fallen[node]
            if any(here > fallen[place] for place, _ in tasks):
                return False
            if graph.room is not None:
                client = fallen[self._nodes + node % graph.clients]
                if (here > client and graph.held[node] < graph.room[node]) or (client > here and graph.held[node]):
                    return False
        return True

    def _cycle(self, place: int) -> list[tuple[int, int]]:
        """From `place` back to a place that comes twice, and from there once around."""
        visited: set[int] = set()
        while place not in visited:
            visited.add(place)
            place = self._parent_of(place)
        moves: list[tuple[int, int]] = []
        start = place
        while True:
            parent = self._parent_of(place)
            if self._first_task <= parent:
                moves.append((self._alike[parent - self._first_task].tasks[0], place))
            place = parent
            if place == start:
                return moves

    def _parent_of(self, place: int) -> int:
        parent = self.parent[place]
        assert parent is not None, "a place whose distance can always be shortened lies behind a cycle"
        return parent
