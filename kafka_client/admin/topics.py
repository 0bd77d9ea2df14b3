"""Reads brokers and topics. Creates, changes and deletes topics, and checks that each change has reached the brokers.
Each function of this module makes one try.

Rules:
- `create_topics` accepts an existing topic that has the requested number of partitions. If one topic exists with
  another number of partitions, no topic is created. Each topic is created together with its configs.
- Brokers learn of a new topic some time after its creation. So the creation of a topic is complete when every partition
  has a leader. Brokers also learn of a deletion some time after the controller has deleted the topic. So the deletion
  of a topic is complete when a broker's metadata no longer has the topic. While a topic is being deleted, a new topic
  with its name cannot be created. The caller retries the creation until its time-out.
- Configs are changed with IncrementalAlterConfigs (KIP-339), because the older request, AlterConfigs, replaces all
  configs of a topic.

Source: `InternalTopicManager.makeReady`, `CreateTopicsHandler`, `KafkaAdminClient.createPartitions`,
`KafkaAdminClient.incrementalAlterConfigs`, `KafkaAdminClient.deleteTopics`.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from aiokafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest_v2,
    CreateTopicsRequest_v3,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
)
from aiokafka.protocol.metadata import MetadataRequest_v5

from assignor.topology.cluster import Broker, TopicMetadata
from assignor.topology.internal_topics import CreatedTopic
from kafka_client.connections import Connections
from kafka_client.error_codes import TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION, check, is_retriable
from kafka_client.errors import NotNow, TopicHasOtherPartitions, UnknownTopic
from kafka_client.requests import (
    DELETE_CONFIG,
    NO_TAGS,
    NO_UUID,
    SET_CONFIG,
    TOPIC,
    CreateTopics4,
    IncrementalAlterConfigs0,
    Metadata10,
    VersionedRequest,
)

_SET_ON_THE_TOPIC = 1
"""In a DescribeConfigs response, a config with this source is set on the topic itself. Source:
`DescribeConfigsResponse.ConfigSource`.
"""

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """Brokers and topics of a cluster. `topics`: the topics that exist. If a partition has no leader, its leader is
    NO_LEADER. `controller`: None if the controller is not among the brokers. `topic_ids`: the ids of `topics`, in the
    form that Kafka's tools print. A topic has no id if the broker is older than Kafka 2.8.
    """

    brokers: tuple[Broker, ...]
    topics: Mapping[str, TopicMetadata]
    controller: int | None
    topic_ids: Mapping[str, str]


async def fetch_metadata(connections: Connections, topics: Iterable[str] | None) -> ClusterMetadata:
    """Makes one try to read the cluster's metadata. `topics`: None for all topics that the user may see. The metadata
    request does not create topics. Raises NotNow, KafkaRefused.
    """
    names = None if topics is None else sorted(set(topics))
    with_ids = None if names is None else [(NO_UUID, name, NO_TAGS) for name in names]
    answer = await connections.send(
        VersionedRequest(MetadataRequest_v5(names, False), Metadata10(with_ids, False, False, False, NO_TAGS))
    )
    if not answer.brokers:
        raise NotNow("the cluster has no brokers yet")
    connections.set_cluster(answer.cluster_id, {node_id: (host, port) for node_id, host, port, *_ in answer.brokers})
    found: dict[str, TopicMetadata] = {}
    ids: dict[str, str] = {}
    for code, topic, topic_id, partitions in _topics(answer):
        if code == UNKNOWN_TOPIC_OR_PARTITION:
            continue
        # a request for all topics must not fail because one topic is being created
        if names is not None or not is_retriable(code):
            check(code, f"topic {topic}")
        if partitions:
            found[topic] = _topic(partitions)
            if topic_id != NO_UUID:
                ids[topic] = urlsafe_b64encode(topic_id).decode().rstrip("=")
    return ClusterMetadata(
        tuple(Broker(node_id, rack) for node_id, _, _, rack, *_ in sorted(answer.brokers, key=itemgetter(0))),
        dict(sorted(found.items())),
        answer.controller_id if any(each[0] == answer.controller_id for each in answer.brokers) else None,
        ids,
    )


_Partition = tuple[int, int, list[int]]
"""The number of a partition, its leader and its replicas."""


def _topics(answer: Any) -> Iterator[tuple[int, str, bytes, list[_Partition]]]:
    """Yields the error code, the name, the id and the partitions of each topic in the answer, for both versions of the
    answer.
    """
    if answer.API_VERSION < Metadata10.API_VERSION:
        for code, topic, _, partitions in answer.topics:
            yield code, topic, NO_UUID, [(number, leader, replicas) for _, number, leader, replicas, *_ in partitions]
    else:
        for code, topic, topic_id, _, partitions, *_ in answer.topics:
            yield code, topic, topic_id, [(number, leader, each) for _, number, leader, _, each, *_ in partitions]


def _topic(partitions: list[_Partition]) -> TopicMetadata:
    in_order = sorted(partitions)
    return TopicMetadata(
        len(in_order),
        replicas=tuple(tuple(replicas) for _, _, replicas in in_order),
        leaders=tuple(leader for _, leader, _ in in_order),
    )


async def create_topics(connections: Connections, topics: Mapping[str, CreatedTopic], request_timeout_s: float) -> None:
    """Makes one try to create topics. Raises NotNow if a topic is missing, or if a partition has no leader. Raises
    KafkaRefused, TopicHasOtherPartitions.
    """
    if not topics:
        return
    metadata = await fetch_metadata(connections, topics)
    for name, topic in topics.items():
        there = metadata.topics.get(name)
        if there is not None and there.partitions != topic.partitions:
            raise TopicHasOtherPartitions(f"topic {name} has {there.partitions} partitions, not {topic.partitions}")
    missing = {name: topic for name, topic in topics.items() if name not in metadata.topics}
    if missing:
        described: list[object] = [
            (name, topic.partitions, topic.replication_factor, [], sorted(topic.configs.items()))
            for name, topic in missing.items()
        ]
        versions = (CreateTopicsRequest_v2, CreateTopicsRequest_v3, CreateTopics4)
        structs = [version(described, round(request_timeout_s * 1000), False) for version in versions]
        answer = await connections.send(VersionedRequest(*structs), metadata.controller)
        for name, code, message in answer.topic_errors:
            if code != TOPIC_ALREADY_EXISTS:
                check(code, f"topic {name}", message)
        metadata = await fetch_metadata(connections, topics)
    for name in topics:
        check_leaders(name, metadata.topics.get(name))


async def topic_configs(connections: Connections, topics: Iterable[str], only_own: bool) -> dict[str, dict[str, str]]:
    """Makes one try to read the configs of topics. Missing topics and secret values are left out. Raises NotNow,
    KafkaRefused.
    """
    names = sorted(set(topics))
    if not names:
        return {}
    answer = await connections.send(DescribeConfigsRequest([(TOPIC, name, None) for name in names]))
    found: dict[str, dict[str, str]] = {}
    for code, message, _, name, entries in answer.resources:
        if code == UNKNOWN_TOPIC_OR_PARTITION:
            continue
        check(code, f"topic {name}", message)
        found[name] = {
            key: value
            for key, value, _, source, _, _ in entries
            if value is not None and (not only_own or source == _SET_ON_THE_TOPIC)
        }
    return found


def check_leaders(name: str, topic: TopicMetadata | None) -> None:
    """Raises NotNow if the topic is missing, or if one of its partitions has no leader."""
    if topic is None or topic.leaders is None or NO_LEADER in topic.leaders:
        raise NotNow(f"topic {name} does not have all of its leaders yet")


async def add_partitions(connections: Connections, name: str, count: int, request_timeout_s: float) -> None:
    """Makes one try to add partitions. Raises NotNow if the topic has fewer than `count` partitions, or if a partition
    has no leader. Raises KafkaRefused, UnknownTopic.
    """
    metadata = await fetch_metadata(connections, [name])
    if name not in metadata.topics:
        raise UnknownTopic(f"there is no topic {name}")
    if metadata.topics[name].partitions < count:
        request = CreatePartitionsRequest([(name, (count, None))], round(request_timeout_s * 1000), False)
        answer = await connections.send(request, metadata.controller)
        for topic, code, message in answer.topic_errors:
            check(code, f"topic {topic}", message)
        metadata = await fetch_metadata(connections, [name])
    topic = metadata.topics.get(name)
    check_leaders(name, topic)
    if topic is None or topic.partitions < count:
        raise NotNow(f"topic {name} does not have {count} partitions yet")


async def alter_configs(connections: Connections, topic: str, changes: Mapping[str, str | None]) -> None:
    """Makes one try to change configs of a topic. `changes`: maps each config to its new value, or to None to reset the
    config. Raises NotNow, KafkaRefused.
    """
    operations = [
        (key, DELETE_CONFIG if value is None else SET_CONFIG, value) for key, value in sorted(changes.items())
    ]
    request = VersionedRequest(IncrementalAlterConfigs0([(TOPIC, topic, operations)], False))
    answer = await connections.send(request)
    for code, message, _, name in answer.responses:
        check(code, f"topic {name}", message)


async def delete_topics(connections: Connections, names: Sequence[str], request_timeout_s: float) -> None:
    """Makes one try to delete topics. A missing topic is not an error. Raises NotNow if one of the topics still exists.
    Raises KafkaRefused.
    """
    metadata = await fetch_metadata(connections, names)
    there = [name for name in names if name in metadata.topics]
    if not there:
        return
    answer = await connections.send(DeleteTopicsRequest(there, round(request_timeout_s * 1000)), metadata.controller)
    for name, code in answer.topic_error_codes:
        if code != UNKNOWN_TOPIC_OR_PARTITION:
            check(code, f"topic {name}")
    metadata = await fetch_metadata(connections, names)
    for name in names:
        if name in metadata.topics:
            raise NotNow(f"the brokers still know topic {name}")
