"""Topics deleted and their end awaited: a broker forgets a topic some time after the controller has deleted it.

Source: `KafkaAdminClient.deleteTopics`.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiokafka.protocol.admin import DeleteTopicsRequest

from kafka_client.admin.cluster_metadata import fetch_metadata
from kafka_client.connections import Connections
from kafka_client.error_codes import UNKNOWN_TOPIC_OR_PARTITION, check
from kafka_client.errors import NotNow


async def delete_topics(connections: Connections, names: Sequence[str], request_timeout_s: float) -> None:
    """One try; a topic that is not there is fine. Raises NotNow until none is there, KafkaRefused."""
    metadata = await fetch_metadata(connections, names)
    there = [name for name in names if name in metadata.topics]
    if not there:
        return
    controller = metadata.controller_id if any(b.id == metadata.controller_id for b in metadata.brokers) else None
    answer = await connections.send(DeleteTopicsRequest(there, round(request_timeout_s * 1000)), controller)
    for name, code in answer.topic_error_codes:
        if code != UNKNOWN_TOPIC_OR_PARTITION:
            check(code, f"topic {name}")
    metadata = await fetch_metadata(connections, names)
    for name in names:
        if name in metadata.topics:
            raise NotNow(f"the brokers still know topic {name}")
