"""The records of `__consumer_offsets` that a broker's group coordinator writes about groups of the classic protocol.

The first field of a key is the kind of the record, an int16. Records of unknown kinds are skipped, so records of later
Kafka versions do no harm. A group's record without a value is a tombstone: the group was deleted. Values of version 4
are flexible (KIP-482). A length is written as the unsigned varint of the length plus 1. Every structure ends with
tagged fields, which are skipped. A value of an unknown version raises DecodeError. Source: `GroupMetadataKey`,
`GroupMetadataValue`, `LegacyOffsetCommitKey`, `OffsetCommitKey`, `ConsumerGroupMetadataKey`, `ShareGroupMetadataKey`,
`StreamsGroupMetadataKey`, `GroupCoordinatorRecordSerde`.
"""

from dataclasses import dataclass
from enum import StrEnum

from assignor.protocol.primitives import Reader, from_utf8

HIGHEST_VALUE_VERSION = 4

_OFFSET_COMMIT_KEYS = (0, 1)
_GROUP_METADATA_KEY = 2

_FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
_FIRST_VERSION_WITH_STATE_TIMESTAMP = 2
_FIRST_VERSION_WITH_INSTANCE_ID = 3
_FIRST_FLEXIBLE_VERSION = 4

_NO_TIMESTAMP = -1
# The smallest member of version 0 has 18 bytes: three lengths of 2, a time-out of 4, and two lengths of 4.
_SMALLEST_MEMBER = 18
_SMALLEST_FLEXIBLE_MEMBER = 15
_LONGEST_VARINT = 5
_KEY, _VALUE = "key of __consumer_offsets", "GroupMetadataValue"


class GroupKind(StrEnum):
    """The protocol of a group that is not classic. The key of a classic group is a `GroupMetadataKey`."""

    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


_KIND_OF_KEY = {3: GroupKind.CONSUMER, 11: GroupKind.SHARE, 17: GroupKind.STREAMS}


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    """The key of a classic group. The record's value has the generation and all members. The record's value contains
    the generation and all members.
    """

    group: str


@dataclass(frozen=True, slots=True)
class OffsetCommitKey:
    """The key of a committed offset. `version`: 0 or 1; the two versions have the same fields."""

    group: str
    topic: str
    partition: int
    version: int = 1


@dataclass(frozen=True, slots=True)
class OtherGroupKey:
    """The key of a group that is not classic (KIP-848, KIP-932, KIP-1071). A classic group and a group of another kind
    may have the same id.
    """

    group: str
    kind: GroupKind


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """A member of a group. `subscription`, `assignment`: bytes in the format of the group's protocol type, or empty.
    Time-outs are in milliseconds.
    """

    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes
    rebalance_timeout_ms: int = -1
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    """A generation of a group. `members`: the members, in the order of the record. The leader received the members in
    the same order.

    `protocol`: the name of the chosen protocol. `leader`: the leader's member id. For a group without members,
    `protocol` and `leader` are None. `state_timestamp_ms`: the time at which the group entered the recorded state; None
    if the record does not contain this time. For a new generation, `state_timestamp_ms` is the time at which the last
    member joined.
    """

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[MemberMetadata, ...]
    state_timestamp_ms: int | None = None


def decode_group_key(data: bytes | memoryview) -> GroupMetadataKey | OffsetCommitKey | OtherGroupKey | None:
    """Decodes the key of a record. Returns None for a record of an unknown kind. Raises DecodeError."""
    reader = Reader(data, _KEY)
    kind = reader.int16("kind")
    if kind in _OFFSET_COMMIT_KEYS:
        return OffsetCommitKey(reader.string("group"), reader.string("topic"), reader.int32("partition"), kind)
    if kind == _GROUP_METADATA_KEY:
        return GroupMetadataKey(reader.string("group"))
    if kind in _KIND_OF_KEY:
        return OtherGroupKey(reader.string("group"), _KIND_OF_KEY[kind])
    return None


def decode_group_value(data: bytes | memoryview) -> GroupMetadataValue:
    """Decodes the value of a record whose key is a GroupMetadataKey. Bytes after the last field are ignored. Raises
    DecodeError.
    """
    version = Reader(data, _VALUE).int16("version")
    flexible = version >= _FIRST_FLEXIBLE_VERSION
    reader = _FlexibleReader(data, _VALUE) if flexible else Reader(data, _VALUE)
    reader.int16("version")
    if not 0 <= version <= HIGHEST_VALUE_VERSION:
        raise reader.error(f"unknown version {version} (0 to {HIGHEST_VALUE_VERSION} are known)", 0)
    protocol_type = reader.string("protocol type")
    generation = reader.int32("generation")
    protocol = reader.nullable_string("protocol")
    leader = reader.nullable_string("leader")
    timestamp_ms = _NO_TIMESTAMP
    if version >= _FIRST_VERSION_WITH_STATE_TIMESTAMP:
        timestamp_ms = reader.int64("current state timestamp")
    count = reader.count("members", _SMALLEST_FLEXIBLE_MEMBER if flexible else _SMALLEST_MEMBER)
    members = tuple([_read_member(reader, version) for _ in range(count)])
    if isinstance(reader, _FlexibleReader):
        reader.skip_tagged_fields()
    return GroupMetadataValue(
        protocol_type, generation, protocol, leader, members, None if timestamp_ms < 0 else timestamp_ms
    )


def _read_member(reader: Reader, version: int) -> MemberMetadata:
    member_id = reader.string("member id")
    instance_id = None
    if version >= _FIRST_VERSION_WITH_INSTANCE_ID:
        instance_id = reader.nullable_string("group instance id")
    client_id = reader.string("client id")
    client_host = reader.string("client host")
    rebalance_timeout_ms = -1
    if version >= _FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
        rebalance_timeout_ms = reader.int32("rebalance timeout")
    session_timeout_ms = reader.int32("session timeout")
    subscription = reader.byte_array("subscription")
    assignment = reader.byte_array("assignment")
    if isinstance(reader, _FlexibleReader):
        reader.skip_tagged_fields()
    return MemberMetadata(
        member_id=member_id,
        client_id=client_id,
        client_host=client_host,
        session_timeout_ms=session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
        rebalance_timeout_ms=rebalance_timeout_ms,
        group_instance_id=instance_id,
    )


class _FlexibleReader(Reader):
    """Reads the fields of flexible versions (KIP-482), which have compact forms."""

    __slots__ = ()

    def varint(self, field: str) -> int:
        """Reads an unsigned varint of at most 32 bits."""
        start, value = self.offset, 0
        for index in range(_LONGEST_VARINT):
            byte = self.int8(field) & 0xFF
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    break
                return value
        raise self.error(f"{field} is a varint of more than 32 bits", start)

    def count(self, field: str, smallest: int) -> int:
        start = self.offset
        value = self.varint(f"count of {field}") - 1
        if value < 0:
            raise self.error(f"count of {field} is null", start)
        if value > self.remaining // smallest:
            raise self.error(
                f"count of {field} is {value} but {self.remaining} bytes remain, at least {smallest} for each", start
            )
        return value

    def nullable_byte_array(self, field: str) -> bytes | None:
        size = self.varint(f"length of {field}") - 1
        return None if size < 0 else self.raw(size, field)

    def nullable_string(self, field: str) -> str | None:
        raw = self.nullable_byte_array(field)
        return None if raw is None else from_utf8(raw)

    def skip_tagged_fields(self) -> None:
        for _ in range(self.varint("count of tagged fields")):
            self.varint("tag")
            self.skip(self.varint("length of tagged field"), "tagged field")
