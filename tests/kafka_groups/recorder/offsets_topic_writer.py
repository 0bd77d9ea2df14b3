"""Writes into `__consumer_offsets` what a broker writes there, for groups that no broker knows.

Brokers let only one client id do so, that of Kafka's own administration tools. Readers of the topic cannot tell it from
the real thing, and it costs no JVM. The coordinator of that partition can, and serves its groups no more: only for a
broker that nobody shares.
"""

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer

from assignor.protocol.group_metadata import GroupKind, GroupMetadataKey, GroupMetadataValue, OtherGroupKey
from kafka_client.offsets_topic import OFFSETS_TOPIC, offsets_partition
from tests.assignor.protocol.written_group_metadata import encode_group_key, encode_group_value

_WHO_MAY = "__admin_client"


def write_generations(
    bootstrap_servers: str, group: str, values: Sequence[GroupMetadataValue | None], pause_s: float = 0
) -> None:
    """On return they are in the topic. None: a tombstone. `pause_s`: between one and the next."""
    key = encode_group_key(GroupMetadataKey(group))
    raw = [(key, None if value is None else encode_group_value(value)) for value in values]
    asyncio.run(_write(bootstrap_servers, group, raw, pause_s))


def write_other_kind(bootstrap_servers: str, group: str, kind: GroupKind) -> None:
    """A group of a newer protocol."""
    key = encode_group_key(OtherGroupKey(group, kind))
    asyncio.run(_write(bootstrap_servers, group, [(key, b"\0\0")]))


async def _write(
    bootstrap_servers: str, group: str, records: Sequence[tuple[bytes, bytes | None]], pause_s: float = 0
) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, client_id=_WHO_MAY, acks="all")
    async with producer:
        partitions = await producer.partitions_for(OFFSETS_TOPIC)
        number = offsets_partition(group, len(partitions))
        for key, value in records:
            await producer.send_and_wait(OFFSETS_TOPIC, key=key, value=value, partition=number)
            await asyncio.sleep(pause_s)
