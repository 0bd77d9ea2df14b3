"""The topology of a group in `rebalance/1` and in the pipeline: the topics and stores of each subtopology, without
nodes.

Kafka's leader stores subtopologies in hash maps, and iterates over them in the maps' order. The order of the
subtopologies determines the order of tasks, and the partition counts of chained repartition topics. So Java's hash code
of a subtopology is part of Kafka's behaviour. Source: `InternalTopologyBuilder.TopicsInfo`,
`TopologyMetadata.Subtopology`, and `hashCode` of the `*ChangelogTopicConfig` classes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from assignor.java.hash_codes import (
    hash_of_fields,
    int32,
    int64,
    long_hash,
    string_hash,
    string_map_hash,
    subtopology_hash,
)
from assignor.java.order import hash_map_copy_order, hash_set_order


class ChangelogType(StrEnum):
    """Kafka's three kinds of changelog configs."""

    UNWINDOWED = "unwindowed"
    WINDOWED = "windowed"
    VERSIONED = "versioned"


@dataclass(frozen=True, slots=True)
class ChangelogConfig:
    """The configs with which a changelog topic is created. `retention_ms`: the retention of a windowed store. Times are
    in milliseconds.
    """

    type: ChangelogType = ChangelogType.UNWINDOWED
    configs: Mapping[str, str] = field(default_factory=dict)
    retention_ms: int | None = None
    min_compaction_lag_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SubtopologyStore:
    """A store of a subtopology. At most one of `changelog_topic` and `source_topic_as_changelog` is set. A store with
    neither topic has no changelog.
    """

    name: str
    changelog_topic: str | None = None
    source_topic_as_changelog: str | None = None
    changelog: ChangelogConfig | None = None


@dataclass(frozen=True, slots=True)
class RepartitionTopic:
    """A repartition topic. `partitions`: the user's fixed count; None for the largest count of the topics upstream."""

    name: str
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A subtopology. `source_topics` include the repartition topics. All topics of a subtopology have their full names,
    in Kafka's order. `source_patterns`: the patterns whose matches the subtopology also reads; empty after the patterns
    were expanded (see `source_patterns.expanded`).
    """

    id: int
    source_topics: tuple[str, ...]
    repartition_source_topics: tuple[RepartitionTopic, ...] = ()
    sink_topics: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    stores: tuple[SubtopologyStore, ...] = ()
    source_patterns: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The source topics and the patterns."""
        return (*self.source_topics, *self.source_patterns)


@dataclass(frozen=True, slots=True)
class GroupTopology:
    """The topology of a group. `copartition_groups`: groups of topics that must have the same number of partitions. The
    text of a pattern stands for all topics that match the pattern. `dead_letter_topic`: the topic to which any
    subtopology writes records that it cannot process; None if it is not known. It has no effect on assignments.
    """

    subtopologies: tuple[Subtopology, ...]
    copartition_groups: tuple[tuple[str, ...], ...] = ()
    dead_letter_topic: str | None = None

    @property
    def source_topics(self) -> set[str]:
        """All topics that the topology reads, including repartition topics."""
        return {topic for each in self.subtopologies for topic in each.source_topics}

    @property
    def written_topics(self) -> tuple[str, ...]:
        """The topics that the topology writes, except changelogs and repartition topics."""
        dead_letters = () if self.dead_letter_topic is None else (self.dead_letter_topic,)
        return tuple(
            dict.fromkeys((*(topic for each in self.subtopologies for topic in each.sink_topics), *dead_letters))
        )

    @property
    def source_patterns(self) -> tuple[str, ...]:
        return tuple(pattern for each in self.subtopologies for pattern in each.source_patterns)

    @property
    def changelog_topics(self) -> set[str]:
        """The changelog topics, except source topics that serve as changelogs."""
        return {store.changelog_topic for each in self.subtopologies for store in each.stores if store.changelog_topic}

    @property
    def internal_topics(self) -> set[str]:
        """The changelog and repartition topics."""
        repartition = {topic.name for each in self.subtopologies for topic in each.repartition_source_topics}
        return self.changelog_topics | repartition

    @property
    def source_topics_as_changelogs(self) -> set[str]:
        return {
            store.source_topic_as_changelog
            for each in self.subtopologies
            for store in each.stores
            if store.source_topic_as_changelog
        }


_FALSE_HASH = 1237  # the hash code of Boolean.FALSE, because a changelog never has an enforced partition count
_REMAINDER = 0xFFFFFFFF


def changelog_configs(subtopology: Subtopology) -> dict[str, ChangelogConfig]:
    """Returns every changelog topic of the subtopology with its configs, including source topics that serve as
    changelogs. The topics are in the order of `TopicsInfo.stateChangelogTopics`, a `HashMap`.
    """
    changelogs: dict[str, ChangelogConfig] = {}
    for store in subtopology.stores:
        topic = store.changelog_topic or store.source_topic_as_changelog
        if topic is not None:
            changelogs.setdefault(topic, store.changelog or ChangelogConfig())
    return {topic: changelogs[topic] for topic in hash_set_order(changelogs, string_hash)}


def changelogs_walk(changelogs: Mapping[str, ChangelogConfig]) -> list[str]:
    """Returns the topics in the order of `TopicsInfo.nonSourceChangelogTopics`, a `HashSet` of the configs of changelog
    topics. `changelogs`: in the order of `changelog_configs`.
    """
    return hash_set_order(changelogs, lambda topic: _changelog_hash(topic, changelogs[topic]))


def java_hash_code(subtopology: Subtopology) -> int:
    """Returns `TopicsInfo.hashCode()` as int32. Java packs two hashes into a long. The high half is the hash of the
    source topics, and the low half is the hash of the changelog configs. `TopicsInfo.hashCode()` is the remainder of
    this long divided by `2**32-1`.
    """
    sources = sum(string_hash(topic) for topic in set(subtopology.source_topics))
    changelogs = sum(
        string_hash(topic) ^ _changelog_hash(topic, config) for topic, config in changelog_configs(subtopology).items()
    )
    # A negative low half is sign-extended, so its sign bits overwrite the high half. In Java, a remainder has the sign
    # of the dividend.
    packed = int64((int32(sources) << 32) | int32(changelogs))
    remainder = abs(packed) % _REMAINDER
    return int32(remainder if packed >= 0 else -remainder)


def subtopology_walk(subtopologies: Iterable[Subtopology]) -> list[Subtopology]:
    """Returns the subtopologies in the order of a `HashSet<TopicsInfo>`, over which `RepartitionTopics` iterates.

    If several subtopologies have the same sources and changelogs, the set contains only the first of them, even if
    their sinks differ.
    """
    distinct: dict[object, Subtopology] = {}
    for subtopology in subtopologies:
        distinct.setdefault(_equality_key(subtopology), subtopology)
    by_index = list(distinct.values())
    hashes = [java_hash_code(subtopology) for subtopology in by_index]
    return [by_index[index] for index in hash_set_order(range(len(by_index)), hashes.__getitem__)]


def topic_groups_walk(subtopologies: Iterable[Subtopology]) -> list[Subtopology]:
    """Returns the subtopologies in the order of `TopologyMetadata.subtopologyTopicsInfoMapExcluding`: a
    `HashMap<Subtopology, ..>` whose capacity `putAll` computed in advance.
    """
    by_id = {subtopology.id: subtopology for subtopology in subtopologies}
    return [by_id[subtopology_id] for subtopology_id in hash_map_copy_order(by_id, subtopology_hash)]


def source_topics_walk(subtopologies: Iterable[Subtopology]) -> list[Subtopology]:
    """Returns the subtopologies in the order of `sourceTopicsByGroup`, a `HashMap<Subtopology, ..>`. Kafka adds the
    subtopologies to this map one by one, in the order of `topic_groups_walk`.
    """
    by_id = {subtopology.id: subtopology for subtopology in topic_groups_walk(subtopologies)}
    return [by_id[subtopology_id] for subtopology_id in hash_set_order(by_id, subtopology_hash)]


def _equality_key(subtopology: Subtopology) -> object:
    """Returns a key of the subtopology. Two keys are equal if `TopicsInfo.equals` is true for their subtopologies."""
    changelogs = {
        (topic, config.type, frozenset(config.configs.items()), _own_time_ms(config))
        for topic, config in changelog_configs(subtopology).items()
    }
    return frozenset(subtopology.source_topics), frozenset(changelogs)


def _own_time_ms(config: ChangelogConfig) -> int | None:
    """Returns the retention of a windowed changelog, or the compaction lag of a versioned changelog; None for other
    types.
    """
    if config.type is ChangelogType.WINDOWED:
        return config.retention_ms or 0
    return (config.min_compaction_lag_ms or 0) if config.type is ChangelogType.VERSIONED else None


def _changelog_hash(topic: str, config: ChangelogConfig) -> int:
    own_time_ms = _own_time_ms(config)
    own_times = () if own_time_ms is None else (long_hash(own_time_ms),)
    return hash_of_fields(string_hash(topic), string_map_hash(config.configs), *own_times, _FALSE_HASH)
