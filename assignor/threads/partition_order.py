"""The partitions of one task in the order in which Kafka writes them: that of the HashSet the partition grouper fills.

Only the bytes depend on it; once decoded, the partitions of a standby task and of a host are sets. Source:
`PartitionGrouper.partitionGroups`.
"""

from __future__ import annotations

from collections.abc import Mapping

from assignor.java.order import hash_set_order, topic_partition_hash
from assignor.topology.group_topology import GroupTopology
from assignor.types import TaskId, TopicPartition


class PartitionsInJavaOrder:
    """Computes the order only for tasks that are asked for."""

    def __init__(
        self, topology: GroupTopology, partitions_for_task: Mapping[TaskId, tuple[TopicPartition, ...]]
    ) -> None:
        self._source_topics = {subtopology.id: subtopology.source_topics for subtopology in topology.subtopologies}
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
