"""A parsed topology: what `rebalance/1` carries and the pipeline reads.

Source: `TopicsInfo`, `InternalTopologyBuilder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ChangelogType(StrEnum):
    UNWINDOWED = "unwindowed"
    WINDOWED = "windowed"
    VERSIONED = "versioned"


@dataclass(frozen=True, slots=True)
class ChangelogConfig:
    """How a changelog topic is to be created. `retention_ms`: the store's own, windowed only; times in milliseconds."""

    type: ChangelogType = ChangelogType.UNWINDOWED
    configs: Mapping[str, str] = field(default_factory=dict)
    retention_ms: int | None = None
    min_compaction_lag_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SubtopologyStore:
    """At most one of the two topics is set; neither means that the store is not logged."""

    name: str
    changelog_topic: str | None = None
    source_topic_as_changelog: str | None = None
    changelog: ChangelogConfig | None = None


@dataclass(frozen=True, slots=True)
class RepartitionTopic:
    """`partitions`: a fixed count asked for by the user, None to take the maximum over upstream topics."""

    name: str
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class Subtopology:
    """Connected nodes, run together. `source_topics` include the repartition topics, full names, in Kafka's order."""

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
