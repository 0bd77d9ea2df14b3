"""Writes AssignmentInfo; what all members of a rebalance share is encoded once.

Every member gets the same versions and the same host maps, which are by far the longest part; only its tasks differ.
So one encoder is made for a rebalance, and then called for each member. Source: `AssignmentInfo.encode`.

Kafka writes hosts, partitions and topics in the order of its hash maps. Here every mapping and tuple is written in its
own order, and the topic dictionary in the order that Kafka would give it for those hosts and partitions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from assignor.errors import InputError, TaskAssignmentError
from assignor.java.order import JavaHashMap, JavaHashSet
from assignor.protocol.assignment_info import AssignmentInfo, HostPartitions
from assignor.protocol.primitives import Writer, pack_ints, pack_modified_utf8, to_utf16_units
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.protocol.versions import (
    FIRST_VERSION_WITH_ASSIGNMENT_ERROR,
    FIRST_VERSION_WITH_ENDPOINT,
    FIRST_VERSION_WITH_LATEST_SUPPORTED,
    FIRST_VERSION_WITH_NAMED_TOPOLOGY,
    FIRST_VERSION_WITH_NEXT_REBALANCE,
    FIRST_VERSION_WITH_STANDBY_HOSTS,
    FIRST_VERSION_WITH_TOPIC_DICTIONARY,
    check_version,
)
from assignor.types import JAVA_LONG_MAX, TaskId, TopicPartition

_OLD_TASK_ID = struct.Struct(">ii")
_UNNAMED_TASK_ID = struct.Struct(">ii4x")  # the name has length 0
_INT32 = struct.Struct(">i")
_NO_NEXT_REBALANCE = struct.pack(">q", JAVA_LONG_MAX)


class AssignmentInfoEncoder:
    """Encodes the members of one rebalance: what they share is encoded once.

    `topic_dictionary`: the index of each topic of the host maps, in the order to write them; None for Kafka's own.
    Raises IllegalArgumentError for a version outside 1 to 11, InputError for a value that does not fit its field.
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
        check_version(version)
        self._version = version
        self._has_names = version >= FIRST_VERSION_WITH_NAMED_TOPOLOGY
        self._pack_unnamed = (_UNNAMED_TASK_ID if self._has_names else _OLD_TASK_ID).pack
        self._versions = _encode_versions(version, commonly_supported_version)
        host_maps = _encode_host_maps(version, partitions_by_host, standby_partitions_by_host, topic_dictionary)
        self._after_tasks = host_maps + _encode_error(version, err_code)
        self._topics: dict[str, bytes] = {}

    def encode(
        self,
        active_tasks: Sequence[TaskId],
        standby_tasks: Mapping[TaskId, Iterable[TopicPartition]],
        next_rebalance_ms: int = JAVA_LONG_MAX,
    ) -> bytes:
        """The user data of one member. Raises TaskAssignmentError for a named topology before version 10."""
        return bytes(self.parts(active_tasks, standby_tasks, next_rebalance_ms))

    def parts(
        self,
        active_tasks: Sequence[TaskId],
        standby_tasks: Mapping[TaskId, Iterable[TopicPartition]],
        next_rebalance_ms: int = JAVA_LONG_MAX,
    ) -> AssignmentParts:
        """As `encode`, not joined: `shared` is one object for all members of the rebalance."""
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
    """One AssignmentInfo alone; for a whole rebalance use one AssignmentInfoEncoder."""
    encoder = AssignmentInfoEncoder(
        info.version,
        info.commonly_supported_version,
        info.partitions_by_host,
        info.standby_partitions_by_host,
        info.err_code,
        topic_dictionary,
    )
    return encoder.encode(info.active_tasks, info.standby_tasks, info.next_rebalance_ms)


def java_topic_dictionary(*host_maps: HostPartitions) -> JavaHashMap[str, int]:
    """The dictionary that Kafka makes when its hash maps walk these hosts and partitions in the order given.

    Topics are numbered as they first appear in a HashSet of all partitions, and written in the order of a HashMap.
    """
    partitions = chain.from_iterable(chain.from_iterable(hosts.values() for hosts in host_maps))
    dictionary: JavaHashMap[str, int] = JavaHashMap()
    for topic in dict.fromkeys(partition.topic for partition in JavaHashSet(partitions)):
        dictionary[topic] = len(dictionary)
    return dictionary


def _encode_versions(version: int, commonly_supported_version: int) -> bytes:
    if version < FIRST_VERSION_WITH_LATEST_SUPPORTED:
        return pack_ints((version,), "version")
    return pack_ints((version, commonly_supported_version), "commonly supported version")


def _encode_error(version: int, err_code: int) -> bytes:
    return pack_ints((err_code,), "error code") if version >= FIRST_VERSION_WITH_ASSIGNMENT_ERROR else b""


def _encode_named_task_id(task: TaskId) -> bytes:
    units = to_utf16_units(task.topology_name or "")
    return pack_ints((task.subtopology, task.partition, len(units) // 2), "task id") + units


def _encode_named_partitions(partitions: Iterable[TopicPartition], topics: dict[str, bytes]) -> bytes:
    """`topics`: the topic names encoded so far; new ones are added."""
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


def _encode_host_maps(
    version: int, by_host: HostPartitions, standby_by_host: HostPartitions, dictionary: Mapping[str, int] | None
) -> bytes:
    if version < FIRST_VERSION_WITH_ENDPOINT:
        return b""
    if version < FIRST_VERSION_WITH_TOPIC_DICTIONARY:
        return _encode_host_map_by_name(by_host)
    host_maps = [by_host] if version < FIRST_VERSION_WITH_STANDBY_HOSTS else [by_host, standby_by_host]
    indexes = java_topic_dictionary(*host_maps) if dictionary is None else dictionary
    writer = Writer()
    writer.int32(len(indexes), "topics")
    for topic, index in indexes.items():
        writer.int32(index, "topic index")
        writer.modified_utf8(topic, "topic")
    plain_indexes = dict(indexes)
    for hosts in host_maps:
        writer.raw(_encode_host_map_by_index(hosts, plain_indexes))
    return writer.to_bytes()


def _encode_host_map_by_name(hosts: HostPartitions) -> bytes:
    writer = Writer()
    topics: dict[str, bytes] = {}
    writer.int32(len(hosts), "hosts")
    for host, partitions in hosts.items():
        writer.modified_utf8(host.host, "host")
        writer.int32(host.port, "port")
        writer.raw(_encode_named_partitions(partitions, topics))
    return writer.to_bytes()


def _encode_host_map_by_index(hosts: HostPartitions, indexes: Mapping[str, int]) -> bytes:
    writer = Writer()
    writer.int32(len(hosts), "hosts")
    for host, partitions in hosts.items():
        writer.modified_utf8(host.host, "host")
        writer.int32(host.port, "port")
        writer.int32(len(partitions), "partitions")
        writer.ints([number for topic, partition in partitions for number in (indexes[topic], partition)], "partition")
    return writer.to_bytes()
