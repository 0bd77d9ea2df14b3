"""What assignments say of each standby task, in bytes: the same in every rebalance of a group, so made once and kept.

Source: `AssignmentInfo.encodeStandbyTasks`.
"""

from __future__ import annotations

from collections.abc import Collection
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

    def make(self, tasks: Collection[TaskId]) -> None:
        """Those of one partition each at once, with few calls; the others are made, or refused, when they are asked
        for.
        """
        by_topic: dict[str, tuple[list[TaskId], list[int]]] = {}
        for task, partitions in zip(tasks, self._partitions.sources_of(tasks), strict=True):
            if partitions is not None and len(partitions) == 1:
                topic, number = partitions[0]
                of_topic = by_topic.get(topic) or by_topic.setdefault(topic, ([], []))
                of_topic[0].append(task)
                of_topic[1].append(number)
        for topic, (of_one, numbers) in by_topic.items():
            rows = self._encoder.standbys(of_one, topic, numbers)
            if rows is not None:
                self.update(zip(of_one, rows, strict=True))


@lru_cache(maxsize=_KEPT)
def standby_rows(version: int, partitions: PartitionsInJavaOrder) -> StandbyRows:
    """`partitions`: the one object that is kept for the topology."""
    return StandbyRows(version, partitions)
