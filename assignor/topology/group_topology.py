"""The topology of a group, as `rebalance/1` carries it and the pipeline reads it: topics and stores by subtopology, no
nodes.

Source: `TopicsInfo`, `InternalTopologyBuilder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ChangelogType(StrEnum):
    """Which of Kafka's three kinds of changelog config a topic gets."""

    UNWINDOWED = "unwindowed"
    WINDOWED = "windowed"
    VERSIONED = "versioned"


@dataclass(frozen=True, slots=True)
class ChangelogConfig:
    """How to create a changelog topic. `retention_ms`: the store's own, for a windowed one; times in milliseconds."""

    type: ChangelogType = ChangelogType.UNWINDOWED
    configs: Mapping[str, str] = field(default_factory=dict)
    retention_ms: int | None = None
    min_compaction_lag_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SubtopologyStore:
    """A store of a subtopology. At most one of the two topics is set; with neither the store is not logged."""

    name: str
    changelog_topic: str | None = None
    source_topic_as_changelog: str | None = None
    changelog: ChangelogConfig | None = None


@dataclass(frozen=True, slots=True)
class RepartitionTopic:
    """`partitions`: a fixed count that the user asked for; None for the largest count upstream."""

    name: str
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class Subtopology:
    """Connected nodes, which run together. `source_topics` include the repartition topics. All topics have their full
    names, in Kafka's order.
    """

    id: int
    source_topics: tuple[str, ...]
    repartition_source_topics: tuple[RepartitionTopic, ...] = ()
    sink_topics: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    stores: tuple[SubtopologyStore, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupTopology:
    """`copartition_groups`: topics that must have the same number of partitions."""

    subtopologies: tuple[Subtopology, ...]
    copartition_groups: tuple[tuple[str, ...], ...] = ()

    @property
    def source_topics(self) -> set[str]:
        """All topics that the topology reads, including repartition topics."""
        return {topic for each in self.subtopologies for topic in each.source_topics}

    @property
    def changelog_topics(self) -> set[str]:
        """Without source topics that serve as changelogs."""
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
