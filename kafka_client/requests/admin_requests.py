"""Admin requests in versions that aiokafka does not have, written as aiokafka writes its own.

OffsetFetch 7 can ask for stable offsets only (KIP-447). DescribeGroups 4 returns `group.instance.id`. CreateTopics 4
lets the cluster choose the replication factor (KIP-464). IncrementalAlterConfigs changes some configs and leaves the
others (KIP-339). Source: the protocol's message definitions.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.admin import CreateTopicsRequest_v2, CreateTopicsRequest_v3, CreateTopicsResponse_v3
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetFetchRequest_v3
from aiokafka.protocol.types import (
    Array,
    Boolean,
    Bytes,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)

from assignor.types import TopicPartition

TopicPartitions = list[tuple[str, list[int]]]
TOPIC = 2
"""A type of resource. Source: `ConfigResource.Type`."""
SET_CONFIG, DELETE_CONFIG = 0, 1
"""What to do with a config. Source: `AlterConfigOp.OpType`."""
TopicToCreate = tuple[str, int, int, list[tuple[int, list[int]]], list[tuple[str, str]]]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Topic to its partition numbers, both sorted."""
    numbers: dict[str, list[int]] = {}
    for partition in sorted(set(partitions)):
        numbers.setdefault(partition.topic, []).append(partition.partition)
    return numbers


class OffsetFetchResponse_v7(Response):
    API_KEY = 9
    API_VERSION = 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", CompactString("utf-8")),
                        ("error_code", Int16),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("error_code", Int16),
        ("tags", TaggedFields),
    )


class OffsetFetchRequest_v7(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 9
    API_VERSION = 7
    RESPONSE_TYPE = OffsetFetchResponse_v7
    SCHEMA = Schema(
        ("consumer_group", CompactString("utf-8")),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)
            ),
        ),
        ("require_stable", Boolean),
        ("tags", TaggedFields),
    )


class OffsetFetchRequest(Request[OffsetFetchRequest_v3 | OffsetFetchRequest_v7]):
    """`partitions`: None for all that have a committed offset. `stable`: the broker answers UNSTABLE_OFFSET_COMMIT
    while an open transaction may move the offset; this needs version 7 (Kafka 2.5).
    """

    API_KEY = 9

    def __init__(self, group: str, partitions: TopicPartitions | None, stable: bool) -> None:
        self._group = group
        self._partitions = partitions
        self._stable = stable

    def build(
        self, request_struct_class: type[OffsetFetchRequest_v3 | OffsetFetchRequest_v7]
    ) -> OffsetFetchRequest_v3 | OffsetFetchRequest_v7:
        if request_struct_class is OffsetFetchRequest_v3:
            if self._stable:
                raise IncompatibleBrokerVersion("stable offsets need Kafka 2.5 or newer")
            return OffsetFetchRequest_v3(self._group, self._partitions)
        no_tags: dict[int, bytes] = {}
        asked = self._partitions
        topics = None if asked is None else [(topic, numbers, no_tags) for topic, numbers in asked]
        return OffsetFetchRequest_v7(self._group, topics, self._stable, no_tags)


class DescribeGroupsResponse_v4(Response):
    API_KEY = 15
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            Array(
                ("error_code", Int16),
                ("group", String("utf-8")),
                ("state", String("utf-8")),
                ("protocol_type", String("utf-8")),
                ("protocol", String("utf-8")),
                (
                    "members",
                    Array(
                        ("member_id", String("utf-8")),
                        ("group_instance_id", String("utf-8")),
                        ("client_id", String("utf-8")),
                        ("client_host", String("utf-8")),
                        ("member_metadata", Bytes),
                        ("member_assignment", Bytes),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
    )


class DescribeGroupsRequest_v4(RequestStruct):
    API_KEY = 15
    API_VERSION = 4
    RESPONSE_TYPE = DescribeGroupsResponse_v4
    SCHEMA = Schema(("groups", Array(String("utf-8"))), ("include_authorized_operations", Boolean))


class DescribeGroupRequest(Request[DescribeGroupsRequest_v4]):
    API_KEY = 15

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: type[DescribeGroupsRequest_v4]) -> DescribeGroupsRequest_v4:
        return request_struct_class([self._group], False)


class CreateTopicsResponse_v4(Response):
    API_KEY = 19
    API_VERSION = 4
    SCHEMA = CreateTopicsResponse_v3.SCHEMA


class CreateTopicsRequest_v4(RequestStruct):
    API_KEY = 19
    API_VERSION = 4
    RESPONSE_TYPE = CreateTopicsResponse_v4
    SCHEMA = CreateTopicsRequest_v3.SCHEMA


class CreateTopicsRequest(Request[CreateTopicsRequest_v2 | CreateTopicsRequest_v3 | CreateTopicsRequest_v4]):
    """Each topic is name, partitions, replication factor, an empty assignment, configs."""

    API_KEY = 19

    def __init__(self, topics: list[TopicToCreate], timeout_ms: int) -> None:
        self._topics = topics
        self._timeout_ms = timeout_ms

    def build(
        self, request_struct_class: type[CreateTopicsRequest_v2 | CreateTopicsRequest_v3 | CreateTopicsRequest_v4]
    ) -> CreateTopicsRequest_v2 | CreateTopicsRequest_v3 | CreateTopicsRequest_v4:
        return request_struct_class(self._topics, self._timeout_ms, False)


class IncrementalAlterConfigsResponse_v0(Response):
    API_KEY = 44
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "responses",
            Array(
                ("error_code", Int16),
                ("error_message", String("utf-8")),
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
            ),
        ),
    )


class IncrementalAlterConfigsRequest_v0(RequestStruct):
    API_KEY = 44
    API_VERSION = 0
    RESPONSE_TYPE = IncrementalAlterConfigsResponse_v0
    SCHEMA = Schema(
        (
            "resources",
            Array(
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
                (
                    "configs",
                    Array(("name", String("utf-8")), ("config_operation", Int8), ("value", String("utf-8"))),
                ),
            ),
        ),
        ("validate_only", Boolean),
    )


class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsRequest_v0]):
    """`changes`: of one topic, each a config's name, an operation and a value."""

    API_KEY = 44

    def __init__(self, topic: str, changes: list[tuple[str, int, str | None]]) -> None:
        self._topic = topic
        self._changes = changes

    def build(self, request_struct_class: type[IncrementalAlterConfigsRequest_v0]) -> IncrementalAlterConfigsRequest_v0:
        return request_struct_class([(TOPIC, self._topic, self._changes)], False)
