"""Committing a group's offsets from outside of the group. Source: `ConsumerCoordinator.sendOffsetCommitRequest`.

Rule: the group has no members on the brokers, so the commit names no generation; who may commit is a matter of claims.
A group that does have members is someone else's, and says so by one line.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiokafka.protocol.commit import OffsetCommitRequest

from assignor.types import TopicPartition
from kafka_client.error_codes import check
from streams_runtime.logs.base import OffsetAndMetadata, OffsetsToCommit
from streams_runtime.logs.errors import LogError
from streams_runtime.logs.kafka.identity import offsets_by_topic
from streams_runtime.logs.kafka.leadership import CoordinatorOf, Leadership

_NO_GENERATION = _NO_RETENTION = -1
_HAS_MEMBERS = frozenset({22, 25, 27})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS."""


def checked_offsets(offsets: OffsetsToCommit) -> None:
    """Raises LogError for an offset of a partition outside of its claim, and for a negative one."""
    for claim, moved in offsets:
        for partition, offset in moved.items():
            if partition not in claim.epochs:
                raise LogError(f"offset of {partition} is not covered by the claim of group {claim.group_id}")
            if offset.offset < 0:
                raise LogError(f"offset {offset.offset} of {partition} is negative")


async def commit_offsets(
    leadership: Leadership, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Raises LogTimeout, LogError."""
    request = OffsetCommitRequest(group, _NO_GENERATION, "", _NO_RETENTION, offsets_by_topic(offsets))

    async def attempt() -> None:
        answer = await leadership.ask_coordinator(CoordinatorOf.GROUP, group, request)
        for topic, numbers in answer.topics:
            for number, code in numbers:
                if code in _HAS_MEMBERS:
                    raise LogError(has_members(group))
                check(code, f"offset of {topic}-{number} in group {group}")

    await leadership.call(f"committing offsets of group {group}", attempt)


def has_members(group: str) -> str:
    return (
        f"group {group} has members of its own on the brokers (a Kafka Streams application or consumers): "
        "choose another application.id, or stop them first"
    )
