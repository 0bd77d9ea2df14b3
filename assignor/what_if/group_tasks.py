"""Which tasks a snapshot makes, and where their changelogs end: the first steps of the pipeline, nobody is placed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assignor.clients.end_offsets import EndOffsets, EndOffsetSums, end_offset_sums
from assignor.snapshot import RebalanceSnapshot
from assignor.topology.changelog_topics import ChangelogTopics, prepare_changelog_topics
from assignor.topology.internal_topics import InternalTopicCatalog
from assignor.topology.partition_grouper import partition_groups
from assignor.topology.repartition_topics import prepare_repartition_topics
from assignor.types import TaskId, TopicPartition


@dataclass(frozen=True, slots=True)
class GroupTasks:
    """`partitions`: of every task, its source partitions. `internal_topics`: every one, with the count it must have."""

    partitions: Mapping[TaskId, tuple[TopicPartition, ...]]
    internal_topics: Mapping[str, int]
    changelogs: ChangelogTopics

    @property
    def source_partitions(self) -> frozenset[TopicPartition]:
        return frozenset(partition for partitions in self.partitions.values() for partition in partitions)


def group_tasks(snapshot: RebalanceSnapshot, catalog: InternalTopicCatalog) -> GroupTasks:
    """Raises KafkaError where the pipeline would end, InputError for more partitions than a group can have."""
    repartition = prepare_repartition_topics(snapshot.topology, snapshot.cluster, catalog, snapshot.configs)
    partitions = partition_groups(snapshot.topology, repartition.cluster)
    by_subtopology: dict[int, list[TaskId]] = {}
    for task in partitions:
        by_subtopology.setdefault(task.subtopology, []).append(task)
    catalog = catalog.with_created(repartition.created)
    changelogs = prepare_changelog_topics(snapshot.topology, by_subtopology, catalog, snapshot.configs)
    return GroupTasks(partitions, {**repartition.ready, **changelogs.ready}, changelogs)


def log_ends(snapshot: RebalanceSnapshot) -> EndOffsetSums:
    """The end-offset sum of every stateful task. Raises as `group_tasks`."""
    catalog = InternalTopicCatalog(snapshot.existing_internal_topics, snapshot.failures)
    changelogs = group_tasks(snapshot, catalog).changelogs
    return end_offset_sums(
        changelogs.stateful_tasks,
        changelogs.pre_existing_partitions_for,
        changelogs.pre_existing_source_based,
        EndOffsets(snapshot.changelog_end_offsets, snapshot.committed_offsets, snapshot.failures),
    )
