"""Computes the partition counts and the configs of internal topics (repartition topics and changelogs), and lists the
topics to create.

Step 1 computes the partition counts of repartition topics. If a repartition topic has no fixed count, its count comes
from the subtopologies that write the topic. The count is the largest partition count of all topics that these
subtopologies read. The source topics of a subtopology may be repartition topics too. So the loop over all repartition
topics repeats until all counts are known. Each step of this loop uses the partition counts that are already known at
this step. So the counts of chained topics depend on the order of the loop, which is Java's hash order.

After the counts are known, all topics of a co-partitioned group get the same count. If a co-partitioned group has only
repartition topics, their common count is the user's fixed count, or else the largest count. If a co-partitioned group
has a topic that is not a repartition topic, the repartition topics get the count of this topic.

Step 2 finds the changelogs of stateful tasks. A task is stateful if its subtopology has a changelog. If a source topic
serves as changelog, the tasks of its subtopology are stateful. A store without changelog does not make tasks stateful.
If this rebalance creates a changelog, the changelog has no offsets yet, so its offsets are not looked up.

An internal topic has the configs of Kafka Streams. The application's `topic.` configs override the configs of Kafka
Streams. The store's configs override the configs of Kafka Streams and of the application. The retention of a windowed
changelog and the compaction lag of a versioned changelog are computed. Only the store's configs override the computed
values. An existing internal topic must have exactly the computed partition count.

Source: `RepartitionTopics`, `CopartitionedTopicsEnforcer`, `ChangelogTopics`, `InternalTopicManager.makeReady`,
`RepartitionTopicConfig`, `UnwindowedUnversionedChangelogTopicConfig`, `WindowedChangelogTopicConfig`,
`VersionedChangelogTopicConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from assignor.configs import AssignmentConfigs
from assignor.errors import (
    BrokersRefusal,
    IllegalArgumentError,
    IllegalStateError,
    MissingSourceTopicError,
    StreamsError,
    TaskAssignmentError,
    TopologyError,
)
from assignor.java.hash_codes import hash_of_fields, int16, string_hash, string_map_hash
from assignor.java.order import hash_set_copy_order, hash_set_order
from assignor.topology.cluster import Cluster, TopicMetadata
from assignor.topology.group_topology import (
    ChangelogConfig,
    ChangelogType,
    GroupTopology,
    Subtopology,
    changelog_configs,
    changelogs_walk,
    subtopology_walk,
    topic_groups_walk,
)
from assignor.topology.partition_grouper import ChangelogPartitions, check_group_size, task_map_order
from assignor.types import JAVA_LONG_MAX, TaskId, TopicPartition, utf16_order

CLEANUP_POLICY = "cleanup.policy"
MESSAGE_TIMESTAMP_TYPE = "message.timestamp.type"
MIN_COMPACTION_LAG_MS = "min.compaction.lag.ms"
RETENTION_MS = "retention.ms"
SEGMENT_BYTES = "segment.bytes"

VERSIONED_ADDITIONAL_COMPACTION_LAG_MS = 24 * 60 * 60 * 1000

DESCRIBE_TOPICS_FAILURE = "describe_topics"
CREATE_TOPICS_FAILURE = "create_topics"

_REPARTITION_DEFAULTS = {CLEANUP_POLICY: "delete", SEGMENT_BYTES: str(50 * 1024 * 1024), RETENTION_MS: "-1"}
_CHANGELOG_CLEANUP = {
    ChangelogType.UNWINDOWED: "compact",
    ChangelogType.WINDOWED: "compact,delete",
    ChangelogType.VERSIONED: "compact",
}


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """An internal topic that this rebalance creates."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic that has to exist. `changelog`: the configs of a changelog; None for a repartition topic.

    `partitions`: the number of partitions; None as long as it is unknown. `fixed_partitions`: True if the user has
    fixed the number of partitions. Raises IllegalArgumentError if `partitions` is below 1.
    """

    name: str
    partitions: int | None = None
    fixed_partitions: bool = False
    changelog: ChangelogConfig | None = None

    def __post_init__(self) -> None:
        if self.partitions is not None and self.partitions < 1:
            raise IllegalArgumentError("Number of partitions must be at least 1.", f"{self.name} has {self.partitions}")

    def with_partitions(self, partitions: int) -> InternalTopic:
        """Returns the topic with this partition count, or the unchanged topic if its count is fixed."""
        return self if self.fixed_partitions else replace(self, partitions=partitions)

    def configs(self, configs: AssignmentConfigs) -> dict[str, str]:
        """Returns all configs with which the topic is created, sorted by key."""
        values = {MESSAGE_TIMESTAMP_TYPE: "CreateTime"}
        if self.changelog is None:
            values |= {**_REPARTITION_DEFAULTS, **configs.topic_configs}
        else:
            values[CLEANUP_POLICY] = _CHANGELOG_CLEANUP[self.changelog.type]
            values |= {**configs.topic_configs, **self.changelog.configs, **_computed(self.changelog, configs)}
        return dict(sorted(values.items()))


def _computed(changelog: ChangelogConfig, configs: AssignmentConfigs) -> dict[str, str]:
    if changelog.type is ChangelogType.WINDOWED and RETENTION_MS not in changelog.configs:
        retention_ms = (changelog.retention_ms or 0) + configs.window_store_additional_retention_ms
        return {RETENTION_MS: str(min(retention_ms, JAVA_LONG_MAX))}
    if changelog.type is ChangelogType.VERSIONED and MIN_COMPACTION_LAG_MS not in changelog.configs:
        lag_ms = (changelog.min_compaction_lag_ms or 0) + VERSIONED_ADDITIONAL_COMPACTION_LAG_MS
        return {MIN_COMPACTION_LAG_MS: str(min(lag_ms, JAVA_LONG_MAX))}
    return {}


@dataclass(frozen=True, slots=True)
class InternalTopicCatalog:
    """The internal topics that existed before this rebalance. `failures`: the names of the failed look-ups, as in
    `failures` of rebalance/1.

    `refusal`: the brokers' error for a failed call about topics, as `"SimpleName: message"`; None if the error is
    unknown.
    """

    existing: Mapping[str, TopicMetadata] = field(default_factory=dict)
    failures: frozenset[str] = frozenset()
    refusal: str | None = None

    def with_created(self, created: Mapping[str, CreatedTopic]) -> InternalTopicCatalog:
        """Returns a catalog in which the topics of `created` also exist."""
        existing = {name: TopicMetadata(topic.partitions) for name, topic in created.items()}
        return replace(self, existing={**self.existing, **existing})


@dataclass(frozen=True, slots=True)
class ReadyTopics:
    """The result of `make_ready`. `created`: the topics to create. `ready`: all requested topics with their partition
    counts.
    """

    created: Mapping[str, CreatedTopic] = field(default_factory=dict)
    ready: Mapping[str, int] = field(default_factory=dict)


def make_ready(
    topics: Mapping[str, InternalTopic], catalog: InternalTopicCatalog, configs: AssignmentConfigs
) -> ReadyTopics:
    """Checks the requested topics that already exist. Returns the topics to create: the requested topics that do not
    exist. Raises StreamsError if an existing topic does not have its computed partition count, or if a topic has no
    computed count. Also raises StreamsError if a call to the brokers failed. Differs from Kafka: a failed call is not
    repeated, while Kafka repeats it until a timeout.
    """
    in_kafkas_maps = hash_set_order(hash_set_order(topics, string_hash), string_hash)
    walk = hash_set_copy_order(in_kafkas_maps, string_hash)
    if walk and DESCRIBE_TOPICS_FAILURE in catalog.failures:
        raise _could_not_create(walk[0], "describe", catalog.refusal)
    missing: dict[str, CreatedTopic] = {}
    ready: dict[str, int] = {}
    for name in walk:
        topic = topics[name]
        if topic.partitions is None:
            raise StreamsError(f"Topic {name} number of partitions not defined")
        existing = catalog.existing.get(name)
        if existing is None:
            missing[name] = CreatedTopic(topic.partitions, int16(configs.replication_factor), topic.configs(configs))
        elif existing.partitions != topic.partitions:
            raise StreamsError(
                f"Existing internal topic {name} has invalid partitions: expected: {topic.partitions}; "
                f"actual: {existing.partitions}. "
                "Use 'org.apache.kafka.tools.StreamsResetter' tool to clean up invalid topics before processing."
            )
        ready[name] = topic.partitions
    if missing and CREATE_TOPICS_FAILURE in catalog.failures:
        raise _could_not_create(_first_asked_for(missing), "create", catalog.refusal)
    return ReadyTopics(missing, ready)


def _first_asked_for(missing: Mapping[str, CreatedTopic]) -> str:
    """Returns the topic that Kafka's error names. Kafka passes a `HashSet<NewTopic>` to its admin client, and checks
    the results in the order of a HashMap.
    """
    not_created = hash_set_order(missing, string_hash)
    asked_for = hash_set_order(not_created, lambda name: _new_topic_hash(name, missing[name]))
    return hash_set_order(asked_for, string_hash)[0]


def _new_topic_hash(name: str, topic: CreatedTopic) -> int:
    """Source: `NewTopic.hashCode`. The hash code of the fourth field is 0, because this field of a NewTopic (the
    replicas by partition) is null.
    """
    configs = string_map_hash(topic.configs)
    return hash_of_fields(string_hash(name), topic.partitions, topic.replication_factor, 0, configs)


def _could_not_create(topic: str, call: str, refusal: str | None) -> StreamsError:
    """Returns Kafka's error, which has the same text for a failed description and a failed creation. The cause of the
    returned error is the brokers' error.
    """
    message = f"Could not create topic {topic}."
    if refusal is None:
        return StreamsError(message, f"the brokers refused to {call} it, and what they answered is not in the input")
    error = StreamsError(message, f"the brokers refused to {call} it: {refusal}")
    error.__cause__ = BrokersRefusal(refusal)
    return error


@dataclass(frozen=True, slots=True)
class RepartitionTopics:
    """The result of step 1, which prepares the repartition topics. `cluster`: the cluster with the repartition topics
    added. `ready`: the partition counts of the repartition topics.
    """

    cluster: Cluster
    created: Mapping[str, CreatedTopic] = field(default_factory=dict)
    ready: Mapping[str, int] = field(default_factory=dict)


def prepare_repartition_topics(
    topology: GroupTopology, cluster: Cluster, catalog: InternalTopicCatalog, configs: AssignmentConfigs
) -> RepartitionTopics:
    """Computes the partition counts of the repartition topics, checks the topics, and returns the topics to create.

    Raises MissingSourceTopicError if the cluster lacks a source topic, and TaskAssignmentError if a count cannot be
    computed. Raises TopologyError if topics are not co-partitioned, but should be. Raises StreamsError as `make_ready`
    does. As in Kafka, co-partitioning is checked only if there are repartition topics.
    """
    missing = missing_source_topics(topology, cluster)
    if missing:
        raise MissingSourceTopicError(f"Missing source topics. [{', '.join(missing)}]")
    topics = _with_partition_counts(topology.subtopologies, cluster)
    if not topics:
        return RepartitionTopics(cluster)
    for group in topology.copartition_groups:
        topics |= enforce_copartitioning(group, topics, cluster, configs.log_prefix)
    ready = make_ready(topics, catalog, configs)
    # Kafka adds partitions to the metadata of a known topic, but removes no partition
    counts = {name: max(partitions, cluster.partition_count(name) or 0) for name, partitions in ready.ready.items()}
    full_cluster = cluster.with_topics({name: TopicMetadata(partitions) for name, partitions in counts.items()})
    return RepartitionTopics(full_cluster, ready.created, ready.ready)


def missing_source_topics(topology: GroupTopology, cluster: Cluster) -> tuple[str, ...]:
    """Returns the sorted source topics that the cluster lacks. Repartition topics are not included."""
    missing: set[str] = set()
    for subtopology in topology.subtopologies:
        repartition = {topic.name for topic in subtopology.repartition_source_topics}
        missing.update(
            topic for topic in subtopology.source_topics if topic not in repartition and topic not in cluster.topics
        )
    return tuple(sorted(missing, key=utf16_order))


def _with_partition_counts(subtopologies: Sequence[Subtopology], cluster: Cluster) -> dict[str, InternalTopic]:
    counts = {
        topic.name: topic.partitions for subtopology in subtopologies for topic in subtopology.repartition_source_topics
    }
    if not counts:
        return {}
    topics = {  # the topics are in Kafka's order, which determines the topic that an error names
        name: InternalTopic(name, counts[name], fixed_partitions=counts[name] is not None)
        for subtopology in subtopologies
        for name in _repartition_walk(subtopology)
    }
    walk = subtopology_walk(subtopologies)
    writers: dict[str, list[Subtopology]] = {}
    for subtopology in walk:
        for sink in dict.fromkeys(subtopology.sink_topics):
            writers.setdefault(sink, []).append(subtopology)
    needed = dict.fromkeys(name for subtopology in walk for name in _repartition_walk(subtopology))
    waiting = [name for name in needed if topics[name].partitions is None]
    while waiting:
        unknown: list[str] = []
        for name in waiting:
            partitions = _largest_known_count(writers.get(name, ()), topics, cluster)
            if partitions is None:
                unknown.append(name)
            else:
                topics[name] = topics[name].with_partitions(partitions)
        if len(unknown) == len(waiting):
            raise TaskAssignmentError(
                "Failed to compute number of partitions for all repartition topics, make sure all user input topics "
                "are created and all Pattern subscriptions match at least one topic in the cluster",
                f"no known count leads to [{', '.join(unknown)}]",
            )
        waiting = unknown
    return topics


def _repartition_walk(subtopology: Subtopology) -> list[str]:
    return hash_set_order((topic.name for topic in subtopology.repartition_source_topics), string_hash)


def _largest_known_count(
    writers: Sequence[Subtopology], topics: Mapping[str, InternalTopic], cluster: Cluster
) -> int | None:
    largest: int | None = None
    for source in (source for writer in writers for source in writer.source_topics):
        repartition_topic = topics.get(source)
        if repartition_topic is None:
            count = cluster.partition_count(source)
            if count is None:
                raise TaskAssignmentError(
                    f"No partition count found for source topic {source}, but it should have been."
                )
        else:
            count = repartition_topic.partitions
        if count is not None and (largest is None or count > largest):
            largest = count
    return largest


def enforce_copartitioning(
    group: Sequence[str], repartition_topics: Mapping[str, InternalTopic], cluster: Cluster, log_prefix: str
) -> dict[str, InternalTopic]:
    """Returns the repartition topics of `group` with the partition count of the group. `log_prefix`: the prefix of
    messages.

    Raises TopologyError if the partition counts of other topics in the group differ, or if fixed counts differ. Raises
    IllegalStateError for a topic that is neither a repartition topic nor in the cluster.
    """
    walk = hash_set_order(group, string_hash)
    inside = [repartition_topics[topic] for topic in walk if topic in repartition_topics]
    outside = {topic: _partition_count(topic, cluster, log_prefix) for topic in walk if topic not in repartition_topics}
    if not inside and not outside:
        return {}
    partitions = _same_partitions(outside, log_prefix) if outside else _partitions_among(inside, log_prefix)
    coerced = {topic.name: topic.with_partitions(partitions) for topic in inside}
    for topic in coerced.values():
        if topic.partitions != partitions:
            raise TopologyError(
                f"Invalid topology: {log_prefix}Number of partitions [{topic.partitions}] of repartition topic "
                f"[{topic.name}] doesn't match number of partitions [{partitions}] of the source topic."
            )
    return coerced


def _partition_count(topic: str, cluster: Cluster, log_prefix: str) -> int:
    count = cluster.partition_count(topic)
    if count is None:
        raise IllegalStateError(f"{log_prefix}Topic not found: {topic}")
    return count


def _same_partitions(outside: Mapping[str, int], log_prefix: str) -> int:
    if len(set(outside.values())) > 1:
        raise TopologyError(f"Invalid topology: {log_prefix}Topics not co-partitioned: [{_as_text(outside)}]")
    return next(iter(outside.values()))


def _partitions_among(inside: Sequence[InternalTopic], log_prefix: str) -> int:
    counts = {topic.name: topic.partitions for topic in inside if topic.partitions is not None}
    fixed = {topic.name: topic.partitions for topic in inside if topic.fixed_partitions}
    if len(set(fixed.values())) > 1:
        raise TopologyError(
            f"Invalid topology: {log_prefix}Following topics do not have the same number of partitions: "
            f"[{_as_text(counts)}]"
        )
    for partitions in fixed.values():
        if partitions is not None:
            return partitions
    if not counts:
        names = ", ".join(topic.name for topic in inside)
        raise IllegalStateError(f"{log_prefix}Could not validate the copartitioning of topics: [{names}]")
    return max(counts.values())


def _as_text(counts: Mapping[str, int]) -> str:
    """Returns the text of a Java `TreeMap` with these entries."""
    ordered = sorted(counts.items(), key=lambda item: utf16_order(item[0]))
    return "{" + ", ".join(f"{topic}={count}" for topic, count in ordered) + "}"


@dataclass(frozen=True, slots=True)
class ChangelogTopics:
    """The changelogs of a group. `stateful_tasks`: the stateful tasks, in the order of Kafka's `HashMap<TaskId, ..>`.
    `topics`: the changelogs of each subtopology that has changelogs. `changelog_partitions`: the changelog partitions
    of each stateful task. Both have the order of `changelog_configs`.

    `source_topics`: the source topics that serve as changelogs. `ready`: the partition counts of all existing
    changelogs and of all changelogs to create, except source topics.
    """

    stateful_tasks: tuple[TaskId, ...] = ()
    topics: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    changelog_partitions: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    source_topics: frozenset[str] = frozenset()
    created: Mapping[str, CreatedTopic] = field(default_factory=dict)
    ready: Mapping[str, int] = field(default_factory=dict)

    def pre_existing_topics(self) -> Mapping[int, tuple[str, ...]]:
        """Returns `topics` without the topics that this rebalance creates."""
        if not self.created:
            return self.topics
        return {
            subtopology: tuple([topic for topic in topics if topic not in self.created])
            for subtopology, topics in self.topics.items()
        }


def prepare_changelog_topics(
    topology: GroupTopology,
    tasks_by_subtopology: Mapping[int, Sequence[TaskId]],
    catalog: InternalTopicCatalog,
    configs: AssignmentConfigs,
) -> ChangelogTopics:
    """Finds and checks the changelogs, and returns the changelogs to create. `tasks_by_subtopology`: the tasks of each
    subtopology, by subtopology id, in Kafka's order. A subtopology without tasks needs no topics.

    Raises StreamsError as `make_ready` does, and InputError for more partitions than a group can have.
    """
    partition_count = 0
    to_make_ready: dict[str, InternalTopic] = {}
    source_based: set[str] = set()
    topics: dict[int, tuple[str, ...]] = {}
    stateful: dict[int, tuple[TaskId, ...]] = {}
    for subtopology in topic_groups_walk(topology.subtopologies):
        tasks = tasks_by_subtopology.get(subtopology.id, ())
        changelogs = changelog_configs(subtopology)
        if not tasks or not changelogs:
            continue
        names = tuple(changelogs)
        partition_count += len(names) * len(tasks)
        check_group_size(partition_count, "changelog")
        topics[subtopology.id] = names
        stateful[subtopology.id] = task_map_order(tuple(tasks))
        count = max(tasks)[1] + 1
        sources = changelogs.keys() & set(subtopology.source_topics)
        source_based |= sources
        created_here = {name: config for name, config in changelogs.items() if name not in sources}
        for name in changelogs_walk(created_here):
            to_make_ready[name] = InternalTopic(name, count, changelog=created_here[name])
    ready = make_ready(to_make_ready, catalog, configs)
    return ChangelogTopics(
        stateful_tasks=task_map_order(tuple(chain.from_iterable(stateful.values()))),
        topics=topics,
        changelog_partitions=ChangelogPartitions(stateful, topics),
        source_topics=frozenset(source_based),
        created=ready.created,
        ready=ready.ready,
    )
