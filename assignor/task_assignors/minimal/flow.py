"""Computes the maximum flow of minimum cost through a small network, whose capacities and costs are whole numbers.

The method is called successive shortest paths. An arc with free capacity is called usable. A flow can grow as long as
there is a path of usable arcs from the source to the sink. Every arc has a reverse arc with the opposite cost. The free
capacity of the reverse arc is the flow on the arc itself, so a later path can undo an earlier choice. In each step, the
method fills one of the cheapest paths.

So the flow is always the cheapest flow of its size. If two flows have the same size, they differ only by cycles of
usable arcs. So a flow is the cheapest of its size if no cycle of usable arcs has a negative cost. When a cheapest path
is filled, no cycle of negative cost arises. A new cycle would have to use a reverse arc of the path. If the cost of the
new cycle were negative, a detour around the reversed arc would have been cheaper than the path.

Dijkstra's algorithm finds the cheapest paths. Dijkstra's algorithm does not allow negative costs, but reverse arcs have
negative costs. So every node gets a number that is called its potential. The search uses the price of an arc in place
of its cost: `cost + potential[source] - potential[target]`. The sum of the prices along a path differs from the sum of
the costs only by the potentials of the two end nodes. So the cheapest paths by price are the cheapest paths by cost. At
the beginning all potentials are 0 and no cost is negative.

After each search, the distance `d` of each node is added to the node's potential. This addition never makes a price
negative, for the following reason. For a usable arc from u to v, `d(v) <= d(u) + price`, because `d(v)` is the length
of the shortest path to v. The new price is `price + d(u) - d(v)`, so it is not negative. For an arc on a cheapest path,
`d(v) = d(u) + price`. So the new price of the arc is 0. The reverse arc becomes usable when the path is filled, and its
price is 0, too. The search stops at the sink. A comment in `_reprice` explains the potential of the nodes beyond the
sink.

All cheapest paths of the same cost are filled together, as in Dinic's algorithm. `_levels` computes the level of each
node: its number of steps from the source over usable arcs of price 0. `_fill_levels` fills all paths on which each arc
leads to the next level. Each filled path has a full arc, and the reverse arcs of the path lead back to lower levels. So
the shortest remaining path over usable arcs of price 0 has more steps than before. So the number of rounds with
`_levels` and `_fill_levels` is limited. When no path of price 0 is left, the next Dijkstra search finds paths of a
greater cost. There is one Dijkstra search for each different path cost, and a last search that finds no path. The
number of different path costs is small if tasks have equal weights.

If several flows have equal cost, the result depends on the order in which nodes and arcs were added.
"""

from heapq import heappop, heappush

_FAR = -1


class FlowNetwork:
    """A network and its flow. `node` and `arc` return the numbers of nodes and arcs. Capacities and costs are
    non-negative whole numbers.
    """

    __slots__ = ("_arcs_of", "_capacity", "_cost", "_potential", "_target")

    def __init__(self) -> None:
        self._arcs_of: list[list[int]] = []
        self._potential: list[int] = []
        # For each arc: the target node, the free capacity, and the cost of one unit. The reverse arc of arc n is arc n
        # ^ 1.
        self._target: list[int] = []
        self._capacity: list[int] = []
        self._cost: list[int] = []

    def node(self) -> int:
        self._arcs_of.append([])
        self._potential.append(0)
        return len(self._arcs_of) - 1

    def arc(self, source: int, target: int, capacity: int, cost: int) -> int:
        number = len(self._target)
        self._target += (target, source)
        self._capacity += (capacity, 0)
        self._cost += (cost, -cost)
        self._arcs_of[source].append(number)
        self._arcs_of[target].append(number + 1)
        return number

    def flow(self, arc: int) -> int:
        return self._capacity[arc ^ 1]

    def fill(self, source: int, sink: int) -> None:
        """Sends the maximum flow from source to sink, at the lowest cost."""
        while self._reprice(source, sink):
            while (level := self._levels(source, sink)) is not None:
                self._fill_levels(source, sink, level)

    def _reprice(self, source: int, sink: int) -> bool:
        """Changes the potentials so that every arc on a cheapest path has the price 0. Returns False if no path of
        usable arcs is left.
        """
        arcs_of, target, capacity = self._arcs_of, self._target, self._capacity
        cost, potential = self._cost, self._potential
        distance: list[int | None] = [None] * len(arcs_of)
        distance[source] = 0
        done = [False] * len(arcs_of)
        heap = [(0, source)]
        reached: list[tuple[int, int]] = []
        while heap:
            so_far, node = heappop(heap)
            if done[node]:
                continue
            done[node] = True
            reached.append((node, so_far))
            if node == sink:
                break
            here = so_far + potential[node]
            for arc in arcs_of[node]:
                if capacity[arc]:
                    other = target[arc]
                    if not done[other]:
                        there = here + cost[arc] - potential[other]
                        known = distance[other]
                        if known is None or there < known:
                            distance[other] = there
                            heappush(heap, (there, other))
        if not done[sink]:
            return False
        to_sink = reached[-1][1]
        # The search stops at the sink, so the distances of nodes beyond the sink are unknown. For a node beyond the
        # sink, it is enough to add the sink's distance `to_sink` to the potential. Only differences of potentials
        # matter, so `to_sink` is subtracted from the sum for every node. Because of the subtraction, the potentials of
        # nodes beyond the sink do not change.
        for node, so_far in reached:
            potential[node] += so_far - to_sink
        return True

    def _levels(self, source: int, sink: int) -> list[int] | None:
        """Returns each node's number of steps from the source over usable arcs of price 0. Returns None if no path of
        usable arcs of price 0 leads to the sink.
        """
        arcs_of, target, capacity = self._arcs_of, self._target, self._capacity
        cost, potential = self._cost, self._potential
        level = [_FAR] * len(arcs_of)
        level[source] = 0
        front = [source]
        while front and level[sink] == _FAR:
            following: list[int] = []
            for node in front:
                step, price = level[node] + 1, potential[node]
                for arc in arcs_of[node]:
                    other = target[arc]
                    if capacity[arc] and level[other] == _FAR and price + cost[arc] == potential[other]:
                        level[other] = step
                        following.append(other)
            front = following
        return None if level[sink] == _FAR else level

    def _fill_levels(self, source: int, sink: int, level: list[int]) -> None:
        """Fills paths on which each arc leads to the next level, until no such path is left."""
        arcs_of, target, capacity = self._arcs_of, self._target, self._capacity
        cost, potential = self._cost, self._potential
        next_arc = [0] * len(arcs_of)
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                units = min(capacity[arc] for arc in path)
                first_full = 0
                for place in range(len(path) - 1, -1, -1):
                    arc = path[place]
                    capacity[arc] -= units
                    capacity[arc ^ 1] += units
                    if not capacity[arc]:
                        first_full = place
                del path[first_full:]
                node = target[path[-1]] if path else source
            arcs = arcs_of[node]
            place = next_arc[node]
            while place < len(arcs):
                arc = arcs[place]
                other = target[arc]
                on_a_path = level[other] == level[node] + 1 and potential[node] + cost[arc] == potential[other]
                if capacity[arc] and on_a_path:
                    break
                place += 1
            next_arc[node] = place
            if place < len(arcs):
                path.append(arcs[place])
                node = target[arcs[place]]
            elif path:
                node = target[path.pop() ^ 1]
                next_arc[node] += 1
            else:
                return
