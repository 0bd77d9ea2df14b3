"""What the leader knows of the Kafka cluster: brokers, racks, topics and their partitions. Source: `Cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Racks = frozenset[str | None]
"""Of the brokers that have a replica of one partition; None stands for a broker without a rack, or not known."""


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker. `rack` is None when the broker has none."""

    id: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic. `replicas[p]`: the broker ids of partition p; `leaders[p]`: its leader's id. Both are None when not
    known.
    """

    partitions: int
    replicas: tuple[tuple[int, ...], ...] | None = None
    leaders: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The part of the cluster's metadata that a rebalance reads."""

    brokers: tuple[Broker, ...]
    topics: Mapping[str, TopicMetadata]

    def partition_count(self, topic: str) -> int | None:
        """None when the metadata does not have the topic."""
        metadata = self.topics.get(topic)
        return None if metadata is None else metadata.partitions

    def with_topics(self, topics: Mapping[str, TopicMetadata]) -> Cluster:
        """The same cluster with `topics` added. Source: `Cluster.withPartitions`."""
        return Cluster(self.brokers, {**self.topics, **topics}) if topics else self

    def racks(self, topic: TopicMetadata) -> tuple[Racks, ...]:
        """Of each partition; empty for one whose replicas are not known."""
        if topic.replicas is None:
            return (frozenset(),) * topic.partitions
        rack_of = {broker.id: broker.rack for broker in self.brokers}
        known: dict[tuple[int, ...], Racks] = {}
        for replicas in topic.replicas:
            if replicas not in known:
                known[replicas] = frozenset(map(rack_of.get, replicas))
        return tuple([known[replicas] for replicas in topic.replicas])
