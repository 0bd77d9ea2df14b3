"""Records of `__consumer_offsets` as a broker would have written them for rebalances that were recorded elsewhere."""

import base64
from collections.abc import Iterable
from typing import Any

from assignor.protocol import group_metadata
from assignor.protocol.consumer_protocol import decode_subscription
from assignor.protocol.subscription_info import decode_subscription_info
from kafka_client.offsets_topic import GroupRecord
from tests.assignor.protocol.written_group_metadata import encode_group_value

PARTITION = 3


def value_of(document: dict[str, Any], generation: int | None = None) -> group_metadata.GroupMetadataValue:
    """The generation of a rebalance/1 line; the first member of the leader's process leads."""
    assignments = document["output"]["assignments"]
    members = tuple(
        group_metadata.MemberMetadata(
            member_id=member_id,
            client_id=member["client_id"] or "",
            client_host="/127.0.0.1",
            session_timeout_ms=45_000,
            subscription=base64.b64decode(member["subscription"]),
            assignment=base64.b64decode(assignments[member_id]),
            rebalance_timeout_ms=300_000,
            group_instance_id=member["group_instance_id"],
        )
        for member_id, member in document["input"]["members"].items()
    )
    leader_process_id = document["input"]["leader_process_id"]
    return group_metadata.GroupMetadataValue(
        "consumer",
        document["generation_id"] if generation is None else generation,
        "stream",
        next(member.member_id for member in members if leader_process_id in (None, _process_id(member))),
        members,
        document["now_ms"] - 5,
    )


def record(group: str, offset: int, value: group_metadata.GroupMetadataValue | None, at_ms: int = 1_000) -> GroupRecord:
    """None: a tombstone."""
    raw = None if value is None else encode_group_value(value)
    return GroupRecord(group_metadata.GroupMetadataKey(group), raw, PARTITION, offset, at_ms)


def other_record(group: str, offset: int, kind: group_metadata.GroupKind, value: bytes | None = b"\0\0") -> GroupRecord:
    return GroupRecord(group_metadata.OtherGroupKey(group, kind), value, PARTITION, offset, 1_000)


def records(group: str, values: Iterable[group_metadata.GroupMetadataValue | None]) -> list[GroupRecord]:
    """One after the other."""
    return [record(group, offset, value) for offset, value in enumerate(values)]


def _process_id(member: group_metadata.MemberMetadata) -> str:
    info = decode_subscription_info(decode_subscription(member.subscription).user_data or b"")
    return str(info.process_id)
