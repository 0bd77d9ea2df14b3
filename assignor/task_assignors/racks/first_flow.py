"""Where tasks are before balance_subtopology begins to save traffic: every subtopology spread over the clients.

Of a subtopology, a client may have its share: as many of its tasks as the client has of all tasks, rounded up. Kafka
fills the shares by a breadth-first search for one task after the other, so the first clients are filled first.
Source: `Graph.calculateMaxFlow`, `BalanceSubtopologyGraphConstructor.constructEdges`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

_FROM_SOURCE = -1


def shares(task_counts: Sequence[int], group_sizes: Sequence[int]) -> list[list[int]]:
    """For each subtopology, how many of its tasks each client may have. In Java's doubles.

    `task_counts`: tasks of each client; `group_sizes`: tasks of each subtopology.
    """
    tasks = sum(group_sizes)
    return [[math.ceil(count * 1.0 / tasks * size) for count in task_counts] for size in group_sizes]


def first_owners(groups: Sequence[range], task_counts: Sequence[int], capacity: Sequence[Sequence[int]]) -> list[int]:
    """The client of each task. `groups`: the tasks of each subtopology; `capacity[group][client]`: see `shares`.

    Every client gets exactly as many tasks as `task_counts` says.
    """
    search = _PathSearch(groups, list(task_counts), capacity)
    for _ in range(sum(map(len, groups))):
        search.place_one()
    return search.owner


@dataclass(slots=True)
class _PathSearch:
    """`room[client]`: tasks that it may still get; `taken[group][client]`: tasks that it has of a subtopology."""

    groups: Sequence[range]
    room: list[int]
    capacity: Sequence[Sequence[int]]
    owner: list[int] = field(init=False)
    taken: list[list[int]] = field(init=False)
    waiting: list[int] = field(init=False)  # by group: its first task without a client

    def __post_init__(self) -> None:
        self.owner = [-1] * sum(map(len, self.groups))
        self.taken = [[0] * len(self.room) for _ in self.groups]
        self.waiting = [tasks.start for tasks in self.groups]

    def place_one(self) -> None:
        """The search reaches all clients of all subtopologies that wait before it looks further, and takes the first
        one with room. Only when there is none, tasks that have a client already are moved.
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
        """A breadth-first search over `(group, client)` pairs, tasks and clients; the first client with room ends it.

        `reached_by[group, client]`: the task that would go there, or None when the client would give one away.
        """
        reached_by: dict[tuple[int, int], int | None] = {}
        through: dict[int, int] = {}  # client: the group by which it was reached
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
            elif kind == "task":  # `client` is a task here
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
        self,
        group: int,
        task: int,
        reached_by: dict[tuple[int, int], int | None],
        queue: deque[tuple[str, int, int]],
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
