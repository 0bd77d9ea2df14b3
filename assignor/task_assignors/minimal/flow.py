"""The cheapest maximum flow through a small network with whole numbers.

A flow can grow as long as there is a path from the source to the sink over arcs that can still take something. The
reverse of an arc can take back what the arc carries, at minus its cost, so that a later path may undo an earlier
choice. If every path that is filled is a cheapest one at that time, the flow is the cheapest of its size after each
step: this is the method of successive shortest paths.

Reverse arcs have negative costs, which Dijkstra's search does not allow. So every node has a potential, and an arc is
priced at `cost + potential[source] - potential[target]`. Along a path the potentials cancel out except at its ends, so
the cheapest paths stay the same. In the beginning all potentials are 0, and no cost is negative. After each search the
potentials grow by the distances found. Then no arc that can take something has a negative price, and the arcs on
cheapest paths have the price 0, as do their reverse arcs, which filling them makes usable.

All cheapest paths of one distance are filled at once, as in Dinic's algorithm: `_levels` counts the steps from the
source over arcs with the price 0, and `_fill_levels` fills all paths whose arcs each go one level up. After that the
shortest path over such arcs has more steps, so this ends; then the next search finds a greater distance. There are only
as many distances as there are different costs of paths, which are few when tasks weigh the same.

The result depends only on the order in which nodes and arcs were added.
"""

from __future__ import annotations

from heapq import heappop, heappush

_FAR = -1


class FlowNetwork:
    """Nodes are numbered from 0, arcs by what `arc` returned. Capacities and costs are whole and not negative."""

    __slots__ = ("_arcs_of", "_capacity", "_cost", "_potential", "_target")

    def __init__(self) -> None:
        self._arcs_of: list[list[int]] = []
        self._potential: list[int] = []
        # arc n and its reverse n ^ 1: where it leads, what it can still take, and the price of one unit
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
        """Sends as much as possible from source to sink, at the lowest cost."""
        while self._reprice(source, sink):
            while (level := self._levels(source, sink)) is not None:
                self._fill_levels(source, sink, level)

    def _reprice(self, source: int, sink: int) -> bool:
        """Makes every arc on a shortest path cost nothing. False when no path is left."""
        arcs_of, target, capacity, cost, potential = (
            self._arcs_of,
            self._target,
            self._capacity,
            self._cost,
            self._potential,
        )
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
        # A node at least as far as the sink would rise by the sink's distance. Only differences count, so instead each
        # nearer node falls by how much nearer it is.
        for node, so_far in reached:
            potential[node] += so_far - to_sink
        return True

    def _levels(self, source: int, sink: int) -> list[int] | None:
        """Steps from the source over arcs of shortest paths; None when they do not reach the sink."""
        arcs_of, target, capacity, cost, potential = (
            self._arcs_of,
            self._target,
            self._capacity,
            self._cost,
            self._potential,
        )
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
        """Fills every path whose arcs each go one level up, until none is left."""
        arcs_of, target, capacity, cost, potential = (
            self._arcs_of,
            self._target,
            self._capacity,
            self._cost,
            self._potential,
        )
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
