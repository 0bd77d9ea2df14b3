"""Records of `__consumer_offsets` as a broker of Kafka 4 writes them: values of version 3."""

from assignor.protocol.group_metadata import GroupKind, GroupMetadataKey, GroupMetadataValue, OtherGroupKey
from assignor.protocol.primitives import Writer

_VERSION = 3
_KINDS = {GroupKind.CONSUMER: 3, GroupKind.SHARE: 11, GroupKind.STREAMS: 17}


def encode_group_key(key: GroupMetadataKey | OtherGroupKey) -> bytes:
    writer = Writer()
    writer.int16(_KINDS[key.kind] if isinstance(key, OtherGroupKey) else 2, "kind")
    writer.nullable_string(key.group, "group")
    return writer.to_bytes()


def encode_group_value(value: GroupMetadataValue) -> bytes:
    writer = Writer()
    writer.int16(_VERSION, "version")
    writer.nullable_string(value.protocol_type, "protocol type")
    writer.int32(value.generation, "generation")
    writer.nullable_string(value.protocol, "protocol")
    writer.nullable_string(value.leader, "leader")
    writer.int64(-1 if value.state_timestamp_ms is None else value.state_timestamp_ms, "current state timestamp")
    writer.int32(len(value.members), "members")
    for member in value.members:
        writer.nullable_string(member.member_id, "member id")
        writer.nullable_string(member.group_instance_id, "group instance id")
        writer.nullable_string(member.client_id, "client id")
        writer.nullable_string(member.client_host, "client host")
        writer.int32(member.rebalance_timeout_ms, "rebalance timeout")
        writer.int32(member.session_timeout_ms, "session timeout")
        writer.nullable_byte_array(member.subscription, "subscription")
        writer.nullable_byte_array(member.assignment, "assignment")
    return writer.to_bytes()
