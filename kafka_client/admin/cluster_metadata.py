"""Brokers, topics and leaders: one metadata answer as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aiokafka.protocol.metadata import MetadataRequest

from assignor.cluster import Broker, TopicMetadata
from kafka_client.connections import Connections
from kafka_client.error_codes import UNKNOWN_TOPIC_OR_PARTITION, check, is_retriable
from kafka_client.errors import NotNow

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """`topics`: without those that do not exist. A partition without a leader has NO_LEADER."""

    brokers: tuple[Broker, ...]
    topics: Mapping[str, TopicMetadata]
    controller_id: int


async def fetch_metadata(connections: Connections, topics: Iterable[str] | None) -> ClusterMetadata:
    """One try. `topics`: None for all that the user may see; none is created. Raises NotNow, KafkaRefused."""
    names = None if topics is None else sorted(set(topics))
    answer = await connections.send(MetadataRequest(names, allow_auto_topic_creation=False))
    if not answer.brokers:
        raise NotNow("the cluster has no brokers yet")
    connections.set_brokers({node_id: (host, port) for node_id, host, port, _ in answer.brokers})
    found: dict[str, TopicMetadata] = {}
    for code, topic, _, partitions in answer.topics:
        if code == UNKNOWN_TOPIC_OR_PARTITION:
            continue
        if names is not None or not is_retriable(code):  # a topic that is being created must not hide all others
            check(code, f"topic {topic}")
        if partitions:
            found[topic] = _topic(partitions)
    return ClusterMetadata(
        tuple(Broker(node_id, rack) for node_id, _, _, rack in sorted(answer.brokers)),
        dict(sorted(found.items())),
        answer.controller_id,
    )


def _topic(partitions: list[tuple[int, int, int, list[int], list[int], list[int]]]) -> TopicMetadata:
    """Each partition is error code, number, leader, replicas, in-sync replicas, offline replicas."""
    in_order = sorted(partitions, key=lambda partition: partition[1])
    return TopicMetadata(
        len(in_order),
        replicas=tuple(tuple(partition[3]) for partition in in_order),
        leaders=tuple(partition[2] for partition in in_order),
    )
