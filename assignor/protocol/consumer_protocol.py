"""ConsumerProtocol: the subscription that a consumer of a classic group sends, and the assignment that it receives.

The `user_data` of the two messages contain the SubscriptionInfo and the AssignmentInfo of Kafka Streams. A message with
an unknown higher version is decoded as the highest known version. Newer versions only add fields at the end. Bytes
after the last field are ignored.
Source: `ConsumerProtocol`, `ConsumerProtocolSubscription`, `ConsumerProtocolAssignment`; KIP-429, KIP-792, KIP-881.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from assignor.errors import InputError
from assignor.protocol.primitives import Reader, Writer, pack_ints
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.types import JAVA_INT_MAX, TopicPartition, utf16_order

HIGHEST_VERSION = 3

_FIRST_VERSION_WITH_OWNED_PARTITIONS = 1
_FIRST_VERSION_WITH_GENERATION = 2
_FIRST_VERSION_WITH_RACK = 3
_NO_GENERATION = -1
_NULL = -1
"""The length that is encoded if the user data are null."""
_NO_BYTES = AssignmentParts(b"")

_SMALLEST_STRING = 2

_INT32 = struct.Struct(">i")
_VERSIONS = [struct.pack(">h", version) for version in range(HIGHEST_VERSION + 1)]

_SUBSCRIPTION = "ConsumerProtocolSubscription"
_ASSIGNMENT = "ConsumerProtocolAssignment"


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics and the owned partitions of a member. `generation_id`: the member's generation; None if the member
    sent no generation. `rack`: the member's rack; None if the member sent no rack or an empty rack.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int | None = None
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that a member gets. In Kafka Streams, the n-th partition belongs to the n-th active task of the
    AssignmentInfo.
    """

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = HIGHEST_VERSION) -> bytes:
    """Encodes a subscription. Topics are sorted; owned partitions are sorted and grouped by topic. Only the
    subscription fields that exist in `version` are encoded.
    """
    version = _usable_version(version)
    writer = Writer()
    writer.int16(version, "version")
    topics = sorted(subscription.topics, key=utf16_order)
    writer.int32(len(topics), "topics")
    for topic in topics:
        writer.nullable_string(topic, "topics")
    writer.nullable_byte_array(subscription.user_data, "user data")
    if version >= _FIRST_VERSION_WITH_OWNED_PARTITIONS:
        owned = sorted(subscription.owned_partitions, key=lambda owned: (utf16_order(owned.topic), owned.partition))
        _write_partitions(writer, owned, "owned partitions")
    if version >= _FIRST_VERSION_WITH_GENERATION:
        generation_id = subscription.generation_id
        writer.int32(_NO_GENERATION if generation_id is None else generation_id, "generation id")
    if version >= _FIRST_VERSION_WITH_RACK:
        writer.nullable_string(subscription.rack, "rack")
    return writer.to_bytes()


def decode_subscription(data: bytes | memoryview, largest_count: int = JAVA_INT_MAX) -> Subscription:
    """Decodes a subscription. Owned partitions have the same order as in the encoded bytes. `largest_count`: the
    largest length of an array. Raises DecodeError.
    """
    reader, version = _after_version(data, _SUBSCRIPTION, largest_count)
    topics = reader.strings("topic", reader.count("topics", _SMALLEST_STRING))
    user_data = reader.nullable_byte_array("user data")
    owned: tuple[TopicPartition, ...] = ()
    generation_id = _NO_GENERATION
    rack: str | None = None
    if version >= _FIRST_VERSION_WITH_OWNED_PARTITIONS:
        owned = reader.topic_partitions("owned partitions")
    if version >= _FIRST_VERSION_WITH_GENERATION:
        generation_id = reader.int32("generation id")
    if version >= _FIRST_VERSION_WITH_RACK:
        rack = reader.nullable_string("rack")
    return Subscription(topics, user_data, owned, generation_id if generation_id >= 0 else None, rack or None)


def encode_assignment(assignment: Assignment, version: int = HIGHEST_VERSION) -> bytes:
    """Encodes an assignment. Partitions are grouped by topic; topics are in the order of their first partitions. All
    versions of an assignment have the same fields.
    """
    user_data = None if assignment.user_data is None else AssignmentParts(assignment.user_data)
    return bytes(assignment_parts(assignment.partitions, user_data, version))


def assignment_parts(
    partitions: Iterable[TopicPartition], user_data: AssignmentParts | None, version: int = HIGHEST_VERSION
) -> AssignmentParts:
    """Encodes an assignment as `encode_assignment` does. The user data and the result are split into parts. The head of
    the result contains the length of the whole user data.
    """
    before, shared, tail = user_data or _NO_BYTES
    size = _INT32.pack(_NULL if user_data is None else len(before) + len(shared) + len(tail))
    head = (_VERSIONS[_usable_version(version)], _partition_bytes(partitions, "assigned partitions"), size, before)
    return AssignmentParts(b"".join(head), shared, tail)


class UserDataStart(NamedTuple):
    """The start of the user data in an assignment. `reader`: a reader at the first byte of the user data. `length`: the
    length of the user data in bytes, as the assignment declares it.
    """

    reader: Reader
    length: int


def user_data_of_head(data: bytes | memoryview) -> UserDataStart | None:
    """Finds the start of the user data in an assignment or in the head of an assignment (`AssignmentParts.head`).

    Returns None for an assignment without user data. Raises DecodeError.
    """
    reader, _ = _after_version(data, _ASSIGNMENT)
    reader.topic_partitions("assigned partitions")
    length = reader.int32("length of user data")
    return UserDataStart(reader, length) if length > 0 else None


def decode_assignment(data: bytes | memoryview) -> Assignment:
    """Decodes an assignment. Partitions have the same order as in the encoded bytes, where they are grouped by topic.
    Raises DecodeError.
    """
    reader, _ = _after_version(data, _ASSIGNMENT)
    return Assignment(reader.topic_partitions("assigned partitions"), reader.nullable_byte_array("user data"))


def wire_version(data: bytes | memoryview) -> int:
    """Returns the version at the start of a subscription or assignment. Raises DecodeError if the bytes are too
    short.
    """
    return Reader(data, "ConsumerProtocol").int16("version")


def _usable_version(version: int) -> int:
    if version < 0:
        raise InputError(f"{version} is not a version of the consumer protocol: 0 to {HIGHEST_VERSION} are", "version")
    return min(version, HIGHEST_VERSION)


def _after_version(data: bytes | memoryview, what: str, largest_count: int = JAVA_INT_MAX) -> tuple[Reader, int]:
    """Reads the version number. Returns a reader of the other fields, and the version that determines these fields."""
    reader = Reader(data, what, largest_count)
    version = reader.int16("version")
    if version < 0:
        raise reader.error(f"unsupported version {version}", 0)
    return reader, min(version, HIGHEST_VERSION)


def _write_partitions(writer: Writer, partitions: Iterable[TopicPartition], field: str) -> None:
    writer.raw(_partition_bytes(partitions, field))


def _partition_bytes(partitions: Iterable[TopicPartition], field: str) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        numbers = by_topic.get(topic)
        if numbers is None:
            by_topic[topic] = [partition]
        else:
            numbers.append(partition)
    chunks = [_INT32.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        chunks += (_topic_bytes(topic, field), _INT32.pack(len(numbers)), pack_ints(numbers, field))
    return b"".join(chunks)


@lru_cache(maxsize=1_024)  # cached, because all members of a group have partitions of the same topics
def _topic_bytes(topic: str, field: str) -> bytes:
    writer = Writer()
    writer.nullable_string(topic, field)
    return writer.to_bytes()
