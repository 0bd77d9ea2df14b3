"""The pairs of tasks that already shared a client. The sticky assignor prefers clients on which a task forms new pairs.

Kafka stores every pair of tasks that was ever placed on one client. The number of pairs is quadratic in the number of
tasks. As long as no tasks are swapped, no client loses a task. So a pair of tasks is known if and only if some client
holds both tasks. This module represents a set of tasks as one number with a bit for each task.

With a rack-aware strategy, active tasks are swapped between clients before the standbys are placed. Kafka does not
record the pairs that the swaps create. A swap of active tasks removes no known pair: if both tasks were active on one
client before, the pair is still known. A pair is also known if a client holds both tasks and at least one of the two
copies is a standby.
Source: `LegacyStickyTaskAssignor.TaskPairs`.
"""

from assignor.types import TaskId


class TaskPairs:
    """The known pairs of tasks. Clients are numbered from 0. A set of clients is a bit mask."""

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
        # bit masks of the active tasks of each client, and of the standbys of each client
        self._active = [0] * clients
        self._active_before_swaps = self._active
        self._standby = [0] * clients
        # A cache: for each client, one task that formed a new pair in the last call of `has_new_pair`. The task of the
        # last call usually forms a new pair in the next call, too.
        self._witness = [0] * clients
        # the task of the last call of `has_new_pair`, and the tasks that share a client with this task
        self._current: TaskId | None = None
        self._known = 0

    def add(self, task: TaskId, client: int) -> None:
        """Adds a copy of the task to the client. The copy is active if no client has the task yet, otherwise it is a
        standby.
        """
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
        """Stores the new clients of swapped active tasks. Call this method before any standby is added. `moved`: the
        new client of each moved task.
        """
        self._active_before_swaps = self._active.copy()
        for task, client in moved.items():
            bit = self._bits[task]
            self._active[self._holders[task].bit_length() - 1] &= ~bit
            self._active[client] |= bit
            self._holders[task] = 1 << client
        self._witness = [0] * len(self._active)

    def holders(self, task: TaskId) -> int:
        """Returns the clients that hold the task, as a bit mask."""
        return self._holders.get(task, 0)

    def holds(self, task: TaskId, client: int) -> bool:
        return bool(self._holders.get(task, 0) >> client & 1)

    def holder_count(self, task: TaskId) -> int:
        return self._holders.get(task, 0).bit_count()

    def has_new_pair(self, task: TaskId, client: int) -> bool:
        """True if the client holds another task that would form a new pair with the task. Call this method only for a
        client that does not hold the task.
        """
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
