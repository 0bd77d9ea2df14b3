"""Reads and writes `input.topology` of rebalance/1. Source: `TopicsInfo`."""

from assignor.errors import InputError
from assignor.recording.fields import Fields, as_count, as_int32, as_object, as_offset, as_partitions, as_text, each_of
from assignor.topology.group_topology import (
    ChangelogConfig,
    ChangelogType,
    GroupTopology,
    RepartitionTopic,
    Subtopology,
    SubtopologyStore,
)


def as_topology(value: object, where: str) -> GroupTopology:
    fields = Fields(value, where, ("subtopologies", "copartition_groups"))
    subtopologies = fields.read("subtopologies", each_of(_as_subtopology))
    ids = [subtopology.id for subtopology in subtopologies]
    if len(set(ids)) != len(ids):
        raise InputError("two subtopologies have the same id", fields.at("subtopologies"))
    return GroupTopology(subtopologies, fields.read("copartition_groups", each_of(each_of(as_text))))


def _as_subtopology(value: object, where: str) -> Subtopology:
    fields = Fields(
        value,
        where,
        ("id", "source_topics", "repartition_source_topics", "sink_topics", "repartition_sink_topics", "stores"),
        ("java_hash_code",),
    )
    fields.read_or_none("java_hash_code", as_int32)
    return Subtopology(
        id=fields.read("id", as_count),
        source_topics=fields.texts("source_topics"),
        repartition_source_topics=fields.read("repartition_source_topics", each_of(_as_repartition_topic)),
        sink_topics=fields.texts("sink_topics"),
        repartition_sink_topics=fields.texts("repartition_sink_topics"),
        stores=fields.read("stores", each_of(_as_store)),
    )


def _as_repartition_topic(value: object, where: str) -> RepartitionTopic:
    fields = Fields(value, where, ("name",), ("partitions",))
    return RepartitionTopic(fields.text("name"), fields.read_or_none("partitions", as_partitions))


def _as_store(value: object, where: str) -> SubtopologyStore:
    fields = Fields(value, where, ("name",), ("changelog_topic", "source_topic_as_changelog", "changelog"))
    changelog_topic = fields.text_or_none("changelog_topic")
    source_topic = fields.text_or_none("source_topic_as_changelog")
    if changelog_topic is not None and source_topic is not None:
        raise InputError("give changelog_topic or source_topic_as_changelog, not both", where)
    return SubtopologyStore(
        fields.text("name"), changelog_topic, source_topic, fields.read_or_none("changelog", _as_changelog_config)
    )


def _as_changelog_config(value: object, where: str) -> ChangelogConfig:
    fields = Fields(value, where, ("type",), ("configs", "retention_ms", "min_compaction_lag_ms"))
    kind = fields.text("type")
    if kind not in set(ChangelogType):
        raise InputError(f"must be one of {', '.join(ChangelogType)}, not {kind[:80]!r}", fields.at("type"))
    return ChangelogConfig(
        type=ChangelogType(kind),
        configs={} if fields.raw("configs") is None else fields.read("configs", _as_topic_configs),
        retention_ms=fields.read_or_none("retention_ms", as_offset),
        min_compaction_lag_ms=fields.read_or_none("min_compaction_lag_ms", as_offset),
    )


def _as_topic_configs(value: object, where: str) -> dict[str, str]:
    return {as_text(key, where): as_text(text, f"{where}[{key!r}]") for key, text in as_object(value, where).items()}


def topology_document(topology: GroupTopology) -> dict[str, object]:
    return {
        "subtopologies": [_subtopology_document(subtopology) for subtopology in topology.subtopologies],
        "copartition_groups": [list(group) for group in topology.copartition_groups],
    }


def _subtopology_document(subtopology: Subtopology) -> dict[str, object]:
    return {
        "id": subtopology.id,
        "source_topics": list(subtopology.source_topics),
        "repartition_source_topics": [
            {"name": topic.name, "partitions": topic.partitions} for topic in subtopology.repartition_source_topics
        ],
        "sink_topics": list(subtopology.sink_topics),
        "repartition_sink_topics": list(subtopology.repartition_sink_topics),
        "stores": [_store_document(store) for store in subtopology.stores],
    }


def _store_document(store: SubtopologyStore) -> dict[str, object]:
    document: dict[str, object] = {
        "name": store.name,
        "changelog_topic": store.changelog_topic,
        "source_topic_as_changelog": store.source_topic_as_changelog,
    }
    if store.changelog is not None:
        changelog: dict[str, object] = {"type": str(store.changelog.type), "configs": dict(store.changelog.configs)}
        if store.changelog.retention_ms is not None:
            changelog["retention_ms"] = store.changelog.retention_ms
        if store.changelog.min_compaction_lag_ms is not None:
            changelog["min_compaction_lag_ms"] = store.changelog.min_compaction_lag_ms
        document["changelog"] = changelog
    return document
