"""How far each client lags on each stateful task.

Most clients report only the few tasks they hold; on every other task their lag is its end-offset sum, the same for
all. So a client keeps its own entries and shares the rest, and 50,000 tasks on 500 clients stay 50,000 + 50,000
numbers. Source: `ClientState.computeTaskLags`, `ClientState.lagFor`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from assignor.errors import IllegalStateError
from assignor.java.order import int64
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, TaskId


@dataclass(frozen=True, slots=True)
class TaskLags:
    """Lag in records by stateful task; LATEST_OFFSET for a running active task, UNKNOWN_OFFSET_SUM when not known.

    `reported`: this client's own entries. `unreported`: the lag on every other stateful task, shared between clients.
    """

    reported: Mapping[TaskId, int]
    unreported: Mapping[TaskId, int] = field(default_factory=dict)

    def lag_for(self, task: TaskId) -> int:
        lag = self.reported.get(task)
        if lag is None:
            lag = self.unreported.get(task)
            if lag is None:
                raise IllegalStateError(f"Tried to lookup lag for unknown task {task}")
        return lag

    def __contains__(self, task: TaskId) -> bool:
        return task in self.reported or task in self.unreported

    def known_and_unknown(self, tasks: Sequence[TaskId]) -> tuple[list[TaskId], list[TaskId]]:
        """`tasks` that have a lag, and those that have none, both in the order given."""
        # of a client that has reported any, nearly all are: these few are found faster than the many of all clients
        first, second = (self.reported, self.unreported) if self.reported else (self.unreported, self.reported)
        known = [task for task in tasks if task in first or task in second]
        if len(known) == len(tasks):
            return known, []
        return known, [task for task in tasks if task not in self]

    def __iter__(self) -> Iterator[TaskId]:
        yield from self.reported
        yield from (task for task in self.unreported if task not in self.reported)


def compute_task_lags(offset_sums: Mapping[TaskId, int], end_offset_sums: Mapping[TaskId, int]) -> TaskLags:
    """`offset_sums`: as the client reported them; `end_offset_sums`: of every stateful task.

    A reported task that is not stateful, or no longer exists, is left out. A sum beyond the end counts as a full
    restore.
    """
    reported = dict(offset_sums)
    # looked up all at once: one look-up then need not wait for the memory of the one before
    end_sums = list(map(end_offset_sums.get, offset_sums))
    for (task, offset_sum), end_offset_sum in zip(offset_sums.items(), end_sums, strict=True):
        if end_offset_sum is None:
            del reported[task]
        elif offset_sum >= 0:
            lag = end_offset_sum - offset_sum
            reported[task] = (end_offset_sum if lag < 0 else lag) if end_offset_sum >= 0 else end_offset_sum
        elif offset_sum not in (LATEST_OFFSET, UNKNOWN_OFFSET_SUM):
            reported[task] = end_offset_sum if end_offset_sum < offset_sum else int64(end_offset_sum - offset_sum)
    return TaskLags(reported, end_offset_sums)


def is_caught_up(lag: int, acceptable_recovery_lag: int) -> bool:
    """UNKNOWN_OFFSET_SUM is not caught up. Source: `HighAvailabilityTaskAssignor.tasksToCaughtUpClients`."""
    return lag == LATEST_OFFSET or acceptable_recovery_lag == JAVA_LONG_MAX or 0 <= lag <= acceptable_recovery_lag
