"""Topics created with all of their configs at once and awaited; and the configs of existing topics.

Rules: an existing topic is fine when it has the same number of partitions; when one has another number, nothing is
created. Creation is complete once every partition has a leader, since a broker learns of a new topic some time after
the controller has created it. A topic that is being deleted both exists and does not; creation is retried until the
time-out. Source:
`InternalTopicManager.makeReady`, `CreateTopicsHandler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiokafka.protocol.admin import DescribeConfigsRequest

from assignor.cluster import TopicMetadata
from assignor.topology.internal_topics import CreatedTopic
from kafka_client.admin.cluster_metadata import NO_LEADER, fetch_metadata
from kafka_client.connections import Connections
from kafka_client.error_codes import TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION, check
from kafka_client.errors import NotNow, TopicHasOtherPartitions
from kafka_client.requests.admin_requests import TOPIC, CreateTopicsRequest

_SET_ON_THE_TOPIC = 1
"""A source of a config. Source: `DescribeConfigsResponse.ConfigSource`."""


async def create_topics(connections: Connections, topics: Mapping[str, CreatedTopic], request_timeout_s: float) -> None:
    """One try. Raises NotNow until all exist and have leaders; KafkaRefused, TopicHasOtherPartitions."""
    if not topics:
        return
    metadata = await fetch_metadata(connections, topics)
    for name, topic in topics.items():
        there = metadata.topics.get(name)
        if there is not None and there.partitions != topic.partitions:
            raise TopicHasOtherPartitions(f"topic {name} has {there.partitions} partitions, not {topic.partitions}")
    missing = [name for name in topics if name not in metadata.topics]
    if missing:
        request = CreateTopicsRequest(
            [
                (
                    name,
                    topics[name].partitions,
                    topics[name].replication_factor,
                    [],
                    sorted(topics[name].configs.items()),
                )
                for name in missing
            ],
            round(request_timeout_s * 1000),
        )
        controller = metadata.controller_id if any(b.id == metadata.controller_id for b in metadata.brokers) else None
        answer = await connections.send(request, controller)
        for name, code, message in answer.topic_errors:
            if code != TOPIC_ALREADY_EXISTS:
                check(code, f"topic {name}", message)
        metadata = await fetch_metadata(connections, topics)
    for name in topics:
        check_leaders(name, metadata.topics.get(name))


async def topic_configs(connections: Connections, topics: Iterable[str], only_own: bool) -> dict[str, dict[str, str]]:
    """One try. Missing topics and secret values are left out. Raises NotNow, KafkaRefused."""
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
    """Raises NotNow until the topic is there and each of its partitions has a leader."""
    if topic is None or topic.leaders is None or NO_LEADER in topic.leaders:
        raise NotNow(f"topic {name} does not have all of its leaders yet")
