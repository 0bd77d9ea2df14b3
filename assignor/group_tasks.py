"""Steps 0 to 2 of a rebalance as far as nothing is placed yet: the members, the tasks, and where their changelogs end.

`assignor.pipeline` goes on from here. A what-if asks the same functions before it changes a group, so that its tasks
and changelogs are those the leader would find.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assignor.clients.client_metadata import GroupMetadata, group_metadata
from assignor.clients.end_offsets import EndOffsets, EndOffsetSums, end_offset_sums
from assignor.protocol.versions import ReceivedVersions
from assignor.snapshot import CreatedTopic, RebalanceSnapshot
from assignor.topology.changelog_topics import ChangelogTopics, prepare_changelog_topics
from assignor.topology.internal_topics import InternalTopicCatalog
from assignor.topology.partition_grouper import counted_sources
from assignor.topology.remembered_tasks import Sources, source_partitions, task_by_partition
from assignor.topology.repartition_topics import prepare_repartition_topics
from assignor.types import TaskId, TopicPartition

CreatedTopics = dict[str, CreatedTopic]
"""By name. Append-only: a rebalance that fails halfway has created its first topics all the same."""


@dataclass(frozen=True, slots=True)
class GroupTasks:
    """`partitions`: every task with its source partitions. `task_by_partition`: which task reads each of them.
    `internal_topics`: every internal topic that these tasks need, with its partition count. `sources`: what the tasks
    follow from.
    """

    partitions: Mapping[TaskId, tuple[TopicPartition, ...]]
    task_by_partition: Mapping[TopicPartition, TaskId]
    internal_topics: Mapping[str, int]
    changelogs: ChangelogTopics
    sources: Sources


def gather_members(snapshot: RebalanceSnapshot) -> GroupMetadata:
    """Step 0. Raises as `group_metadata`: DecodeError naming the member, or KafkaError."""
    subscriptions = {member_id: member.subscription for member_id, member in snapshot.members.items()}
    return group_metadata(subscriptions, snapshot.future_process_id)


def make_tasks(snapshot: RebalanceSnapshot, versions: ReceivedVersions, created: CreatedTopics) -> GroupTasks:
    """Step 1, repartition topics, and step 2 up to the changelogs. Adds the topics that it creates to `created`.

    Raises KafkaError where Kafka's leader would give up, InputError for more partitions than a group can have.
    """
    topology, configs = snapshot.topology, snapshot.configs
    catalog = InternalTopicCatalog(snapshot.existing_internal_topics, snapshot.failures, snapshot.topics_refusal)
    repartition = prepare_repartition_topics(topology, snapshot.cluster, catalog, configs)
    created.update(repartition.created)

    sources = counted_sources(topology, repartition.cluster)
    partitions = source_partitions(sources)
    versions.is_version_probing()  # raises when a future member meets one that cannot probe
    catalog = catalog.with_created(repartition.created)
    changelogs = prepare_changelog_topics(topology, _by_subtopology(partitions), catalog, configs)
    created.update(changelogs.created)
    internal_topics = {**repartition.ready, **changelogs.ready}
    return GroupTasks(partitions, task_by_partition(sources), internal_topics, changelogs, sources)


def sum_end_offsets(snapshot: RebalanceSnapshot, tasks: GroupTasks) -> EndOffsetSums:
    """Step 2: where the changelogs of every stateful task end."""
    return end_offset_sums(
        tasks.changelogs.stateful_tasks,
        tasks.changelogs.pre_existing_topics(),
        tasks.changelogs.source_topics,
        EndOffsets(snapshot.changelog_end_offsets, snapshot.committed_offsets, snapshot.failures),
    )


def _by_subtopology(tasks: Mapping[TaskId, object]) -> dict[int, list[TaskId]]:
    by_subtopology: dict[int, list[TaskId]] = {}
    for task in tasks:
        by_subtopology.setdefault(task.subtopology, []).append(task)
    return by_subtopology
