"""Which tasks already shared a client: the sticky assignor prefers to bring new pairs together.

Kafka keeps every pair of tasks that was ever put on one client, which is quadratic in tasks. While tasks are given out,
nothing is taken away from a client, so a pair is known exactly when some client holds both tasks. It is enough to
count, for each client, its tasks by the set of clients that hold them.

With a rack-aware strategy, active tasks are swapped between clients before the standbys are given out, and Kafka does
not note the pairs that come of it. Then a pair is known when its tasks were active on one client before the swaps, or
a client holds both and one of them came as a standby. Source: `LegacyStickyTaskAssignor.TaskPairs`.
"""

from __future__ import annotations

from assignor.types import TaskId


class TaskPairs:
    """Clients are numbered from 0; sets of them are bit masks.

    A mask has one bit for each client that holds the task. Behind these, once tasks were swapped, it has one bit for
    the client that had the task active before, and then one for the client that has it active since; that client's
    first bit is then set only for a standby.
    """

    __slots__ = ("_clients", "_counted", "_current", "_groups", "_holders", "_swapped")

    def __init__(self, clients: int) -> None:
        self._clients = clients
        self._holders: dict[TaskId, int] = {}
        # by client: the number of its tasks for each set of holders
        self._groups: list[dict[int, int]] = [{} for _ in range(clients)]
        # the task placed last is counted when the next one comes, once for all its copies
        self._current: TaskId | None = None
        self._counted = 0
        self._swapped = False

    def add(self, task: TaskId, client: int) -> None:
        """`client` holds `task` from now on."""
        holders = self._holders.get(task, 0)
        if task != self._current:
            self._count_current()
            self._current, self._counted = task, holders
        self._holders[task] = holders | 1 << client

    def swap_active(self, moved: dict[TaskId, int]) -> None:
        """`moved`: active tasks with the clients that hold them from now on; before that, no task has a standby."""
        if not moved:
            return
        self._count_current()
        clients = self._clients
        self._swapped = True
        self._groups = [{} for _ in range(clients)]
        for task, before in self._holders.items():
            owner = moved.get(task, before.bit_length() - 1)
            mask = before << clients | 1 << (2 * clients + owner)
            self._holders[task] = mask
            groups = self._groups[owner]
            groups[mask] = groups.get(mask, 0) + 1

    def holds(self, task: TaskId, client: int) -> bool:
        return bool(self._held_by(self._holders.get(task, 0)) >> client & 1)

    def holder_count(self, task: TaskId) -> int:
        return self._held_by(self._holders.get(task, 0)).bit_count()

    def has_new_pair(self, task: TaskId, client: int) -> bool:
        """Whether `client`, which does not hold `task`, holds a task that shares no client with `task` yet."""
        if task != self._current:
            self._count_current()
        groups, holders = self._groups[client], self._holders.get(task, 0)
        if self._swapped:
            return any(not self._shares_after_swaps(group, holders) for group in groups)
        if 1 << client in groups:  # a task that no other client holds; nearly always true, and saves the walk
            return True
        return any(not group & holders for group in groups)

    def _held_by(self, mask: int) -> int:
        """The clients that hold the task, active or as a standby."""
        if not self._swapped:
            return mask
        return (mask | mask >> 2 * self._clients) & ((1 << self._clients) - 1)

    def _shares_after_swaps(self, mask: int, other: int) -> bool:
        # once as a standby, or before the swaps, in either; active on the same client since then does not count
        before_or_standby = (1 << 2 * self._clients) - 1
        active, other_active = mask >> 2 * self._clients, other >> 2 * self._clients
        return bool(mask & other & before_or_standby or active & other or mask & other_active)

    def _count_current(self) -> None:
        if self._current is None:
            return
        before, after = self._counted, self._holders[self._current]
        self._current = None
        for client in _members(self._held_by(before)):
            groups = self._groups[client]
            groups[before] -= 1
            if not groups[before]:
                del groups[before]
        for client in _members(self._held_by(after)):
            groups = self._groups[client]
            groups[after] = groups.get(after, 0) + 1


def _members(mask: int) -> list[int]:
    members = []
    while mask:
        lowest = mask & -mask
        members.append(lowest.bit_length() - 1)
        mask ^= lowest
    return members
