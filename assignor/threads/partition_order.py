"""The partitions of one task in the order in which Kafka writes them: that of the HashSet the partition grouper fills.

Only the bytes depend on it; once decoded, the partitions of a standby task and of a host are sets. Source:
`PartitionGrouper.partitionGroups`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from assignor.java.order import hash_set_order, topic_partition_hash
from assignor.topology.group_topology import GroupTopology
from assignor.topology.remembered_tasks import Sources, source_partitions
from assignor.types import TaskId, TopicPartition

_KEPT = 16

SourceTopics = tuple[tuple[int, tuple[str, ...]], ...]
"""By subtopology: its id and its source topics, as its description names them."""


def partitions_in_java_order(topology: GroupTopology, sources: Sources) -> PartitionsInJavaOrder:
    """Of the tasks that follow from `sources`. One object is kept for the rebalances of a group."""
    return _remembered(tuple([(each.id, tuple(each.source_topics)) for each in topology.subtopologies]), sources)


@lru_cache(maxsize=_KEPT)
def _remembered(source_topics: SourceTopics, sources: Sources) -> PartitionsInJavaOrder:
    return PartitionsInJavaOrder(source_topics, source_partitions(sources))


class PartitionsInJavaOrder:
    """Computes the order only for tasks that are asked for."""

    def __init__(
        self, source_topics: SourceTopics, partitions_for_task: Mapping[TaskId, tuple[TopicPartition, ...]]
    ) -> None:
        self._source_topics = dict(source_topics)
        self._partitions_for_task = partitions_for_task
        self._ordered: dict[TaskId, tuple[TopicPartition, ...]] = {}

    def of(self, task: TaskId) -> tuple[TopicPartition, ...]:
        partitions = self._partitions_for_task[task]
        if len(partitions) < 2:
            return partitions
        ordered = self._ordered.get(task)
        if ordered is None:
            ordered = self._ordered[task] = self._in_java_order(task, frozenset(partitions))
        return ordered

    def _in_java_order(self, task: TaskId, partitions: frozenset[TopicPartition]) -> tuple[TopicPartition, ...]:
        topics = self._source_topics[task.subtopology]
        as_added = (TopicPartition(topic, task.partition) for topic in topics)
        return tuple(
            hash_set_order(
                [partition for partition in as_added if partition in partitions],
                topic_partition_hash,
                initial_capacity=len(topics),
            )
        )
