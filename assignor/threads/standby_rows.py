"""What assignments say of each standby task, in bytes: the same in every rebalance of a group, so made once and kept.

Source: `AssignmentInfo.encodeStandbyTasks`.
"""

from __future__ import annotations

from functools import lru_cache

from assignor.protocol.assignment_info_encoder import AssignmentInfoEncoder
from assignor.threads.partition_order import PartitionsInJavaOrder
from assignor.types import TaskId

_KEPT = 16


class StandbyRows(dict[TaskId, bytes]):
    """By task, for tasks that were asked for. Raises KeyError for a task that is none of the group's, and otherwise as
    `AssignmentInfoEncoder`.
    """

    def __init__(self, version: int, partitions: PartitionsInJavaOrder) -> None:
        super().__init__()
        self._encoder = AssignmentInfoEncoder(version, version, {}, {})
        self._partitions = partitions

    def __missing__(self, task: TaskId) -> bytes:
        row = self[task] = self._encoder.standby(task, self._partitions.of(task))
        return row


@lru_cache(maxsize=_KEPT)
def standby_rows(version: int, partitions: PartitionsInJavaOrder) -> StandbyRows:
    """`partitions`: the one object that is kept for the topology."""
    return StandbyRows(version, partitions)
