"""Finds the cheapest placement that does not change the number of tasks of a client. The search has the same steps as
Kafka's search.

Kafka finds the cheapest placement as a minimum-cost flow. In this flow, one unit flows from the source to each task.
The unit flows on to the client that has the task, and then to the sink. The arc from a task to a client has the cost of
the task on this client. The arcs from the clients to the sink are full, because every client keeps its number of tasks.

To lower the cost of a flow without a change of its size, units have to be sent around a cycle of the residual graph. In
the residual graph, a task has an arc to each client that does not have the task. The arc has the cost of the task on
this client. A client has an arc back to each of its tasks, with the negative of the task's cost on this client. A cycle
in the residual graph is a ring of moves: each client on the cycle gives one task away and gets another task. A cycle is
negative if the costs around it add up to less than zero. The moves of a negative cycle lower the total cost. If the
graph has no negative cycle, no cheaper placement exists.

The Bellman-Ford algorithm finds a negative cycle. The Bellman-Ford algorithm starts with the distance 0 for each node,
and goes over all arcs in passes. For each arc, a pass adds the arc's cost to the distance of the arc's first node. If
this sum is less than the distance of the second node, the sum becomes the distance of the second node. The first node
then becomes the parent of the second node. If the graph has n nodes and no negative cycle, one of the first n passes
shortens no distance. If even the n-th pass shortens the distance of a node, the graph has a negative cycle. The chain
of parents of this node leads to the cycle. Kafka carries out the moves of the cycle, and searches again until there is
no negative cycle. If several placements have the same cost, the order of the search determines which placement is
found. So the search in this file has the same passes as Kafka's search. A pass visits the nodes and arcs in the same
order as in Kafka.

Three kinds of steps of Kafka's search change nothing, so the search in this file leaves them out:

- Tasks of one subtopology that are on one client and have equal costs (`_Alike`) always have the same distance. When
  the first of several equal tasks has shortened a distance, the other equal tasks cannot shorten this distance further.
  So only the first of several equal tasks is checked.
- If the distance of a node has not changed since its arcs were last checked, the arcs cannot shorten a distance.
- If there is a negative cycle, distances fall for ever. At some point, the passes begin to repeat: they shorten the
  same distances in the same order, with lower values. `_period` finds the period: the number of passes after which the
  passes repeat. When the period is known, the search skips all whole periods, and carries out only the remaining
  passes.

The strategy balance_subtopology starts from a placement in which every subtopology is spread over the clients
(`first_owners`). A client may have at most its share of the tasks of each subtopology. The share is the number of tasks
of the subtopology, times the client's fraction of all tasks, rounded up. Kafka places one task after the other by a
breadth-first search, so the first clients get their shares first.

Source: `Graph.solveMinCostFlow`, `detectNegativeCycles`, `calculateMaxFlow`; `MinTrafficGraphConstructor`,
`BalanceSubtopologyGraphConstructor`.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from assignor.configs import RACK_AWARE_ASSIGNMENT_TRAFFIC_COST
from assignor.errors import InputError
from assignor.java.hash_codes import int32
from assignor.types import JAVA_INT_MIN

_FROM_SOURCE = -1


def shares(task_counts: Sequence[int], group_sizes: Sequence[int]) -> list[list[int]]:
    """Returns, for each subtopology, the share of each client, computed with Java's doubles.

    `task_counts`: the number of tasks of each client. `group_sizes`: the number of tasks of each subtopology.
    """
    tasks = sum(group_sizes)
    return [[math.ceil(count * 1.0 / tasks * size) for count in task_counts] for size in group_sizes]


def first_owners(groups: Sequence[range], task_counts: Sequence[int], capacity: Sequence[Sequence[int]]) -> list[int]:
    """Returns the client of each task in the first placement of balance_subtopology. `groups`: the tasks of each
    subtopology. `task_counts`: the number of tasks that each client gets. `capacity[group][client]`: the result of
    `shares`.
    """
    search = _PathSearch(groups, list(task_counts), capacity)
    for _ in range(sum(map(len, groups))):
        search.place_one()
    return search.owner


@dataclass(slots=True)
class _PathSearch:
    """Places tasks one by one. `room[client]`: the number of tasks that the client may still get.
    `taken[group][client]`: the number of the client's tasks of one subtopology.
    """

    groups: Sequence[range]
    room: list[int]
    capacity: Sequence[Sequence[int]]
    owner: list[int] = field(init=False)
    taken: list[list[int]] = field(init=False)
    waiting: list[int] = field(init=False)  # for each group, the first task that has no client yet

    def __post_init__(self) -> None:
        self.owner = [-1] * sum(map(len, self.groups))
        self.taken = [[0] * len(self.room) for _ in self.groups]
        self.waiting = [tasks.start for tasks in self.groups]

    def place_one(self) -> None:
        """Places one task. As in Kafka's breadth-first search, an unplaced task goes to the first client that has room
        for it. Placed tasks are moved only if no client has room for an unplaced task.
        """
        for group, tasks in enumerate(self.groups):
            if self.waiting[group] == tasks.stop:
                continue
            for client, taken in enumerate(self.taken[group]):
                if taken < self.capacity[group][client] and self.room[client] > 0:
                    self._give(group, client)
                    return
        self._place_by_moving()

    def _give(self, group: int, client: int) -> None:
        self.owner[self.waiting[group]] = client
        self.waiting[group] += 1
        self.taken[group][client] += 1
        self.room[client] -= 1

    def _place_by_moving(self) -> None:
        """Places one task by moving other tasks. A breadth-first search over `(group, client)` pairs, tasks and clients
        ends at the first client with room. The moves on the path to this client are then carried out.

        `reached_by[group, client]`: the task that would move to the client; None if the client would give away a task
        of this subtopology instead.
        """
        reached_by: dict[tuple[int, int], int | None] = {}
        through: dict[int, int] = {}  # each client, with the group through which the search reached the client
        expanded = [self.waiting[group] < tasks.stop for group, tasks in enumerate(self.groups)]
        queue: deque[tuple[str, int, int]] = deque()
        for group, waits in enumerate(expanded):
            if waits:
                self._reach_all(group, self.waiting[group], reached_by, queue)
        while queue:
            kind, group, client = queue.popleft()
            if kind == "client":
                if self.room[client] > 0:
                    self._carry_out(client, reached_by, through)
                    return
                for other in range(len(self.groups)):
                    if self.taken[other][client] > 0 and (other, client) not in reached_by:
                        reached_by[other, client] = None
                        queue.append(("share", other, client))
            elif kind == "task":  # in an element of the kind "task", the variable `client` contains a task
                self._reach_all(group, client, reached_by, queue)
            else:
                if not expanded[group]:
                    expanded[group] = True
                    first = next(task for task in self.groups[group] if self.owner[task] == client)
                    queue.append(("task", group, first))
                if self.taken[group][client] < self.capacity[group][client] and client not in through:
                    through[client] = group
                    queue.append(("client", 0, client))
        raise AssertionError("the shares of the clients are too small for all tasks")

    def _reach_all(
        self, group: int, task: int, reached_by: dict[tuple[int, int], int | None], queue: deque[tuple[str, int, int]]
    ) -> None:
        for client in range(len(self.room)):
            if (group, client) not in reached_by:
                reached_by[group, client] = task
                queue.append(("share", group, client))

    def _carry_out(self, client: int, reached_by: dict[tuple[int, int], int | None], through: dict[int, int]) -> None:
        self.room[client] -= 1
        while True:
            group = through[client]
            self.taken[group][client] += 1
            task = reached_by[group, client]
            while task is not None:
                giver, self.owner[task] = self.owner[task], client
                if giver == _FROM_SOURCE:
                    self.waiting[group] += 1
                    return
                client, task = giver, reached_by[group, giver]
            self.taken[group][client] -= 1


_LONGEST_PERIOD = 32
_SOURCE = -1

Row = tuple[int, ...]
"""The cost of a task on each client."""


@dataclass(slots=True, eq=False)
class _Alike:
    """Tasks of one subtopology on one client that have the same cost on every client. `tasks` is a heap.

    `moves`: for each other client, its node and the cost of one of the tasks on this client. `cheapest_moves`: the
    elements of `moves`, sorted by cost. `back`: the negative of a task's cost on its present client, as a Java int.
    """

    group: int
    node: int
    moves: list[tuple[int, int]]
    cheapest_moves: list[tuple[int, int]]
    back: int
    tasks: list[int] = field(default_factory=list)


@dataclass(slots=True)
class TaskGraph:
    """The graph of a placement. `owner[task]`: the client of the task. `groups`: the tasks of each subtopology.
    `rows[task]`: the cost of the task on each client. Tasks are treated as alike only if their elements of `rows` are
    the same object. `capacity[group][client]`: the number of tasks of the subtopology that the client may have; None
    for min_traffic. The strategy min_traffic has one group of all tasks. This strategy does not limit how many tasks of
    a subtopology a client may have.

    A client has one node for each group. Nodes are numbered by group, then by client.
    """

    owner: list[int]
    groups: Sequence[range]
    rows: Sequence[Row]
    clients: int
    capacity: Sequence[Sequence[int]] | None = None
    alike: dict[tuple[int, int], _Alike] = field(init=False, default_factory=dict)
    room: list[int] | None = field(init=False, default=None)  # For each node, the number of tasks that it may have.
    held: list[int] = field(init=False)  # For each node, the number of tasks that it has.

    def __post_init__(self) -> None:
        self.held = [0] * (len(self.groups) * self.clients)
        if self.capacity is not None:
            self.room = [room for by_client in self.capacity for room in by_client]
        for group, tasks in enumerate(self.groups):
            for task in tasks:
                self._put(task, group * self.clients + self.owner[task])

    @property
    def node_count(self) -> int:
        """The number of nodes of Kafka's graph during the search. This number includes the source, the sink, and the
        first node of the search.
        """
        second_stage = 0 if self.capacity is None else self.clients
        return len(self.owner) + len(self.held) + second_stage + 3

    def solve(self) -> None:
        """Changes `owner` until no cycle of moves lowers the cost.

        Raises InputError if Kafka's leader would search for ever. The search can be endless only with a cost of
        -2147483648. The negative of this cost overflows to the same number, so a move and its reversal can both seem to
        lower the total cost.
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
        """Removes a task from its node. `task` must be the first task of an object `_Alike`."""
        node = self._group_of(task) * self.clients + self.owner[task]
        alike = self.alike[node, id(self.rows[task])]
        first = heappop(alike.tasks)
        assert first == task
        self.held[node] -= 1
        if not alike.tasks:
            del self.alike[node, id(self.rows[task])]


Edge = tuple[int, int]


class _Pass(NamedTuple):
    """One pass of the search for a negative cycle over all edges. `distance`: the distances before the pass.
    `shortened`: the edges that shortened a distance in the pass, as pairs of places.
    """

    distance: list[int]
    shortened: list[Edge]


class _CycleSearch:
    """One search for a negative cycle.

    The search numbers its nodes; the number of a node is called its place. The nodes of the graph come first. Next come
    the clients, then the first task of each `_Alike` (sorted), and last the source. The place of a client connects the
    client's nodes of all groups, and exists only if `capacity` is given. `distance` and `parent` are indexed by place.
    The sink and the first node of the search have no place. The edges of these two nodes cannot shorten a distance,
    because all distances are 0 at first.
    Source: `Graph.detectNegativeCycles`.
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
        # the distance that each place had when its edges were last checked
        self._seen: list[int | None] = [None] * places

    def negative_cycle(self) -> list[tuple[int, int]]:
        """Returns each task of a negative cycle with the node to which the task moves. Returns an empty list if there
        is no negative cycle.
        """
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
        """Checks all edges once, and appends to `shortened` the edges that shorten a distance. `stops`: if True, the
        pass ends at the first edge that shortens a distance, and returns the end of this edge.
        """
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
        """Returns the greatest distance of the nodes of each group. Distances only fall, so the greatest distance stays
        an upper bound.
        """
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
        """Returns the period: the number of passes after which the passes repeat. Returns 0 if it is not certain that
        the passes repeat. `history`: the last passes, newest first.

        During the passes of one period, the distance of each place has fallen by some amount. In the next passes, the
        distances fall by the same amounts again if two conditions hold. The first condition: for each edge that has
        shortened a distance, the distances of its two nodes have fallen by the same amount. Under the first condition,
        an edge that has shortened a distance in this period also shortens it in the next period. The second condition:
        for every edge, the distance of its first node has not fallen by more than the distance of its second node.
        Under the second condition, an edge that has shortened no distance in this period shortens none in the next
        period. If both conditions hold, each comparison of distances in the next passes gives the same result as one
        period earlier.
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
        """Follows the parents from `place` until a place repeats. Returns the moves of the cycle that contains the
        repeated place.
        """
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
