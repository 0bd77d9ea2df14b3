"""Java's hash code of a subtopology, and the orders in which Java's hash maps walk subtopologies.

Partition counts of chained repartition topics and the order of tasks follow these walks, so they are part of the
behaviour. Source: `InternalTopologyBuilder.TopicsInfo.hashCode`, `TopologyMetadata.Subtopology.hashCode`, and
`hashCode` of the `*ChangelogTopicConfig` classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assignor.java.order import JavaHashMap, hash_set_order, int32, int64, string_hash
from assignor.topology.group_topology import ChangelogConfig, ChangelogType, Subtopology

_FALSE_HASH = 1237  # Boolean.FALSE; a changelog never has an enforced partition count
_LONG_MASK = 2**64 - 1
_REMAINDER = 0xFFFFFFFF


def changelog_configs(subtopology: Subtopology) -> dict[str, ChangelogConfig]:
    """Every changelog of the subtopology by topic, including source topics that serve as one."""
    changelogs: dict[str, ChangelogConfig] = {}
    for store in subtopology.stores:
        topic = store.changelog_topic or store.source_topic_as_changelog
        if topic is not None:
            changelogs.setdefault(topic, store.changelog or ChangelogConfig())
    return changelogs


def changelogs_walk(changelogs: Mapping[str, ChangelogConfig]) -> list[str]:
    """The topics in the order of `TopicsInfo.nonSourceChangelogTopics`: a `HashSet` of their configs."""
    by_name = hash_set_order(changelogs, string_hash)
    return hash_set_order(by_name, lambda topic: _changelog_hash(topic, changelogs[topic]))


def java_hash_code(subtopology: Subtopology) -> int:
    """`TopicsInfo.hashCode()` as int32: source topics in the high half, changelog configs in the low one."""
    sources = sum(string_hash(topic) for topic in set(subtopology.source_topics))
    changelogs = sum(
        string_hash(topic) ^ _changelog_hash(topic, config) for topic, config in changelog_configs(subtopology).items()
    )
    # a negative low half has all high bits set, which wipes out the high half; Java's remainder keeps the sign
    packed = int64((int32(sources) << 32) | int32(changelogs))
    remainder = abs(packed) % _REMAINDER
    return int32(remainder if packed >= 0 else -remainder)


def subtopology_walk(subtopologies: Iterable[Subtopology]) -> list[Subtopology]:
    """In the order of a `HashSet<TopicsInfo>`, in which `RepartitionTopics` walks them.

    Of subtopologies with the same sources and changelogs the set holds only the first; sinks do not make a difference.
    """
    distinct: dict[object, Subtopology] = {}
    for subtopology in subtopologies:
        distinct.setdefault(_equality_key(subtopology), subtopology)
    by_index = list(distinct.values())
    hashes = [java_hash_code(subtopology) for subtopology in by_index]
    return [by_index[index] for index in hash_set_order(range(len(by_index)), hashes.__getitem__)]


def topic_groups_walk(subtopologies: Iterable[Subtopology]) -> list[Subtopology]:
    """In the order of `TopologyMetadata.subtopologyTopicsInfoMapExcluding`: a `HashMap<Subtopology, ..>` that `putAll`
    has sized in advance.
    """
    by_id = {subtopology.id: subtopology for subtopology in subtopologies}
    return list(JavaHashMap.copy_of(by_id, _subtopology_key_hash).values())


def source_topics_walk(subtopologies: Iterable[Subtopology]) -> list[Subtopology]:
    """In the order of `sourceTopicsByGroup`: a `HashMap<Subtopology, ..>` filled one by one from the map above."""
    by_id = {subtopology.id: subtopology for subtopology in topic_groups_walk(subtopologies)}
    return [by_id[subtopology_id] for subtopology_id in hash_set_order(by_id, _subtopology_key_hash)]


def _equality_key(subtopology: Subtopology) -> object:
    """Equal when `TopicsInfo.equals` is true."""
    changelogs = {
        (topic, config.type, frozenset(config.configs.items()), _own_time_ms(config))
        for topic, config in changelog_configs(subtopology).items()
    }
    return frozenset(subtopology.source_topics), frozenset(changelogs)


def _own_time_ms(config: ChangelogConfig) -> int | None:
    """The one time that this type of changelog has; None for a type without."""
    if config.type is ChangelogType.WINDOWED:
        return config.retention_ms or 0
    return (config.min_compaction_lag_ms or 0) if config.type is ChangelogType.VERSIONED else None


def _subtopology_key_hash(subtopology_id: int) -> int:
    return int32((31 + subtopology_id) * 31)


def _changelog_hash(topic: str, config: ChangelogConfig) -> int:
    fields = [string_hash(topic), _map_hash(config.configs)]
    own_time_ms = _own_time_ms(config)
    if own_time_ms is not None:
        fields.append(_long_hash(own_time_ms))
    fields.append(_FALSE_HASH)
    value = 1
    for field in fields:
        value = int32(31 * value + field)
    return value


def _map_hash(entries: Mapping[str, str]) -> int:
    return int32(sum(string_hash(key) ^ string_hash(value) for key, value in entries.items()))


def _long_hash(value: int) -> int:
    unsigned = value & _LONG_MASK
    return int32(unsigned ^ (unsigned >> 32))
