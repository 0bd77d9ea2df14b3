"""The targets of active tasks, chosen so that as few tasks as possible change their client.

Each client gets its share of all tasks, and of each subtopology's tasks, rounded down or up (`shares.py`). There are
many placements in which each client has its share. From these placements, the module chooses the best placement by four
criteria. The most important criterion comes first:

1. As few tasks as possible leave their home client, which usually is the client that ran the task (`copies.py`). For a
   task without a home client, each caught-up client counts as the home client.
2. The total weight of the tasks that leave their home clients is as small as possible.
3. With a rack-aware strategy, as few partitions as possible are read across racks.
4. The new clients of the moved tasks have as much of the tasks' state as possible.

The best placement is the cheapest flow of tasks to clients (`flow.py`). While the moves of a rebalance are under way,
the next rebalances find the same best placement. The racks do not change in the meantime, and each finished move or
warm-up only reduces the cost of the best placement. So after a task's warm-up has begun, no later rebalance changes the
target of the task.

Most tasks are placed without the flow. A home client keeps its tasks of a subtopology, up to its rounded-down share. If
a home client has more than its rounded-down share, it gets no other tasks of the subtopology. Tasks with the same
clients and the same prices are equivalent, so the flow network has one node for all equivalent tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from heapq import heapify, heapreplace
from itertools import islice

from assignor.task_assignors.minimal.copies import CAUGHT_UP, NO_COPY, NOBODY
from assignor.task_assignors.minimal.flow import FlowNetwork
from assignor.task_assignors.minimal.pin_lookup import AllowedClients
from assignor.task_assignors.minimal.shares import ShareBounds, Shares, TaskClass, even_shares
from assignor.types import TaskId


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices with which all costs of a placement are added up to one number. Each price is higher than the greatest
    possible sum of all lower prices. So a comparison of two sums compares the most important criterion first.

    `foreign`: the price of each partition that is read across racks. `weight`: the price of placing a task away from
    its home, for each unit of the task's weight. `move`: the price of placing a task away from its home.
    `uneven_class`: the price of each task above a client's rounded-down share of a class. `uneven_client`: the price of
    each task above a client's rounded-down share of all tasks.
    """

    foreign: int
    weight: int
    move: int
    uneven_class: int
    uneven_client: int

    @classmethod
    def of(cls, weights: Sequence[int], most_foreign: int) -> Prices:
        """Computes the prices. `weights`: the weights of the tasks to place. `most_foreign`: the greatest possible
        number of cross-rack reads of all tasks to place.
        """
        total = sum(weights)
        foreign = NO_COPY * total + 1
        above_foreign = foreign * (most_foreign + 1)
        all_alike = all(weight == 1 for weight in weights)
        weight = 0 if all_alike else above_foreign
        move = above_foreign if all_alike else above_foreign * (total + 2)
        uneven_class = move * (len(weights) + 2)
        return cls(foreign, weight, move, uneven_class, uneven_class * 4 * (len(weights) + 2))

    def of_placing(self, moves: bool, weight: int, level: int, foreign: int) -> int:
        """Returns the cost of placing a task on a client. `moves`: True if the task has a home and the client is not
        the home.
        """
        return (self.move + self.weight * weight if moves else 0) + self.foreign * foreign + level * weight


@dataclass(frozen=True, slots=True)
class TaskToPlace:
    """A task, and the data that determine its client. The class `Copies` describes the fields `home`, `level`,
    `elsewhere` and `weight`. `foreign[client]`: the number of the task's partitions that the client would read across
    racks; empty without a rack-aware strategy.
    """

    task: TaskId
    home: int
    level: Mapping[int, int]
    elsewhere: int
    weight: int
    allowed: AllowedClients
    foreign: Sequence[int] = ()


def place_evenly(
    tasks: Sequence[TaskToPlace],
    capacity: Sequence[int],
    present: Sequence[int],
    weights: Sequence[int],
    racks: Sequence[str] = (),
) -> list[int]:
    """Returns the client of each task. `present[client]`: the number of tasks that the client has already.
    `weights[client]`: the weight of the tasks that the client has already. `racks`: the racks of the clients, empty
    without a rack-aware strategy. Clients of one rack have equal values in each task's `foreign`.
    """
    classes = _by_class(tasks)
    kinds = [TaskClass(len(members), tasks[members[0]].allowed.clients) for members in classes]
    shares = even_shares(kinds, capacity, present)
    homes = [each.home if each.home in each.allowed.members else NOBODY for each in tasks]
    if _is_even(classes, homes, shares):
        return homes
    placement = _EvenPlacement(tasks, homes, classes, shares, racks, any(present))
    return placement.solved(capacity, weights)


def _by_class(tasks: Sequence[TaskToPlace]) -> list[list[int]]:
    """Returns the classes of the tasks. A class contains the tasks of one subtopology that have the same allowed
    clients.
    """
    classes: dict[tuple[str, int, tuple[int, ...]], list[int]] = {}
    for number, each in enumerate(tasks):
        key = (each.task.topology_name or "", each.task.subtopology, each.allowed.clients)
        classes.setdefault(key, []).append(number)
    return [classes[key] for key in sorted(classes)]


def _is_even(classes: Sequence[Sequence[int]], homes: Sequence[int], shares: Shares) -> bool:
    if NOBODY in homes:
        return False
    counts = [0] * len(shares.of_client)
    for members, of_class in zip(classes, shares.of_class, strict=True):
        counts_of_class = dict.fromkeys(of_class, 0)
        for number in members:
            counts_of_class[homes[number]] += 1
            counts[homes[number]] += 1
        if any(not _within(of_class[client], count) for client, count in counts_of_class.items()):
            return False
    return all(map(_within, shares.of_client, counts))


def _within(bounds: ShareBounds, count: int) -> bool:
    return bounds.low <= count <= bounds.high


@dataclass(slots=True)
class _TaskGroup:
    """A group of equivalent tasks. `arcs`: one arc for each client that is a home or has some of the tasks' state, as
    (client, arc). `elsewhere`: one arc for each hub, as (hub, arc). A hub is a node that stands for the other clients
    of one rack.
    """

    members: list[int] = field(default_factory=list)
    arcs: list[tuple[int, int]] = field(default_factory=list)
    elsewhere: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Cell:
    """The bounds of one class of tasks on one client. `low` and `high` do not count the tasks that certainly stay on
    the client. `hub`: the number of the hub, a node that all clients of this client's rack share. `takes_others`: True
    if the client may get tasks whose home is another client. `node`: the node for this class and this client in the
    network. `from_hub`: the arc from the hub to this node.
    """

    client: int
    hub: int
    low: int
    high: int
    takes_others: bool
    node: int = NOBODY
    from_hub: int = NOBODY


_GroupKey = tuple[tuple[int, ...], int, tuple[tuple[int, int], ...], int, bool, tuple[int, ...]]
"""A key of six fields. Equivalent tasks have equal keys.

- Field 1: the home clients that have room.
- Field 2: the weight.
- Field 3: the levels of clients.
- Field 4: the level of all other clients.
- Field 5: True if the task has a home.
- Field 6: `foreign`.
"""


@dataclass(eq=False)
class _EvenPlacement:
    """The flow network that places the tasks, and the result of the flow.

    `may_be_uneven`: True if a client's share of all tasks may conflict with its share of a class of tasks. Only tasks
    that are already placed (`present`) can cause a conflict between the two shares of a client. If a client's two
    shares conflict, its share of all tasks has priority over its share of a class.

    A task costs equally much on all clients that are in one rack and have none of the task's state. So one node of the
    network represents all these clients: the hub of the rack. If racks are not used, there is one hub for all clients.
    """

    _tasks: Sequence[TaskToPlace]
    _homes: Sequence[int]
    classes: InitVar[Sequence[Sequence[int]]]
    _shares: Shares
    racks: InitVar[Sequence[str]]
    _may_be_uneven: bool

    def __post_init__(self, classes: Sequence[Sequence[int]], racks: Sequence[str]) -> None:
        self._network = FlowNetwork()
        hubs = {rack: number for number, rack in enumerate(sorted(set(racks)))}
        self._hub_of = [hubs[rack] for rack in racks] or [0] * len(self._shares.of_client)
        # for each hub, the first of its clients
        self._of_hub = [self._hub_of.index(hub) for hub in range(max(1, len(hubs)))]
        self._owner = [NOBODY] * len(self._tasks)
        self._kept = [0] * len(self._shares.of_client)
        cells = [self._cells(members, bounds) for members, bounds in zip(classes, self._shares.of_class, strict=True)]
        groups = [self._groups(members, of_class) for members, of_class in zip(classes, cells, strict=True)]
        self._classes = [each for each in zip(cells, groups, strict=True) if each[1]]

    def solved(self, capacity: Sequence[int], weights: Sequence[int]) -> list[int]:
        network = self._network
        source, sink = network.node(), network.node()
        moving = [self._tasks[number] for number, client in enumerate(self._owner) if client == NOBODY]
        prices = Prices.of([each.weight for each in moving], sum(max(each.foreign, default=0) for each in moving))
        rows: dict[int, int] = {}
        for cells, groups in self._classes:
            for cell in cells.values():
                self._add_cell(cell, rows, sink, prices)
            self._add_groups(source, cells, groups, prices)
        network.fill(source, sink)
        left = [self._give_to_known(groups) for _, groups in self._classes]
        carried = list(weights)
        for number, client in enumerate(self._owner):
            if client != NOBODY:
                carried[client] += self._tasks[number].weight
        for (cells, _), by_hub in zip(self._classes, left, strict=True):
            for hub, members in by_hub.items():
                of_hub = [cell for cell in cells.values() if cell.hub == hub]
                self._give_to_lightest(of_hub, members, capacity, carried)
        return self._owner

    def _cells(self, members: Sequence[int], bounds: Mapping[int, ShareBounds]) -> dict[int, _Cell]:
        """Returns the bounds of one class on each client. Also places those tasks of the class that certainly stay on
        their home clients.
        """
        at_home: dict[int, list[int]] = {}
        homeless: dict[int, list[int]] = {}
        for number in members:
            if self._homes[number] != NOBODY:
                at_home.setdefault(self._homes[number], []).append(number)
            else:
                for client in self._caught_up(number):
                    homeless.setdefault(client, []).append(number)
        cells: dict[int, _Cell] = {}
        for client, share in bounds.items():
            own, also = at_home.get(client, []), homeless.get(client, [])
            keep = own if len(own) + len(also) <= share.low else self._surely_kept(own, also, share.low)
            for number in keep:
                self._owner[number] = client
            self._kept[client] += len(keep)
            low, high = share.low - len(keep), share.high - len(keep)
            if high > 0 or self._may_be_uneven:
                takes_others = len(own) <= share.low or self._may_be_uneven
                cells[client] = _Cell(client, self._hub_of[client], low, high, takes_others)
        return cells

    def _caught_up(self, number: int) -> list[int]:
        """Returns the caught-up clients of a task that has no home, smallest lag first. Returns an empty list if all
        clients count as caught up, because every client is then equally suitable.
        """
        each = self._tasks[number]
        if each.elsewhere == CAUGHT_UP:
            return []
        return [client for client, level in each.level.items() if level == CAUGHT_UP and client in each.allowed.members]

    def _surely_kept(self, own: list[int], also: list[int], low: int) -> list[int]:
        """Returns the tasks of `own` that certainly stay on the client. `own`: the tasks whose home is the client.
        `also`: the tasks without a home for which the client is caught up. Call this function only if `own` and `also`
        together have more than `low` tasks.

        The `low` heaviest tasks stay on the client. Returns only tasks that are heavier than the lightest of these
        tasks, because another task of equal weight may stay instead.
        """
        if low == 0:
            return []
        weights = sorted((self._tasks[number].weight for number in own + also), reverse=True)
        return [number for number in own if self._tasks[number].weight > weights[low - 1]]

    def _groups(self, members: Sequence[int], cells: Mapping[int, _Cell]) -> dict[_GroupKey, _TaskGroup]:
        groups: dict[_GroupKey, _TaskGroup] = {}
        taking = {client for client, cell in cells.items() if cell.takes_others}
        # Tasks are added to groups in reverse order. If several flows are equally cheap, the earliest added tasks stay
        # at home. So tasks at the end of `members` stay, and tasks at the beginning move. The first tasks are also the
        # first to get warm-ups. So the next rebalance moves the tasks that already have a warm-up.
        for number in reversed(members):
            if self._owner[number] != NOBODY:
                continue
            each = self._tasks[number]
            home = self._homes[number]
            homes = [home] if home != NOBODY else self._caught_up(number)
            levels = sorted(
                (client, level)
                for client, level in each.level.items()
                if client in taking and client not in homes and level < each.elsewhere
            )
            decides = homes or levels
            key = (
                tuple(client for client in homes if client in cells),
                each.weight if decides else 0,
                tuple(levels),
                each.elsewhere if decides else 0,
                bool(homes),
                tuple(each.foreign),
            )
            groups.setdefault(key, _TaskGroup()).members.append(number)
        return groups

    def _add_cell(self, cell: _Cell, rows: dict[int, int], sink: int, prices: Prices) -> None:
        network = self._network
        row = rows.get(cell.client)
        if row is None:
            row = rows[cell.client] = network.node()
            bounds = self._shares.of_client[cell.client]
            low = max(0, bounds.low - self._kept[cell.client])
            high = max(low, bounds.high - self._kept[cell.client])
            network.arc(row, sink, low, 0)
            network.arc(row, sink, high - low, prices.uneven_client)
            network.arc(row, sink, len(self._tasks), 3 * prices.uneven_client)
        cell.node = network.node()
        network.arc(cell.node, row, cell.low, 0)
        network.arc(cell.node, row, cell.high - cell.low, prices.uneven_class)
        if self._may_be_uneven:
            network.arc(cell.node, row, len(self._tasks), 3 * prices.uneven_class)

    def _add_groups(
        self, source: int, cells: Mapping[int, _Cell], groups: Mapping[_GroupKey, _TaskGroup], prices: Prices
    ) -> None:
        network = self._network
        hubs = [network.node() for _ in self._of_hub]
        for cell in cells.values():
            if cell.takes_others:
                cell.from_hub = network.arc(hubs[cell.hub], cell.node, len(self._tasks), 0)
        for (homes, weight, levels, elsewhere, moves, foreign), group in groups.items():
            node, size = network.node(), len(group.members)
            network.arc(source, node, size, 0)
            for home in homes:
                price = prices.of_placing(False, 0, 0, foreign[home] if foreign else 0)
                group.arcs.append((home, network.arc(node, cells[home].node, size, price)))
            for client, level in levels:
                price = prices.of_placing(moves, weight, level, foreign[client] if foreign else 0)
                group.arcs.append((client, network.arc(node, cells[client].node, size, price)))
            for hub, client in enumerate(self._of_hub):
                price = prices.of_placing(moves, weight, elsewhere, foreign[client] if foreign else 0)
                group.elsewhere.append((hub, network.arc(node, hubs[hub], size, price)))

    def _give_to_known(self, groups: Mapping[_GroupKey, _TaskGroup]) -> dict[int, list[int]]:
        """Places the tasks that the flow sends to their home clients, or to clients that have some of the tasks' state.
        Returns all other tasks, by the hub to which the flow sends them.
        """
        left: dict[int, list[int]] = {}
        for group in groups.values():
            members = iter(group.members)
            for client, arc in group.arcs:
                for number in islice(members, self._network.flow(arc)):
                    self._owner[number] = client
            for hub, arc in group.elsewhere:
                left.setdefault(hub, []).extend(islice(members, self._network.flow(arc)))
        return left

    def _give_to_lightest(
        self, cells: Sequence[_Cell], members: list[int], capacity: Sequence[int], carried: list[int]
    ) -> None:
        """Places the tasks that the flow sends through one hub. Each client gets the number of tasks that the flow
        sends to this client. The heaviest task is placed first; each task goes to the client with the lowest weight per
        thread.
        """
        room = {cell.client: self._network.flow(cell.from_hub) for cell in cells if cell.from_hub != NOBODY}
        queue = [(carried[client] / capacity[client], client) for client, units in room.items() if units]
        heapify(queue)
        for number in sorted(members, key=lambda number: (-self._tasks[number].weight, self._tasks[number].task)):
            client = queue[0][1]
            self._owner[number] = client
            carried[client] += self._tasks[number].weight
            room[client] -= 1
            if room[client]:
                heapreplace(queue, (carried[client] / capacity[client], client))
            else:
                last = queue.pop()
                if queue:
                    heapreplace(queue, last)
