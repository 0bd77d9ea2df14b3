"""Reads and writes `input.topology` of rebalance/1. Source: `TopicsInfo`."""

import re
from typing import Any

from assignor.errors import InputError
from assignor.recording.documents import document_of
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
    fields = Fields(value, where, ("subtopologies", "copartition_groups"), ("dead_letter_topic",))
    subtopologies = fields.read("subtopologies", each_of(_as_subtopology))
    ids = [subtopology.id for subtopology in subtopologies]
    if len(set(ids)) != len(ids):
        raise InputError("two subtopologies have the same id", fields.at("subtopologies"))
    copartition_groups = fields.read("copartition_groups", each_of(each_of(as_text)))
    return GroupTopology(subtopologies, copartition_groups, fields.text_or_none("dead_letter_topic"))


def _as_subtopology(value: object, where: str) -> Subtopology:
    fields = Fields(
        value,
        where,
        ("id", "source_topics", "repartition_source_topics", "sink_topics", "repartition_sink_topics", "stores"),
        ("java_hash_code", "source_patterns"),
    )
    fields.read_or_none("java_hash_code", as_int32)
    return Subtopology(
        id=fields.read("id", as_count),
        source_topics=fields.texts("source_topics"),
        repartition_source_topics=fields.read("repartition_source_topics", each_of(_as_repartition_topic)),
        sink_topics=fields.texts("sink_topics"),
        repartition_sink_topics=fields.texts("repartition_sink_topics"),
        stores=fields.read("stores", each_of(_as_store)),
        source_patterns=fields.read_or_none("source_patterns", each_of(_as_pattern)) or (),
    )


def _as_pattern(value: object, where: str) -> str:
    pattern = as_text(value, where)
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InputError(f"is not a regular expression of Python: {error}", where) from None
    return pattern


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
        configs={} if fields.raw("configs") is None else fields.read("configs", as_topic_configs),
        retention_ms=fields.read_or_none("retention_ms", as_offset),
        min_compaction_lag_ms=fields.read_or_none("min_compaction_lag_ms", as_offset),
    )


def as_topic_configs(value: object, where: str) -> dict[str, str]:
    return {as_text(key, where): as_text(text, f"{where}[{key!r}]") for key, text in as_object(value, where).items()}


def topology_document(topology: GroupTopology) -> dict[str, object]:
    document: dict[str, Any] = document_of(topology)
    if topology.dead_letter_topic is None:
        del document["dead_letter_topic"]
    for subtopology in document["subtopologies"]:
        if not subtopology["source_patterns"]:
            del subtopology["source_patterns"]
        for store in subtopology["stores"]:
            changelog = store.pop("changelog")
            if changelog is not None:
                store["changelog"] = {name: value for name, value in changelog.items() if value is not None}
    return document
