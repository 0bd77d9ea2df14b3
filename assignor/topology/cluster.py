"""The leader's view of the Kafka cluster: brokers, racks, topics and their partitions. Source: `Cluster`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from assignor.types import TopicPartition

T = TypeVar("T")
Racks = frozenset[str | None]
"""The racks of the brokers that have a replica of a partition. A rack that is None stands for a broker without a rack,
or for an unknown broker.
"""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker. `rack`: the broker's rack; None if the broker has no rack."""

    id: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic. `replicas[p]`: the ids of the brokers with a replica of partition p. `leaders[p]`: the id of the broker
    that leads partition p. `replicas` and `leaders` are None if they are unknown.
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
        """Returns the topic's number of partitions; None if the metadata does not have the topic."""
        metadata = self.topics.get(topic)
        return None if metadata is None else metadata.partitions

    def with_topics(self, topics: Mapping[str, TopicMetadata]) -> Cluster:
        """Returns the cluster with `topics` added. Source: `Cluster.withPartitions`."""
        return Cluster(self.brokers, {**self.topics, **topics}) if topics else self

    def racks(self, topic: TopicMetadata) -> tuple[Racks, ...]:
        """Returns the racks of each partition. A partition whose replicas are unknown has no racks."""
        if topic.replicas is None:
            return (frozenset(),) * topic.partitions
        rack_of = {broker.id: broker.rack for broker in self.brokers}
        known: dict[tuple[int, ...], Racks] = {}
        for replicas in topic.replicas:
            if replicas not in known:
                known[replicas] = frozenset(map(rack_of.get, replicas))
        return tuple([known[replicas] for replicas in topic.replicas])


def partitions_of(known: Mapping[str, TopicMetadata], topics: Iterable[str]) -> list[TopicPartition]:
    """Returns the partitions of all `topics` that are in `known`, in the order of the topics' names."""
    return [
        TopicPartition(topic, partition)
        for topic in sorted(topics)
        if topic in known
        for partition in range(known[topic].partitions)
    ]


def by_topic(
    partitions: Iterable[TopicPartition], offset_of: Callable[[TopicPartition], T]
) -> dict[str, tuple[T, ...]]:
    """Returns the offset of each partition, by topic. `partitions`: all partitions of each topic, in order."""
    offsets: dict[str, list[T]] = {}
    for partition in partitions:
        offsets.setdefault(partition.topic, []).append(offset_of(partition))
    return {topic: tuple(of_topic) for topic, of_topic in offsets.items()}
