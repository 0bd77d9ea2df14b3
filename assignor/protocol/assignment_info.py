"""AssignmentInfo: what the leader sends to one Kafka Streams consumer, as user data of its assignment.

It holds the active tasks (one for each assigned partition, in the same order), the standby tasks with their
partitions, the partitions of each host for queries, an error code, and when to rebalance next. Since version 5 the
host maps name a topic by its index in a dictionary that precedes them. `assignment_info_encoder` writes it. Source:
`AssignmentInfo`, `ConsumerProtocolUtils`; KIP-441, KIP-535.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from assignor.errors import DecodeError
from assignor.protocol.consumer_protocol import user_data_of_head
from assignor.protocol.primitives import Reader, from_utf16_units
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.protocol.versions import (
    FIRST_VERSION_WITH_ASSIGNMENT_ERROR,
    FIRST_VERSION_WITH_ENDPOINT,
    FIRST_VERSION_WITH_LATEST_SUPPORTED,
    FIRST_VERSION_WITH_NAMED_TOPOLOGY,
    FIRST_VERSION_WITH_NEXT_REBALANCE,
    FIRST_VERSION_WITH_STANDBY_HOSTS,
    FIRST_VERSION_WITH_TOPIC_DICTIONARY,
    LATEST_SUPPORTED_VERSION,
    UNKNOWN_VERSION,
    check_version,
)
from assignor.types import JAVA_LONG_MAX, HostInfo, TaskId, TopicPartition

HostPartitions = Mapping[HostInfo, tuple[TopicPartition, ...]]
"""Each host with the partitions of which it holds a copy, each partition once."""

_SMALLEST_HOST = 2 + 4 + 4
_SMALLEST_DICTIONARY_ENTRY = 4 + 2
_SMALLEST_NAMED_PARTITION = 2 + 4
_SMALLEST_INDEXED_PARTITION = 4 + 4
_ERROR_CODE_BYTES = 4
_NEXT_REBALANCE_BYTES = 8


@dataclass(frozen=True, slots=True)
class AssignmentInfo:
    """Fields that `version` does not carry have their defaults; mappings and tuples keep the order on the wire.

    `next_rebalance_ms`: JAVA_LONG_MAX means never, 0 at once. Raises IllegalArgumentError for a version outside 1 to
    11.
    """

    version: int
    commonly_supported_version: int = LATEST_SUPPORTED_VERSION
    active_tasks: tuple[TaskId, ...] = ()
    standby_tasks: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    partitions_by_host: HostPartitions = field(default_factory=dict)
    standby_partitions_by_host: HostPartitions = field(default_factory=dict)
    err_code: int = 0
    next_rebalance_ms: int = JAVA_LONG_MAX

    def __post_init__(self) -> None:
        check_version(self.version)


class AssignedTasks(NamedTuple):
    """The first part of an AssignmentInfo: versions and tasks, without partitions and hosts."""

    version: int
    commonly_supported_version: int
    active_tasks: tuple[TaskId, ...]
    standby_tasks: tuple[TaskId, ...]


def decode_assigned_tasks(data: bytes | memoryview) -> AssignedTasks:
    """Reads only the tasks: the host maps after them name every partition of the group. Raises DecodeError."""
    reader = Reader(data, "AssignmentInfo")
    version, commonly_supported = _read_versions(reader)
    active_tasks = _read_active_tasks(reader, version)
    return AssignedTasks(version, commonly_supported, active_tasks, tuple(_read_standby_tasks(reader, version)))


class TasksOfMember(NamedTuple):
    """Each task once, in the order on the wire."""

    active: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()


def read_tasks(assignment: bytes | memoryview) -> TasksOfMember:
    """The tasks of a ConsumerProtocolAssignment, of which only the head is needed (`AssignmentParts.head`).

    No tasks for an assignment without user data. The host maps, which name every partition of the group, are never
    read. Raises DecodeError.
    """
    start = user_data_of_head(assignment)
    if start is None:
        return TasksOfMember()
    reader = start.reader
    version, _ = _read_versions(reader)
    # the wire lists a task once for each of its partitions
    active = tuple(dict.fromkeys(_read_active_tasks(reader, version)))
    return TasksOfMember(active, tuple(_read_standby_tasks(reader, version)))


def read_error_code(assignment: AssignmentParts) -> int:
    """The error code of an assignment that is cut as `split_assignment` cuts it: the end of what members share.

    0 without user data, and for versions that carry none. Raises DecodeError.
    """
    start = user_data_of_head(assignment.head)
    if start is None or _read_versions(start.reader)[0] < FIRST_VERSION_WITH_ASSIGNMENT_ERROR:
        return 0
    if len(assignment.shared) < _ERROR_CODE_BYTES:
        raise start.reader.error("there is no error code")
    return int.from_bytes(assignment.shared[-_ERROR_CODE_BYTES:], "big", signed=True)


def split_assignment(assignment: bytes) -> AssignmentParts:
    """A ConsumerProtocolAssignment cut after its tasks and before its next rebalance: what is between is the same for
    all members of a rebalance. Bytes that are not of Kafka Streams stay whole, as the head.
    """
    try:
        start = user_data_of_head(assignment)
        if start is None:
            return AssignmentParts(assignment)
        reader, user_data = start.reader, start.reader.offset
        version, _ = _read_versions(reader)
        _read_active_tasks(reader, version)
        _read_standby_tasks(reader, version)
    except DecodeError:
        return AssignmentParts(assignment)
    after_tasks, end = reader.offset, user_data + start.length
    after_shared = end - _NEXT_REBALANCE_BYTES if version >= FIRST_VERSION_WITH_NEXT_REBALANCE else end
    if not after_tasks <= after_shared <= len(assignment):
        return AssignmentParts(assignment)
    return AssignmentParts(assignment[:after_tasks], assignment[after_tasks:after_shared], assignment[after_shared:])


def decode_assignment_info(data: bytes | memoryview) -> AssignmentInfo:
    """Raises DecodeError.

    Differs from Kafka: a negative length of a topology name, and a topic index that the dictionary lacks, are errors;
    Kafka reads the first as no name and the second as a partition of the topic null.
    """
    reader = Reader(data, "AssignmentInfo")
    version, commonly_supported = _read_versions(reader)
    active_tasks = _read_active_tasks(reader, version)
    standby_tasks = _read_standby_tasks(reader, version)
    by_host, standby_by_host = _read_host_maps(reader, version)
    return AssignmentInfo(
        version=version,
        commonly_supported_version=commonly_supported,
        active_tasks=active_tasks,
        standby_tasks=standby_tasks,
        partitions_by_host=by_host,
        standby_partitions_by_host=standby_by_host,
        err_code=reader.int32("error code") if version >= FIRST_VERSION_WITH_ASSIGNMENT_ERROR else 0,
        next_rebalance_ms=(
            reader.int64("next rebalance") if version >= FIRST_VERSION_WITH_NEXT_REBALANCE else JAVA_LONG_MAX
        ),
    )


def _read_versions(reader: Reader) -> tuple[int, int]:
    version = reader.int32("version")
    if not 1 <= version <= LATEST_SUPPORTED_VERSION:
        raise reader.error(f"unknown version {version}", 0)
    if version < FIRST_VERSION_WITH_LATEST_SUPPORTED:
        return version, UNKNOWN_VERSION
    return version, reader.int32("commonly supported version")


def _read_active_tasks(reader: Reader, version: int) -> tuple[TaskId, ...]:
    """Without topology names all tasks have the same length and are read in one go."""
    if version < FIRST_VERSION_WITH_NAMED_TOPOLOGY:
        numbers = reader.ints(2 * reader.count("active tasks", 8), "active tasks")
        return tuple(map(TaskId, numbers[::2], numbers[1::2]))
    count = reader.count("active tasks", 12)
    numbers = reader.peek_ints(3 * count, "active tasks")
    if any(numbers[2::3]):
        return tuple([_read_task_id(reader, version) for _ in range(count)])
    reader.skip(12 * count, "active tasks")
    return tuple(map(TaskId, numbers[::3], numbers[1::3]))


def _read_task_id(reader: Reader, version: int) -> TaskId:
    subtopology, partition = reader.ints(2, "task id")
    if version < FIRST_VERSION_WITH_NAMED_TOPOLOGY:
        return TaskId(subtopology, partition)
    units = reader.count("characters in topology name", 2)
    name = from_utf16_units(reader.raw(2 * units, "topology name"))
    return TaskId(subtopology, partition, name or None)


def _read_standby_tasks(reader: Reader, version: int) -> dict[TaskId, tuple[TopicPartition, ...]]:
    smallest = 12 if version < FIRST_VERSION_WITH_NAMED_TOPOLOGY else 16
    tasks: dict[TaskId, tuple[TopicPartition, ...]] = {}
    for _ in range(reader.count("standby tasks", smallest)):
        task = _read_task_id(reader, version)
        tasks[task] = _read_named_partitions(reader)
    return tasks


def _read_host_maps(reader: Reader, version: int) -> tuple[HostPartitions, HostPartitions]:
    if version < FIRST_VERSION_WITH_ENDPOINT:
        return {}, {}
    if version < FIRST_VERSION_WITH_TOPIC_DICTIONARY:
        return _read_host_map(reader, _read_named_partitions), {}
    topics = _read_topic_dictionary(reader)

    def read_indexed(reader: Reader) -> tuple[TopicPartition, ...]:
        return _read_indexed_partitions(reader, topics)

    by_host = _read_host_map(reader, read_indexed)
    return by_host, _read_host_map(reader, read_indexed) if version >= FIRST_VERSION_WITH_STANDBY_HOSTS else {}


def _read_topic_dictionary(reader: Reader) -> dict[int, str]:
    topics: dict[int, str] = {}
    for _ in range(reader.count("topics", _SMALLEST_DICTIONARY_ENTRY)):
        index = reader.int32("topic index")
        topics[index] = reader.modified_utf8("topic")
    return topics


def _read_host_map(
    reader: Reader, read_partitions: Callable[[Reader], tuple[TopicPartition, ...]]
) -> dict[HostInfo, tuple[TopicPartition, ...]]:
    hosts: dict[HostInfo, tuple[TopicPartition, ...]] = {}
    for _ in range(reader.count("hosts", _SMALLEST_HOST)):
        host = HostInfo(reader.modified_utf8("host"), reader.int32("port"))
        hosts[host] = read_partitions(reader)
    return hosts


def _read_named_partitions(reader: Reader) -> tuple[TopicPartition, ...]:
    partitions: dict[TopicPartition, None] = {}
    for _ in range(reader.count("partitions", _SMALLEST_NAMED_PARTITION)):
        topic = reader.modified_utf8("topic")
        partitions[TopicPartition(topic, reader.int32("partition"))] = None
    return tuple(partitions)


def _read_indexed_partitions(reader: Reader, topics: Mapping[int, str]) -> tuple[TopicPartition, ...]:
    start = reader.offset
    numbers = reader.ints(2 * reader.count("partitions", _SMALLEST_INDEXED_PARTITION), "partitions")
    try:
        names = [topics[index] for index in numbers[::2]]
    except KeyError as error:
        raise reader.error(f"topic index {error.args[0]} is not in the dictionary of {len(topics)}", start) from None
    return tuple(dict.fromkeys(map(TopicPartition, names, numbers[1::2])))
