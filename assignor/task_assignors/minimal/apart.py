"""Places the active tasks of `apart` pins on different clients. Tasks without `apart` pins are placed later.

The tasks of `apart` pins are placed one by one. A task stays on its home client (see `copies.py`) if the client has
room and no task on the client conflicts with it. If a task conflicts with other tasks on every client, it may displace
one of these tasks. The displaced task moves to another client, where it may displace a third task, and so on. A chain
of displacements is an augmenting path in Kuhn's algorithm. If all tasks of one rule can be placed without conflict, the
algorithm finds a place for each of these tasks. If several rules name the same task, the algorithm may miss a solution.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from assignor.task_assignors.minimal.copies import NOBODY
from assignor.task_assignors.minimal.pin_lookup import ApartRule, is_free, use
from assignor.task_assignors.minimal.targets import TaskToPlace

_LONGEST_EXCHANGE = 100
"""The greatest number of tasks in one chain of displacements."""


@dataclass(eq=False)
class ApartPlacement:
    """Places the tasks of `apart` pins. `rules[n]`: the `apart` rules of `tasks[n]`, at least one rule.
    `present[client]`: the number of tasks on the client; this class adds the tasks that it places.
    """

    _tasks: Sequence[TaskToPlace]
    _rules: Sequence[list[ApartRule]]
    _capacity: Sequence[int]
    _present: list[int]

    def __post_init__(self) -> None:
        self._owner = [NOBODY] * len(self._tasks)
        self._named = Counter(rule for of_task in self._rules for rule in of_task)

    def placed(self, most: Sequence[int]) -> tuple[list[int], list[int]]:
        """Returns the client of each task, and the tasks whose pins were ignored. The pins of a task are ignored if no
        client without a conflict is found. `most[client]`: the number of tasks that the client should have. A client
        may get more than this number, for example by an exchange of tasks.
        """
        order = sorted(
            range(len(self._tasks)),
            key=lambda number: (
                len(self._tasks[number].allowed.clients),
                self._tasks[number].home == NOBODY,
                -self._tasks[number].weight,
                self._tasks[number].task,
            ),
        )
        set_aside: list[int] = []
        for number in order:
            free = [client for client in self._preferred(number) if is_free(self._rules[number], client)]
            client = next((client for client in free if self._present[client] < most[client]), None)
            if client is None and free:
                client = free[0]
            if client is not None:
                self._put(number, client)
            elif not (self._has_room(number) and self._exchange(number, set())):
                set_aside.append(number)
                self._put(number, min(self._preferred(number), key=lambda other: self._conflicts(number, other)))
        return self._owner, set_aside

    def _preferred(self, number: int) -> list[int]:
        """Returns the clients that the task may go to, best first. The task's home client comes first. The other
        clients are sorted by missing state, and then by tasks per thread.
        """
        each = self._tasks[number]
        return sorted(
            each.allowed.clients,
            key=lambda client: (
                client != each.home,
                each.level.get(client, each.elsewhere),
                self._present[client] / self._capacity[client],
                client,
            ),
        )

    def _has_room(self, number: int) -> bool:
        """Returns False if the clients have too few different values for the tasks of one rule. In this case, no
        exchange of tasks can resolve the conflict.
        """
        return all(self._named[rule] <= len(set(rule.value)) for rule in self._rules[number])

    def _exchange(self, number: int, tried: set[int]) -> bool:
        """Places the task on a client where it conflicts with exactly one other task, and moves the other task to
        another client. If no exchange of this kind is possible, changes nothing and returns False.
        """
        tried.add(number)
        if len(tried) > _LONGEST_EXCHANGE:
            return False
        for client in self._preferred(number):
            blocking = self._blocking(number, client)
            if len(blocking) != 1 or blocking[0] in tried:
                continue
            other = blocking[0]
            held = self._owner[other]
            self._take(other)
            if is_free(self._rules[number], client):
                self._put(number, client)
                if self._put_free(other) or self._exchange(other, tried):
                    return True
                self._take(number)
            self._put(other, held)
        return False

    def _put_free(self, number: int) -> bool:
        client = next((client for client in self._preferred(number) if is_free(self._rules[number], client)), None)
        if client is not None:
            self._put(number, client)
        return client is not None

    def _blocking(self, number: int, client: int) -> list[int]:
        return [
            other
            for other, owner in enumerate(self._owner)
            if owner != NOBODY
            and other != number
            and any(
                rule.value[owner] == rule.value[client] is not None
                for rule in self._rules[number]
                if rule in self._rules[other]
            )
        ]

    def _conflicts(self, number: int, client: int) -> int:
        used = 0
        for rule in self._rules[number]:
            value = rule.value[client]
            used += rule.used[value] if value is not None else 0
        return used

    def _put(self, number: int, client: int) -> None:
        self._owner[number] = client
        self._present[client] += 1
        use(self._rules[number], client)

    def _take(self, number: int) -> None:
        client = self._owner[number]
        self._owner[number] = NOBODY
        self._present[client] -= 1
        use(self._rules[number], client, -1)
