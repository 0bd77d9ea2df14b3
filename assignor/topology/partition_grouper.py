"""Step 2: partitions into tasks. Partition p of every source topic of a subtopology belongs to task `subtopology_p`.

A subtopology has as many tasks as its largest source topic has partitions. Source: `PartitionGrouper`.
"""

from __future__ import annotations

from assignor.cluster import Cluster
from assignor.errors import InputError, UncheckedError
from assignor.topology.group_topology import GroupTopology, Subtopology
from assignor.topology.remembered_tasks import PartitionsOfTasks, Sources, source_partitions
from assignor.topology.topics_info import source_topics_walk
from assignor.types import utf16_order

MAX_GROUP_PARTITIONS = 1_000_000
"""Source partitions, or changelog partitions, of one group. A document from anywhere can name a large count in a few
bytes; this bounds the memory that it can take.
"""


def partition_groups(topology: GroupTopology, cluster: Cluster) -> PartitionsOfTasks:
    """Every task with its source partitions, sorted.

    Tasks are in the order of Kafka's `HashMap<TaskId, ..>`, which some assignors follow. Raises as `counted_sources`.
    Linear in the number of partitions.
    """
    return source_partitions(counted_sources(topology, cluster))


def counted_sources(topology: GroupTopology, cluster: Cluster) -> Sources:
    """What the tasks of a group follow from. `cluster` includes the repartition topics. Raises UncheckedError for a
    source topic without partitions.

    Differs from Kafka: more than MAX_GROUP_PARTITIONS is an InputError, raised before memory is allocated.
    """
    counts_by_subtopology = [
        (subtopology, _partition_counts(subtopology, cluster))
        for subtopology in source_topics_walk(topology.subtopologies)
    ]
    check_group_size(sum(sum(counts.values()) for _, counts in counts_by_subtopology), "source")
    return tuple((each.id, tuple(counts.items())) for each, counts in counts_by_subtopology)


def check_group_size(partitions: int, kind: str) -> None:
    """Raises InputError for more partitions than one group can have. `kind` names them in the message."""
    if partitions > MAX_GROUP_PARTITIONS:
        raise InputError(
            f"the group would have {partitions} {kind} partitions; no more than {MAX_GROUP_PARTITIONS} are placed",
            "input.topology",
        )


def _partition_counts(subtopology: Subtopology, cluster: Cluster) -> dict[str, int]:
    counts: dict[str, int] = {}
    for topic in sorted(set(subtopology.source_topics), key=utf16_order):
        count = cluster.partition_count(topic)
        if not count:
            raise UncheckedError(f"Empty partitions for topic {topic}")
        counts[topic] = count
    return counts
