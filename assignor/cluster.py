"""What the leader knows of the Kafka cluster: brokers, racks, topics and their partitions. Source: `Cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Broker:
    id: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """`replicas[p]` are the broker ids of partition p, `leaders[p]` its leader; None when not known."""

    partitions: int
    replicas: tuple[tuple[int, ...], ...] | None = None
    leaders: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    brokers: tuple[Broker, ...]
    topics: Mapping[str, TopicMetadata]

    def partition_count(self, topic: str) -> int | None:
        """None when the topic is not in the metadata."""
        metadata = self.topics.get(topic)
        return None if metadata is None else metadata.partitions

    def with_topics(self, topics: Mapping[str, TopicMetadata]) -> Cluster:
        """A cluster that also has `topics`. Source: `Cluster.withPartitions`."""
        return Cluster(self.brokers, {**self.topics, **topics})
