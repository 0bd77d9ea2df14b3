"""Changes to topics that exist: more partitions, and other configs.

Configs are changed one by one (KIP-339): the older request, AlterConfigs, replaces all configs of a topic. Source:
`KafkaAdminClient.createPartitions`, `KafkaAdminClient.incrementalAlterConfigs`.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiokafka.protocol.admin import CreatePartitionsRequest

from kafka_client.admin.cluster_metadata import fetch_metadata
from kafka_client.admin.topic_creation import check_leaders
from kafka_client.connections import Connections
from kafka_client.error_codes import check
from kafka_client.errors import NotNow, UnknownTopic
from kafka_client.requests.admin_requests import DELETE_CONFIG, SET_CONFIG, IncrementalAlterConfigsRequest


async def add_partitions(connections: Connections, name: str, count: int, request_timeout_s: float) -> None:
    """One try. Raises NotNow until the topic has so many partitions with leaders; KafkaRefused, UnknownTopic."""
    metadata = await fetch_metadata(connections, [name])
    if name not in metadata.topics:
        raise UnknownTopic(f"there is no topic {name}")
    if metadata.topics[name].partitions < count:
        controller = metadata.controller_id if any(b.id == metadata.controller_id for b in metadata.brokers) else None
        request = CreatePartitionsRequest([(name, (count, None))], round(request_timeout_s * 1000), False)
        answer = await connections.send(request, controller)
        for topic, code, message in answer.topic_errors:
            check(code, f"topic {topic}", message)
        metadata = await fetch_metadata(connections, [name])
    topic = metadata.topics.get(name)
    check_leaders(name, topic)
    if topic is None or topic.partitions < count:
        raise NotNow(f"topic {name} does not have {count} partitions yet")


async def alter_configs(connections: Connections, topic: str, changes: Mapping[str, str | None]) -> None:
    """One try. `changes`: None for a config that is taken away. Raises NotNow, KafkaRefused."""
    operations = [
        (key, DELETE_CONFIG if value is None else SET_CONFIG, value) for key, value in sorted(changes.items())
    ]
    answer = await connections.send(IncrementalAlterConfigsRequest(topic, operations))
    for code, message, _, name in answer.responses:
        check(code, f"topic {name}", message)
