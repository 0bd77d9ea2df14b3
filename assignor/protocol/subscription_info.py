"""SubscriptionInfo: the user data of a Kafka Streams consumer's subscription, with its process, tasks and offsets.

`decode_member` decodes a SubscriptionInfo together with its subscription. `decode_members` decodes the subscriptions of
all members of a group.

Up to version 6, a SubscriptionInfo lists previous active tasks and standby tasks. Since version 7, a SubscriptionInfo
has an offset sum for every task with state. The offset sum of a running active task is LATEST_OFFSET. The class
`SubscriptionInfo` contains offset sums for all versions. If version 6 or earlier lists a task as active, the task gets
the sum LATEST_OFFSET. If version 6 or earlier lists a task as standby, the task gets the sum UNKNOWN_OFFSET_SUM. If the
version is above LATEST_SUPPORTED_VERSION, only the two version numbers are read. Source: `SubscriptionInfo`,
`SubscriptionInfoData`; KIP-441, KIP-708.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from assignor.errors import DecodeError, IllegalArgumentError, IllegalStateError, TaskAssignmentError
from assignor.java.hash_codes import string_hash
from assignor.java.order import JavaHashSet, compute_if_absent_order, hash_set_order
from assignor.protocol.consumer_protocol import Subscription, decode_subscription
from assignor.protocol.primitives import Reader, Writer, from_utf8, to_utf8
from assignor.protocol.versions import (
    FIRST_VERSION_WITH_CLIENT_TAGS,
    FIRST_VERSION_WITH_ENDPOINT,
    FIRST_VERSION_WITH_LATEST_SUPPORTED,
    FIRST_VERSION_WITH_NAMED_TOPOLOGY,
    FIRST_VERSION_WITH_OFFSET_SUMS,
    FIRST_VERSION_WITH_SUBSCRIPTION_ERROR,
    FIRST_VERSION_WITH_UNIQUE_FIELD,
    LATEST_SUPPORTED_VERSION,
    UNKNOWN_VERSION,
)
from assignor.types import JAVA_INT_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId

_GROUPS_KEPT = 16
_ZERO_PROCESS_ID = ProcessId(0, 0)
_SMALLEST_TASK_ID = 8
_SMALLEST_SUBTOPOLOGY_SUMS = 8
_PARTITION_SUM = struct.Struct(">iq")
_TASK_SUM = struct.Struct(">iiqh")


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """A decoded SubscriptionInfo. `task_offset_sums` has the same order as the encoded bytes. A field has its default
    value if `version` lacks the field.

    `unique_field`: an int8 that a member changes so that its subscription differs from its previous subscription.
    `error_code`: an AssignorErrorCode, or a number of a later Kafka version. `listed_twice`: the tasks that a
    subscription of version 1 to 6 lists as active and also as standby; their offset sum is UNKNOWN_OFFSET_SUM. Raises
    IllegalArgumentError if the versions contradict each other.
    """

    version: int
    latest_supported_version: int = LATEST_SUPPORTED_VERSION
    process_id: ProcessId = _ZERO_PROCESS_ID
    user_end_point: str | None = None
    task_offset_sums: Mapping[TaskId, int] = field(default_factory=dict)
    unique_field: int = 0
    error_code: int = 0
    client_tags: Mapping[str, str] = field(default_factory=dict)
    listed_twice: frozenset[TaskId] = frozenset()

    def __post_init__(self) -> None:
        problem = _version_problem(self.version, self.latest_supported_version)
        if problem is not None:
            raise IllegalArgumentError(problem)

    @property
    def is_future(self) -> bool:
        """True if only the two version numbers could be decoded, because `version` is above
        LATEST_SUPPORTED_VERSION.
        """
        return self.version > LATEST_SUPPORTED_VERSION

    @property
    def prev_tasks(self) -> frozenset[TaskId]:
        """The tasks that ran as active tasks."""
        active = (task for task, offset_sum in self.task_offset_sums.items() if offset_sum == LATEST_OFFSET)
        return self.listed_twice.union(active)

    @property
    def standby_tasks(self) -> frozenset[TaskId]:
        """The tasks of which the member has state but no active copy: standbys, and tasks whose state is left on
        disk.
        """
        return frozenset(task for task, offset_sum in self.task_offset_sums.items() if offset_sum != LATEST_OFFSET)


class MemberSubscription(NamedTuple):
    """The subscription that a member of a Kafka Streams group sends when it joins, and its decoded user data."""

    subscription: Subscription
    info: SubscriptionInfo


@lru_cache(maxsize=64)  # cached, because all members of a group send the same versions
def _version_problem(version: int, latest_supported: int) -> str | None:
    if latest_supported == UNKNOWN_VERSION:
        if 1 <= version <= FIRST_VERSION_WITH_LATEST_SUPPORTED - 1:
            return None
        return f"Only versions 1 and 2 are expected to use an UNKNOWN (-1) latest supported version. Got {version}."
    if 1 <= version <= latest_supported:
        return None
    return f"version must be between 1 and {latest_supported}; was: {version}"


def encode_subscription_info(info: SubscriptionInfo) -> bytes:
    """Returns the bytes that Kafka writes if its map of tasks iterates in the order of `info.task_offset_sums`.

    Raises TaskAssignmentError if a task has a topology name and the version is below 10. Raises IllegalStateError for a
    future version, and InputError for a value that does not fit its field.
    """
    version = info.version
    if info.is_future:
        raise IllegalStateError(
            f"Should never try to encode a SubscriptionInfo with version [{version}] > LATEST_SUPPORTED_VERSION "
            f"[{LATEST_SUPPORTED_VERSION}]"
        )
    writer = Writer()
    writer.int32(version, "version")
    if version >= FIRST_VERSION_WITH_LATEST_SUPPORTED:
        writer.int32(info.latest_supported_version, "latest supported version")
    writer.process_id(info.process_id)
    if version < FIRST_VERSION_WITH_OFFSET_SUMS:
        _write_task_sets(writer, info)
    if version >= FIRST_VERSION_WITH_ENDPOINT:
        writer.nullable_byte_array(to_utf8(info.user_end_point or ""), "user end point")
    if version >= FIRST_VERSION_WITH_NAMED_TOPOLOGY:
        _write_task_sums(writer, info.task_offset_sums)
    elif version >= FIRST_VERSION_WITH_OFFSET_SUMS:
        _write_sums_by_subtopology(writer, info)
    if version >= FIRST_VERSION_WITH_UNIQUE_FIELD:
        writer.int8(info.unique_field, "unique field")
    if version >= FIRST_VERSION_WITH_SUBSCRIPTION_ERROR:
        writer.int32(info.error_code, "error code")
    if version >= FIRST_VERSION_WITH_CLIENT_TAGS:
        _write_client_tags(writer, info.client_tags)
    return writer.to_bytes()


def _refuse_named_topologies(info: SubscriptionInfo) -> None:
    if any(task.topology_name is not None for task in info.task_offset_sums):
        raise TaskAssignmentError("Named topologies are not compatible with older protocol versions")


def _write_task_sets(writer: Writer, info: SubscriptionInfo) -> None:
    _refuse_named_topologies(info)
    active: JavaHashSet[TaskId] = JavaHashSet()
    standby: JavaHashSet[TaskId] = JavaHashSet()
    for task, offset_sum in info.task_offset_sums.items():
        if offset_sum == LATEST_OFFSET or task in info.listed_twice:
            active.add(task)
        if offset_sum != LATEST_OFFSET:
            standby.add(task)
    for tasks in (active, standby):
        writer.int32(len(tasks), "tasks")
        writer.ints([number for task in tasks for number in task[:2]], "task id")


def _write_sums_by_subtopology(writer: Writer, info: SubscriptionInfo) -> None:
    _refuse_named_topologies(info)
    by_subtopology: dict[int, list[tuple[int, int]]] = {}
    for task, offset_sum in info.task_offset_sums.items():
        by_subtopology.setdefault(task.subtopology, []).append((task.partition, offset_sum))
    writer.int32(len(by_subtopology), "task offset sums")
    for subtopology in compute_if_absent_order(task.subtopology for task in info.task_offset_sums):
        writer.int32(subtopology, "subtopology")
        writer.int32(len(by_subtopology[subtopology]), "partitions")
        for partition, offset_sum in by_subtopology[subtopology]:
            writer.int32(partition, "partition")
            writer.int64(offset_sum, "offset sum")


def _write_task_sums(writer: Writer, task_offset_sums: Mapping[TaskId, int]) -> None:
    writer.int32(len(task_offset_sums), "task offset sums")
    for (subtopology, partition, topology_name), offset_sum in task_offset_sums.items():
        writer.int32(subtopology, "subtopology")
        writer.int32(partition, "partition")
        writer.int64(offset_sum, "offset sum")
        writer.nullable_string(topology_name, "topology name")


def _write_client_tags(writer: Writer, client_tags: Mapping[str, str]) -> None:
    writer.int32(len(client_tags), "client tags")
    for key, value in client_tags.items():
        writer.nullable_byte_array(to_utf8(key), "client tag")
        writer.nullable_byte_array(to_utf8(value), "client tag")


def decode_members(
    subscriptions: Mapping[str, bytes], largest_count: int = JAVA_INT_MAX
) -> Iterator[tuple[str, MemberSubscription]]:
    """Yields each member of a group with its decoded subscription, in the order of the leader's HashMap of member ids.

    `subscriptions`: the ConsumerProtocolSubscription of each member, by member id, in the order in which the leader
    received them. `largest_count`: the largest length of an array in a subscription. Raises DecodeError with the
    member's id.

    As in Kafka, all subscriptions are decoded before the user data of the first member. So an error in a subscription
    is raised before any error in user data. Equal bytes of several members are decoded only once. Equal bytes are
    common, because many threads of a process may have no task.
    """
    decoded: dict[bytes, Subscription] = {}
    for member_id, raw in subscriptions.items():
        if raw not in decoded:
            try:
                decoded[raw] = decode_subscription(raw, largest_count)
            except DecodeError as error:
                raise _error_of_member(member_id, error) from error
    members: dict[bytes, MemberSubscription] = {}
    for member_id in _in_map_order(tuple(subscriptions)):
        raw = subscriptions[member_id]
        member = members.get(raw)
        if member is None:
            try:
                member = members[raw] = _with_user_data(decoded[raw], largest_count)
            except DecodeError as error:
                raise _error_of_member(member_id, error) from error
        yield member_id, member


def decode_member(subscription: bytes) -> MemberSubscription:
    """Decodes the ConsumerProtocolSubscription of one member. Raises DecodeError."""
    return _with_user_data(decode_subscription(subscription))


@lru_cache(maxsize=_GROUPS_KEPT)
def _in_map_order(member_ids: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the member ids in the order of a HashMap. The result is cached, because the members of a group seldom
    change.
    """
    return tuple(hash_set_order(member_ids, string_hash))


def _error_of_member(member_id: str, error: DecodeError) -> DecodeError:
    return DecodeError(f"subscription of member {member_id}: {error.what}", error.reason, error.offset, member_id)


def _with_user_data(subscription: Subscription, largest_count: int = JAVA_INT_MAX) -> MemberSubscription:
    if not subscription.user_data:
        raise DecodeError("user data", "a Kafka Streams member sends a SubscriptionInfo, but there is none", 0)
    return MemberSubscription(subscription, decode_subscription_info(subscription.user_data, largest_count))


def decode_subscription_info(data: bytes | memoryview, largest_count: int = JAVA_INT_MAX) -> SubscriptionInfo:
    """Decodes a SubscriptionInfo. `largest_count`: the largest length of an array. Raises DecodeError.

    Differs from Kafka: a repeated client tag raises an error immediately, while Kafka throws only when it reads the
    tags.
    """
    reader, version, latest_supported = _after_versions(data, largest_count)
    if version > LATEST_SUPPORTED_VERSION:
        return SubscriptionInfo(version, latest_supported)
    process_id = reader.process_id("process id")
    offset_sums: dict[TaskId, int] = {}
    listed_twice: frozenset[TaskId] = frozenset()
    end_point = b""
    if version < FIRST_VERSION_WITH_OFFSET_SUMS:
        active = _read_task_set(reader, "previous tasks")
        standby = _read_task_set(reader, "standby tasks")
        offset_sums = dict.fromkeys(active, LATEST_OFFSET) | dict.fromkeys(standby, UNKNOWN_OFFSET_SUM)
        listed_twice = frozenset(active).intersection(standby)
    if version >= FIRST_VERSION_WITH_ENDPOINT:
        end_point = reader.byte_array("user end point")
    if version >= FIRST_VERSION_WITH_NAMED_TOPOLOGY:
        offset_sums = _read_task_sums(reader)
    elif version >= FIRST_VERSION_WITH_OFFSET_SUMS:
        offset_sums = _read_sums_by_subtopology(reader)
    unique_field = reader.int8("unique field") if version >= FIRST_VERSION_WITH_UNIQUE_FIELD else 0
    error_code = reader.int32("error code") if version >= FIRST_VERSION_WITH_SUBSCRIPTION_ERROR else 0
    client_tags = reader.text_by_key("client tag") if version >= FIRST_VERSION_WITH_CLIENT_TAGS else {}
    return SubscriptionInfo(
        version,
        latest_supported,
        process_id,
        from_utf8(end_point) or None,
        offset_sums,
        unique_field,
        error_code,
        client_tags,
        listed_twice,
    )


def read_process_id(data: bytes | memoryview) -> ProcessId | None:
    """Reads the process id of a SubscriptionInfo, and none of the fields behind it, so the time does not depend on the
    number of tasks. Returns None if the version is above LATEST_SUPPORTED_VERSION. Raises DecodeError.
    """
    reader, version, _ = _after_versions(data, JAVA_INT_MAX)
    return None if version > LATEST_SUPPORTED_VERSION else reader.process_id("process id")


def _after_versions(data: bytes | memoryview, largest_count: int) -> tuple[Reader, int, int]:
    """Reads the two version numbers. Returns a reader of the other fields, and the two version numbers."""
    reader = Reader(data, "SubscriptionInfo", largest_count)
    version = reader.int32("version")
    if version < 1:
        raise reader.error(f"unknown version {version}", 0)
    latest_supported = UNKNOWN_VERSION
    if version >= FIRST_VERSION_WITH_LATEST_SUPPORTED:
        latest_supported = reader.int32("latest supported version")
    problem = _version_problem(version, latest_supported)
    if problem is not None:
        raise reader.error(problem, 0)
    return reader, version, latest_supported


def _read_task_set(reader: Reader, kind: str) -> list[TaskId]:
    numbers = reader.ints(2 * reader.count(kind, _SMALLEST_TASK_ID), kind)
    return list(map(TaskId, numbers[::2], numbers[1::2]))


def _read_sums_by_subtopology(reader: Reader) -> dict[TaskId, int]:
    offset_sums: dict[TaskId, int] = {}
    for _ in range(reader.count("task offset sums", _SMALLEST_SUBTOPOLOGY_SUMS)):
        subtopology = reader.int32("subtopology")
        count = reader.count("partitions", _PARTITION_SUM.size)
        for partition, offset_sum in reader.peek_rows(_PARTITION_SUM, count, "partitions"):
            offset_sums[TaskId(subtopology, partition)] = offset_sum
        reader.skip(_PARTITION_SUM.size * count, "partitions")
    return offset_sums


def _read_task_sums(reader: Reader) -> dict[TaskId, int]:
    """Reads the offset sums. Fast path: if no task has a topology name, the encoded sums of all tasks have the same
    length. (Kafka Streams 4 has no named topologies any more.)
    """
    count = reader.count("task offset sums", _TASK_SUM.size)
    if not count:
        return {}
    rows = reader.peek_rows(_TASK_SUM, count, "task offset sums")
    subtopologies, partitions, offset_sums, name_lengths = zip(*rows, strict=True)
    if max(name_lengths) > 0:
        return _read_named_task_sums(reader, count)
    reader.skip(_TASK_SUM.size * count, "task offset sums")
    return dict(zip(map(TaskId, subtopologies, partitions), offset_sums, strict=True))


def _read_named_task_sums(reader: Reader, count: int) -> dict[TaskId, int]:
    offset_sums: dict[TaskId, int] = {}
    for _ in range(count):
        subtopology = reader.int32("subtopology")
        partition = reader.int32("partition")
        offset_sum = reader.int64("offset sum")
        name = reader.nullable_string("topology name")
        offset_sums[TaskId(subtopology, partition, name or None)] = offset_sum
    return offset_sums
