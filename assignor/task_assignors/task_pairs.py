"""Which tasks already share a client: the sticky assignor prefers to bring new pairs together.

Kafka keeps every pair of tasks that was ever put on one client, which is quadratic in tasks. While a placement is
made, nothing is taken away from a client, so a pair is known exactly when some client holds both tasks. It is enough
to count, for each client, its tasks by the set of clients that hold them. Source:
`LegacyStickyTaskAssignor.TaskPairs`.
"""

from __future__ import annotations

from assignor.types import TaskId


class TaskPairs:
    """Clients are numbered from 0; sets of them are bit masks."""

    __slots__ = ("_counted", "_current", "_groups", "_holders")

    def __init__(self, clients: int) -> None:
        self._holders: dict[TaskId, int] = {}
        # by client: the number of its tasks for each set of holders
        self._groups: list[dict[int, int]] = [{} for _ in range(clients)]
        # the task placed last is counted when the next one comes, once for all its copies
        self._current: TaskId | None = None
        self._counted = 0

    def add(self, task: TaskId, client: int) -> None:
        """`client` holds `task` from now on."""
        holders = self._holders.get(task, 0)
        if task != self._current:
            self._count_current()
            self._current, self._counted = task, holders
        self._holders[task] = holders | 1 << client

    def holds(self, task: TaskId, client: int) -> bool:
        return bool(self._holders.get(task, 0) >> client & 1)

    def holder_count(self, task: TaskId) -> int:
        return self._holders.get(task, 0).bit_count()

    def has_new_pair(self, task: TaskId, client: int) -> bool:
        """Whether `client`, which does not hold `task`, holds a task that shares no client with `task` yet."""
        if task != self._current:
            self._count_current()
        groups, holders = self._groups[client], self._holders.get(task, 0)
        if 1 << client in groups:  # a task that no other client holds; nearly always true, and saves the walk
            return True
        return any(not group & holders for group in groups)

    def _count_current(self) -> None:
        if self._current is None:
            return
        before, after = self._counted, self._holders[self._current]
        self._current = None
        for client in _members(before):
            groups = self._groups[client]
            groups[before] -= 1
            if not groups[before]:
                del groups[before]
        for client in _members(after):
            groups = self._groups[client]
            groups[after] = groups.get(after, 0) + 1


def _members(mask: int) -> list[int]:
    members = []
    while mask:
        lowest = mask & -mask
        members.append(lowest.bit_length() - 1)
        mask ^= lowest
    return members
