"""Changes the partition counts and the topology of a snapshot.

If an application has state, Kafka Streams does not allow a changed partition count of an input topic. If the
application is not reset, its internal topics have the wrong partition count, and each rebalance fails. A what-if
assumes that the application was reset, and that every remaining task kept its state. A what-if also assumes that
internal topics have the partition counts that they need. It also assumes that new partitions are empty.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from assignor.errors import InputError, KafkaError
from assignor.pipeline import GroupTasks, gather_members, make_tasks
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.recording.fields import Value
from assignor.topology.cluster import Cluster, TopicMetadata
from assignor.topology.group_topology import GroupTopology, RepartitionTopic, Subtopology
from rebalance_analysis.what_if.changes import Changes
from rebalance_analysis.what_if.group_changes import OpenGroup


def with_topics(snapshot: RebalanceSnapshot, changes: Changes) -> RebalanceSnapshot:
    """Returns a copy of the snapshot with the changed topology and partition counts. Raises InputError if a changed
    topic is not read by the topology.

    If the leader cannot make tasks from the changed topics, the internal topics stay unchanged. The rebalance then
    reports the error.
    """
    if changes.topology is not None:
        snapshot = replace(snapshot, topology=changes.topology)
    if changes.partitions:
        snapshot = _with_counts(snapshot, changes.partitions)
    try:
        repartition = _needed_tasks(snapshot)
        snapshot = _with_internal_topics(snapshot, repartition.internal_topics)
        # second pass, because internal topics that had too many partitions may now need fewer
        tasks = _needed_tasks(snapshot)
    except KafkaError:
        return snapshot
    snapshot = _with_internal_topics(snapshot, tasks.internal_topics)
    return _without_vanished_tasks(snapshot, tasks)


def _needed_tasks(snapshot: RebalanceSnapshot) -> GroupTasks:
    """Returns the tasks that the leader would create if no internal topic existed. In the returned tasks, internal
    topics have the partition counts that the user's changes need.
    """
    without_internal_topics = replace(snapshot, existing_internal_topics={}, failures=frozenset[str]())
    return make_tasks(without_internal_topics, gather_members(snapshot).versions, created={})


def _with_counts(snapshot: RebalanceSnapshot, partitions: Mapping[str, int]) -> RebalanceSnapshot:
    topology = snapshot.topology
    repartition = {topic.name for each in topology.subtopologies for topic in each.repartition_source_topics}
    sources = {topic for each in topology.subtopologies for topic in each.source_topics} - repartition
    for topic in partitions:
        if topic not in sources and topic not in repartition:
            raise InputError(_no_input(topic, sources | repartition, topology), "partitions")
    fixed = {topic: count for topic, count in partitions.items() if topic in repartition}
    outside = {topic: count for topic, count in partitions.items() if topic in sources}
    topics = {topic: _resized_or_new(snapshot.cluster.topics.get(topic), count) for topic, count in outside.items()}
    committed = {
        topic: _resized(offsets, outside[topic], None) if topic in outside else offsets
        for topic, offsets in snapshot.committed_offsets.items()
    }
    return replace(
        snapshot,
        topology=_with_fixed_counts(topology, fixed) if fixed else topology,
        cluster=snapshot.cluster.with_topics(topics),
        committed_offsets=committed,
    )


def _no_input(topic: str, inputs: Iterable[str], topology: GroupTopology) -> str:
    changelogs = {store.changelog_topic for each in topology.subtopologies for store in each.stores}
    if topic in changelogs:
        return f"{topic!r} is a changelog; it has as many partitions as its subtopology has tasks"
    return f"the topology does not read {topic!r}; it reads {', '.join(sorted(inputs))}"


def _with_fixed_counts(topology: GroupTopology, fixed: Mapping[str, int]) -> GroupTopology:
    """Sets fixed partition counts of repartition topics, as Kafka's `Repartitioned.numberOfPartitions` does."""

    def with_fixed(subtopology: Subtopology) -> Subtopology:
        topics = tuple(
            RepartitionTopic(topic.name, fixed.get(topic.name, topic.partitions))
            for topic in subtopology.repartition_source_topics
        )
        return replace(subtopology, repartition_source_topics=topics)

    return replace(topology, subtopologies=tuple(with_fixed(each) for each in topology.subtopologies))


def _with_internal_topics(snapshot: RebalanceSnapshot, needed: Mapping[str, int]) -> RebalanceSnapshot:
    """Sets the partition counts of existing internal topics. The rebalance itself creates internal topics that do not
    exist.
    """
    ends = snapshot.changelog_end_offsets
    if ends is not None:
        ends = {topic: _resized_ends(snapshot, topic, offsets, needed) for topic, offsets in ends.items()}
    return replace(
        snapshot,
        cluster=Cluster(snapshot.cluster.brokers, _resized_topics(snapshot.cluster.topics, needed)),
        existing_internal_topics=_resized_topics(snapshot.existing_internal_topics, needed),
        created_internal_topics=None
        if snapshot.created_internal_topics is None
        else _resized_topics(snapshot.created_internal_topics, needed),
        changelog_end_offsets=ends,
    )


def _resized_ends(
    snapshot: RebalanceSnapshot, topic: str, offsets: tuple[int, ...], needed: Mapping[str, int]
) -> tuple[int, ...]:
    """Returns the end offsets of a topic with its new partition count. If the recording has the offsets of too few
    partitions, returns the offsets unchanged.
    """
    existing = snapshot.existing_internal_topics.get(topic)
    if topic not in needed or existing is None or len(offsets) < existing.partitions:
        return offsets
    return _resized(offsets, needed[topic], 0)


def _resized_topics(topics: Mapping[str, TopicMetadata], needed: Mapping[str, int]) -> dict[str, TopicMetadata]:
    return {topic: _resized_or_new(known, needed.get(topic, known.partitions)) for topic, known in topics.items()}


def _resized_or_new(known: TopicMetadata | None, partitions: int) -> TopicMetadata:
    """Returns the metadata of a topic with a new partition count. The new partitions get the brokers of the old
    partitions, in round-robin order.
    """
    if known is None or known.partitions == partitions:
        return known or TopicMetadata(partitions)
    return TopicMetadata(
        partitions,
        None if known.replicas is None else _round_robin(known.replicas, partitions),
        None if known.leaders is None else _round_robin(known.leaders, partitions),
    )


def _round_robin(values: tuple[Value, ...], count: int) -> tuple[Value, ...] | None:
    return tuple(values[index % len(values)] for index in range(count)) if values else None


def _resized(values: tuple[Value, ...], count: int, new: Value) -> tuple[Value, ...]:
    return values[:count] + (new,) * (count - len(values))


def _without_vanished_tasks(snapshot: RebalanceSnapshot, tasks: GroupTasks) -> RebalanceSnapshot:
    """Removes tasks that no longer exist. Every member loses its owned partitions and its offset sums of these
    tasks.
    """
    group = OpenGroup(snapshot)
    sources = tasks.task_by_partition.keys()
    for members in group.processes().values():
        for member in members:
            owned = tuple(each for each in member.subscription.owned_partitions if each in sources)
            sums = {task: offset for task, offset in member.info.task_offset_sums.items() if task in tasks.partitions}
            if owned != member.subscription.owned_partitions:
                member = replace(member, subscription=replace(member.subscription, owned_partitions=owned))
            if len(sums) != len(member.info.task_offset_sums):
                twice = member.info.listed_twice & sums.keys()
                member = replace(member, info=replace(member.info, task_offset_sums=sums, listed_twice=twice))
            group.put(member)
    return replace(snapshot, members=group.closed())
