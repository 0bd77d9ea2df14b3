"""AssignmentInfo: the user data of the assignment that the leader sends to a Kafka Streams consumer.

An AssignmentInfo contains the active tasks, and the standby tasks with their partitions. An AssignmentInfo also
contains the partitions of each host (for queries), an error code, and the time of the next rebalance. The list of
active tasks has one task for each assigned partition, in the order of the partitions. Since version 5, the host maps
refer to topics by index, and a dictionary of the topics precedes the host maps.

All members of a rebalance get the same versions and the same host maps, which are by far the longest part. In the
assignments of a rebalance, only the tasks and the time of the next rebalance differ between members. So there is one
`AssignmentInfoEncoder` for each rebalance. `AssignmentInfoEncoder` encodes the common part once, and the rest for each
member. Kafka writes hosts, partitions and topics in the order of its hash maps. `AssignmentInfoEncoder` writes the
elements of each mapping and tuple in the order in which they are given. The topic dictionary has the iteration order of
the hash map that Kafka would fill with the given hosts and partitions. Source: `AssignmentInfo`,
`ConsumerProtocolUtils`; KIP-441, KIP-535.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from assignor.errors import DecodeError, IllegalArgumentError, InputError, TaskAssignmentError
from assignor.java.hash_codes import string_hash, topic_partition_hash
from assignor.java.order import hash_set_order
from assignor.protocol.consumer_protocol import user_data_of_head
from assignor.protocol.primitives import Reader, Writer, from_utf16_units, pack_ints, pack_modified_utf8, to_utf16_units
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
)
from assignor.types import JAVA_LONG_MAX, HostInfo, TaskId, TopicPartition

HostPartitions = Mapping[HostInfo, tuple[TopicPartition, ...]]
"""For each host, the partitions of which the host has a copy. A host has each partition only once."""

StandbyTasks = Mapping[TaskId, Iterable[TopicPartition]]
"""The standby tasks of a member, each with its partitions."""

_SMALLEST_HOST = 2 + 4 + 4
_SMALLEST_DICTIONARY_ENTRY = 4 + 2
_SMALLEST_NAMED_PARTITION = 2 + 4
_SMALLEST_INDEXED_PARTITION = 4 + 4
_ERROR_CODE_BYTES = 4
_NEXT_REBALANCE_BYTES = 8


@dataclass(frozen=True, slots=True)
class AssignmentInfo:
    """A decoded AssignmentInfo. A field has its default value if `version` lacks the field. Mappings and tuples have
    the same order as the encoded bytes.

    `next_rebalance_ms`: the time of the next rebalance; JAVA_LONG_MAX stands for never, and 0 stands for immediately.
    Raises IllegalArgumentError for a version outside 1 to 11.
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
        _check_version(self.version)


class AssignedTasks(NamedTuple):
    """The first part of an AssignmentInfo: versions and tasks, without partitions and hosts."""

    version: int
    commonly_supported_version: int
    active_tasks: tuple[TaskId, ...]
    standby_tasks: tuple[TaskId, ...]


def decode_assigned_tasks(data: bytes | memoryview) -> AssignedTasks:
    """Decodes only the tasks of an AssignmentInfo. Skips the host maps after the tasks, because the host maps contain
    every partition of the group. Raises DecodeError.
    """
    reader = Reader(data, "AssignmentInfo")
    version, commonly_supported = _read_versions(reader)
    active_tasks = _read_active_tasks(reader, version)
    return AssignedTasks(version, commonly_supported, active_tasks, tuple(_read_standby_tasks(reader, version)))


class TasksOfMember(NamedTuple):
    """The tasks of a member, each task once, in the order of the encoded bytes."""

    active: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()


def read_tasks(assignment: bytes | memoryview) -> TasksOfMember:
    """Returns the tasks of a ConsumerProtocolAssignment. `assignment`: the whole assignment, or only its head
    (`AssignmentParts.head`).

    An assignment without user data has no tasks. Raises DecodeError.
    """
    start = user_data_of_head(assignment)
    if start is None:
        return TasksOfMember()
    reader = start.reader
    version, _ = _read_versions(reader)
    # the AssignmentInfo lists an active task once for each of its partitions
    active = tuple(dict.fromkeys(_read_active_tasks(reader, version)))
    return TasksOfMember(active, tuple(_read_standby_tasks(reader, version)))


def read_error_code(assignment: AssignmentParts) -> int:
    """Returns the error code of an assignment that `split_assignment` has split. The error code is at the end of the
    part `shared`.

    Returns 0 for an assignment without user data, and for versions without an error code. Raises DecodeError.
    """
    start = user_data_of_head(assignment.head)
    if start is None or _read_versions(start.reader)[0] < FIRST_VERSION_WITH_ASSIGNMENT_ERROR:
        return 0
    if len(assignment.shared) < _ERROR_CODE_BYTES:
        raise start.reader.error("there is no error code")
    return int.from_bytes(assignment.shared[-_ERROR_CODE_BYTES:], "big", signed=True)


def split_assignment(assignment: bytes) -> AssignmentParts:
    """Splits a ConsumerProtocolAssignment at two places: after the tasks, and before the time of the next rebalance.
    The part between the tasks and the next rebalance time is the same for all members of a rebalance. Bytes of an
    application other than Kafka Streams are not split: the head contains all these bytes.
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
    """Decodes an AssignmentInfo. Raises DecodeError.

    Differs from Kafka: a topology name of negative length is an error, while Kafka treats it as a missing name. It is
    an error if a topic index is not in the dictionary. Kafka decodes such an index as a partition of the topic null.
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
    """Reads the active tasks. Fast path: if no task has a topology name, all tasks have the same length and are decoded
    by one call.
    """
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


_OLD_TASK_ID = struct.Struct(">ii")
_UNNAMED_TASK_ID = struct.Struct(">ii4x")  # the last four bytes are the length of the topology name, 0
_INT32 = struct.Struct(">i")
_TOPIC = itemgetter(0)
_NO_NEXT_REBALANCE = struct.pack(">q", JAVA_LONG_MAX)


class AssignmentInfoEncoder:
    """Encodes the user data of all members of one rebalance. The common part of all members is encoded only once.

    `topic_dictionary`: the index of each topic of the host maps; topics are written in the order of this mapping. If
    `topic_dictionary` is None, the encoder makes the dictionary that Kafka would make. Raises IllegalArgumentError for
    a version outside 1 to 11, and InputError for a value that does not fit its field.
    """

    def __init__(
        self,
        version: int,
        commonly_supported_version: int,
        partitions_by_host: HostPartitions,
        standby_partitions_by_host: HostPartitions,
        err_code: int = 0,
        topic_dictionary: Mapping[str, int] | None = None,
    ) -> None:
        _check_version(version)
        self._version = version
        self._has_names = version >= FIRST_VERSION_WITH_NAMED_TOPOLOGY
        self._pack_unnamed = (_UNNAMED_TASK_ID if self._has_names else _OLD_TASK_ID).pack
        self._after_tasks = _encode_after_tasks(
            version, partitions_by_host, standby_partitions_by_host, topic_dictionary, err_code
        )
        sends_both = version >= FIRST_VERSION_WITH_LATEST_SUPPORTED
        versions = (version, commonly_supported_version) if sends_both else (version,)
        self._versions = pack_ints(versions, "commonly supported version")
        self._topics: dict[str, bytes] = {}

    def encode(
        self, active_tasks: Sequence[TaskId], standby_tasks: StandbyTasks, next_rebalance_ms: int = JAVA_LONG_MAX
    ) -> bytes:
        """Returns the user data of one member. Raises TaskAssignmentError if a task has a topology name and the version
        is below 10.
        """
        return bytes(self.parts(active_tasks, standby_tasks, next_rebalance_ms))

    def parts(
        self, active_tasks: Sequence[TaskId], standby_tasks: StandbyTasks, next_rebalance_ms: int = JAVA_LONG_MAX
    ) -> AssignmentParts:
        """Returns the user data as `encode` does, but in three parts. The part `shared` is the same object for all
        members.
        """
        head = [self._versions, _INT32.pack(len(active_tasks)), *map(self._encode_task_id, active_tasks)]
        head.append(_INT32.pack(len(standby_tasks)))
        for task, partitions in standby_tasks.items():
            head.append(self._encode_task_id(task))
            head.append(_encode_named_partitions(partitions, self._topics))
        return AssignmentParts(b"".join(head), self._after_tasks, self._tail(next_rebalance_ms))

    def _tail(self, next_rebalance_ms: int) -> bytes:
        if self._version < FIRST_VERSION_WITH_NEXT_REBALANCE:
            return b""
        if next_rebalance_ms == JAVA_LONG_MAX:
            return _NO_NEXT_REBALANCE
        tail = Writer()
        tail.int64(next_rebalance_ms, "next rebalance")
        return tail.to_bytes()

    def _encode_task_id(self, task: TaskId) -> bytes:
        subtopology, partition, topology_name = task
        if topology_name:
            if not self._has_names:
                raise TaskAssignmentError(f"Named topologies are not compatible with protocol version {self._version}")
            return _encode_named_task_id(task)
        try:
            return self._pack_unnamed(subtopology, partition)
        except struct.error as error:
            raise InputError("a number does not fit an int32", "task id") from error


def encode_assignment_info(info: AssignmentInfo, topic_dictionary: Mapping[str, int] | None = None) -> bytes:
    """Encodes a single AssignmentInfo. To encode a whole rebalance, use one AssignmentInfoEncoder instead."""
    encoder = AssignmentInfoEncoder(
        info.version,
        info.commonly_supported_version,
        info.partitions_by_host,
        info.standby_partitions_by_host,
        info.err_code,
        topic_dictionary,
    )
    return encoder.encode(info.active_tasks, info.standby_tasks, info.next_rebalance_ms)


def java_topic_dictionary(*host_maps: HostPartitions) -> dict[str, int]:
    """Returns the dictionary that Kafka makes if its hash maps have these hosts and partitions in the given order.

    Topics are numbered in the order in which they first occur in a HashSet of all partitions. The topics are written in
    the order of a HashMap.
    """
    partitions = list(chain.from_iterable(chain.from_iterable([hosts.values() for hosts in host_maps])))
    topics = dict.fromkeys(map(_TOPIC, hash_set_order(partitions, topic_partition_hash)))
    numbers = {topic: number for number, topic in enumerate(topics)}
    return {topic: numbers[topic] for topic in hash_set_order(numbers, string_hash)}


def _encode_named_task_id(task: TaskId) -> bytes:
    units = to_utf16_units(task.topology_name or "")
    return pack_ints((task.subtopology, task.partition, len(units) // 2), "task id") + units


def _encode_named_partitions(partitions: Iterable[TopicPartition], topics: dict[str, bytes]) -> bytes:
    """Encodes partitions with their topic names. `topics`: a cache of encoded topic names, which this function
    fills.
    """
    encoded: list[bytes] = []
    for topic, partition in partitions:
        name = topics.get(topic)
        if name is None:
            name = topics[topic] = pack_modified_utf8(topic, "topic")
        try:
            encoded += (name, _INT32.pack(partition))
        except struct.error as error:
            raise InputError("a number does not fit an int32", "partition") from error
    return _INT32.pack(len(encoded) // 2) + b"".join(encoded)


def _encode_after_tasks(
    version: int,
    by_host: HostPartitions,
    standby_by_host: HostPartitions,
    dictionary: Mapping[str, int] | None,
    err_code: int,
) -> bytes:
    """Encodes the host maps and the error code, which are the same for all members of a rebalance."""
    if version < FIRST_VERSION_WITH_ENDPOINT:
        return b""
    host_maps = [by_host] if version < FIRST_VERSION_WITH_STANDBY_HOSTS else [by_host, standby_by_host]
    indexes: Mapping[str, int] = {}
    if version >= FIRST_VERSION_WITH_TOPIC_DICTIONARY:
        indexes = java_topic_dictionary(*host_maps) if dictionary is None else dictionary
    writer = Writer()
    if version < FIRST_VERSION_WITH_TOPIC_DICTIONARY:
        _write_host_map_by_name(writer, by_host)
    else:
        writer.int32(len(indexes), "topics")
        for topic, index in indexes.items():
            writer.int32(index, "topic index")
            writer.modified_utf8(topic, "topic")
        for hosts in host_maps:
            writer.int32(len(hosts), "hosts")
            for host, partitions in hosts.items():
                writer.modified_utf8(host.host, "host")
                writer.int32(host.port, "port")
                writer.int32(len(partitions), "partitions")
                numbers = [number for topic, partition in partitions for number in (indexes[topic], partition)]
                writer.ints(numbers, "partition")
    if version >= FIRST_VERSION_WITH_ASSIGNMENT_ERROR:
        writer.int32(err_code, "error code")
    return writer.to_bytes()


def _write_host_map_by_name(writer: Writer, hosts: HostPartitions) -> None:
    topics: dict[str, bytes] = {}
    writer.int32(len(hosts), "hosts")
    for host, partitions in hosts.items():
        writer.modified_utf8(host.host, "host")
        writer.int32(host.port, "port")
        writer.raw(_encode_named_partitions(partitions, topics))


def _check_version(version: int) -> None:
    """Raises IllegalArgumentError for a version that AssignmentInfo does not have."""
    if not 1 <= version <= LATEST_SUPPORTED_VERSION:
        raise IllegalArgumentError(f"version must be between 1 and {LATEST_SUPPORTED_VERSION}; was: {version}")
