"""Which tasks already shared a client: the sticky assignor prefers to bring new pairs together.

Kafka keeps every pair of tasks that was ever put on one client, which is quadratic in tasks. While tasks are given out,
nothing is taken away from a client, so a pair is known exactly when some client holds both tasks. The tasks that are
known to a task are those of all clients that hold it; each set of tasks is one number here, with a bit for each task.

With a rack-aware strategy, active tasks are swapped between clients before the standbys are given out, and Kafka does
not note the pairs that come of it. Then a pair is known when its tasks were active on one client before the swaps, or
a client holds both and one of them came as a standby. Source: `LegacyStickyTaskAssignor.TaskPairs`.
"""

from __future__ import annotations

from assignor.types import TaskId


class TaskPairs:
    """Clients are numbered from 0; a set of them is a bit mask."""

    __slots__ = (
        "_active",
        "_active_before_swaps",
        "_bits",
        "_current",
        "_holders",
        "_known",
        "_owner",
        "_standby",
        "_witness",
    )

    def __init__(self, clients: int) -> None:
        self._bits: dict[TaskId, int] = {}
        self._holders: dict[TaskId, int] = {}
        self._owner: dict[TaskId, int] = {}
        # by client
        self._active = [0] * clients
        self._active_before_swaps = self._active
        self._standby = [0] * clients
        # a task for which a client was last found to bring a new pair: the next answer is likely to be the same
        self._witness = [0] * clients
        # the task asked about last, and those that share a client with it
        self._current: TaskId | None = None
        self._known = 0

    def add(self, task: TaskId, client: int) -> None:
        """`client` holds `task` from now on: as active if nobody else does yet, otherwise as a standby."""
        holders = self._holders.get(task)
        if holders is None:
            self._holders[task] = 1 << client
            self._owner[task] = client
            bit = self._bits[task] = 1 << len(self._bits)
            self._active[client] |= bit
            self._current = None
            return
        self._know(task)
        self._holders[task] = holders | 1 << client
        self._known |= self._active[client] | self._standby[client]
        self._standby[client] |= self._bits[task]

    def swap_active(self, moved: dict[TaskId, int]) -> None:
        """`moved`: active tasks with the clients that hold them from now on; before that, no task has a standby."""
        self._active_before_swaps = self._active.copy()
        for task, client in moved.items():
            bit = self._bits[task]
            self._active[self._holders[task].bit_length() - 1] &= ~bit
            self._active[client] |= bit
            self._holders[task] = 1 << client
        self._witness = [0] * len(self._active)

    def holders(self, task: TaskId) -> int:
        """The clients that hold the task."""
        return self._holders.get(task, 0)

    def holds(self, task: TaskId, client: int) -> bool:
        return bool(self._holders.get(task, 0) >> client & 1)

    def holder_count(self, task: TaskId) -> int:
        return self._holders.get(task, 0).bit_count()

    def has_new_pair(self, task: TaskId, client: int) -> bool:
        """Whether `client`, which does not hold `task`, holds a task that shares no client with `task` yet."""
        if task != self._current:
            self._know(task)
        witness = self._witness[client]
        if witness and not witness & self._known:
            return True
        held = self._active[client] | self._standby[client]
        new = held & ~self._known
        self._witness[client] = new & -new
        return new != 0

    def _know(self, task: TaskId) -> None:
        if task == self._current:
            return
        self._current, self._known = task, 0
        holders = self._holders.get(task, 0)
        if holders == 0:
            return
        owner, active, standby = self._owner[task], self._active, self._standby
        self._known = self._active_before_swaps[owner]
        bit = self._bits[task]
        for client in _members(holders):
            self._known |= standby[client] | active[client] if standby[client] & bit else standby[client]


def _members(mask: int) -> list[int]:
    members = []
    while mask:
        lowest = mask & -mask
        members.append(lowest.bit_length() - 1)
        mask ^= lowest
    return members
