"""Requests in versions that aiokafka does not have, for group membership and for admin calls.

aiokafka's own versions lack `skip_assignment` (KIP-814), reasons (KIP-800), leaving by group.instance.id (KIP-345) and
the types of groups (KIP-848). OffsetFetch 7 can ask for stable offsets only (KIP-447). DescribeGroups 4 returns
`group.instance.id`. CreateTopics 4 lets the cluster choose the replication factor (KIP-464). IncrementalAlterConfigs
changes some configs and leaves the others (KIP-339).
Source of field order and types: `JoinGroupRequest.json` and its neighbours in kafka-clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.admin import CreateTopicsRequest_v3, CreateTopicsResponse_v3
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    Bytes,
    CompactArray,
    CompactBytes,
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

NO_TAGS: dict[int, bytes] = {}
TOPIC = 2
"""A type of resource. Source: `ConfigResource.Type`."""
SET_CONFIG, DELETE_CONFIG = 0, 1
"""What to do with a config. Source: `AlterConfigOp.OpType`."""

_TAGS = ("tags", TaggedFields)
_TEXT, _COMPACT_TEXT = String("utf-8"), CompactString("utf-8")
_ERROR = (("throttle_time_ms", Int32), ("error_code", Int16))
_COMPACT_MEMBER = (("member_id", _COMPACT_TEXT), ("group_instance_id", _COMPACT_TEXT))


class VersionedRequest:
    """`structs`: one request in several versions of aiokafka's classes, the oldest first. The newest that a broker
    knows is sent. `needs`: for the error when a broker knows none.
    """

    def __init__(self, *structs: Any, needs: str | None = None) -> None:
        self._structs = structs
        self._needs = needs or type(structs[0]).__name__

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Any:
        """Called by aiokafka's connection. `versions`: the lowest and the highest version that the broker knows, by API
        key. Raises IncompatibleBrokerVersion.
        """
        for struct in reversed(self._structs):
            lowest, highest = versions.get(struct.API_KEY, (0, -1))
            if lowest <= struct.API_VERSION <= highest:
                return struct
        raise IncompatibleBrokerVersion(self._needs)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Topic to its partition numbers, both sorted."""
    numbers: dict[str, list[int]] = {}
    for partition in sorted(set(partitions)):
        numbers.setdefault(partition.topic, []).append(partition.partition)
    return numbers


def _version(name: str, key: int, version: int, request: Any, response: Any, *, flexible: bool = True) -> Any:
    """The class of one version of a request. `request`, `response`: schemas. `flexible`: its headers have tags."""
    common = {"API_KEY": key, "API_VERSION": version}
    answer = type(f"{name}Response_v{version}", (Response,), {**common, "SCHEMA": response})
    fields = {**common, "FLEXIBLE_VERSION": flexible, "RESPONSE_TYPE": answer, "SCHEMA": request}
    return type(f"{name}Request_v{version}", (RequestStruct,), fields)


OffsetFetch7 = _version(
    "OffsetFetch",
    9,
    7,
    Schema(
        ("consumer_group", _COMPACT_TEXT),
        ("topics", CompactArray(("topic", _COMPACT_TEXT), ("partitions", CompactArray(Int32)), _TAGS)),
        ("require_stable", Boolean),
        _TAGS,
    ),
    Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", _COMPACT_TEXT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", _COMPACT_TEXT),
                        ("error_code", Int16),
                        _TAGS,
                    ),
                ),
                _TAGS,
            ),
        ),
        ("error_code", Int16),
        _TAGS,
    ),
)
JoinGroup9 = _version(
    "JoinGroup",
    11,
    9,
    Schema(
        ("group", _COMPACT_TEXT),
        ("session_timeout", Int32),
        ("rebalance_timeout", Int32),
        ("member_id", _COMPACT_TEXT),
        ("group_instance_id", _COMPACT_TEXT),
        ("protocol_type", _COMPACT_TEXT),
        ("protocols", CompactArray(("name", _COMPACT_TEXT), ("metadata", CompactBytes), _TAGS)),
        ("reason", _COMPACT_TEXT),
        _TAGS,
    ),
    Schema(
        *_ERROR,
        ("generation_id", Int32),
        ("protocol_type", _COMPACT_TEXT),
        ("protocol_name", _COMPACT_TEXT),
        ("leader_id", _COMPACT_TEXT),
        ("skip_assignment", Boolean),
        ("member_id", _COMPACT_TEXT),
        ("members", CompactArray(*_COMPACT_MEMBER, ("metadata", CompactBytes), _TAGS)),
        _TAGS,
    ),
)
Heartbeat3 = _version(
    "Heartbeat",
    12,
    3,
    Schema(("group", _TEXT), ("generation_id", Int32), ("member_id", _TEXT), ("group_instance_id", _TEXT)),
    Schema(*_ERROR),
    flexible=False,
)
LeaveGroup3 = _version(
    "LeaveGroup",
    13,
    3,
    Schema(("group", _TEXT), ("members", Array(("member_id", _TEXT), ("group_instance_id", _TEXT)))),
    Schema(*_ERROR, ("members", Array(("member_id", _TEXT), ("group_instance_id", _TEXT), ("error_code", Int16)))),
    flexible=False,
)
LeaveGroup5 = _version(
    "LeaveGroup",
    13,
    5,
    Schema(
        ("group", _COMPACT_TEXT), ("members", CompactArray(*_COMPACT_MEMBER, ("reason", _COMPACT_TEXT), _TAGS)), _TAGS
    ),
    Schema(*_ERROR, ("members", CompactArray(*_COMPACT_MEMBER, ("error_code", Int16), _TAGS)), _TAGS),
)
SyncGroup5 = _version(
    "SyncGroup",
    14,
    5,
    Schema(
        ("group", _COMPACT_TEXT),
        ("generation_id", Int32),
        ("member_id", _COMPACT_TEXT),
        ("group_instance_id", _COMPACT_TEXT),
        ("protocol_type", _COMPACT_TEXT),
        ("protocol_name", _COMPACT_TEXT),
        ("assignments", CompactArray(("member_id", _COMPACT_TEXT), ("assignment", CompactBytes), _TAGS)),
        _TAGS,
    ),
    Schema(
        *_ERROR,
        ("protocol_type", _COMPACT_TEXT),
        ("protocol_name", _COMPACT_TEXT),
        ("member_assignment", CompactBytes),
        _TAGS,
    ),
)
DescribeGroups4 = _version(
    "DescribeGroups",
    15,
    4,
    Schema(("groups", Array(_TEXT)), ("include_authorized_operations", Boolean)),
    Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            Array(
                ("error_code", Int16),
                ("group", _TEXT),
                ("state", _TEXT),
                ("protocol_type", _TEXT),
                ("protocol", _TEXT),
                (
                    "members",
                    Array(
                        ("member_id", _TEXT),
                        ("group_instance_id", _TEXT),
                        ("client_id", _TEXT),
                        ("client_host", _TEXT),
                        ("member_metadata", Bytes),
                        ("member_assignment", Bytes),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
    ),
    flexible=False,
)
ListGroups5 = _version(
    "ListGroups",
    16,
    5,
    Schema(("states", CompactArray(_COMPACT_TEXT)), ("types", CompactArray(_COMPACT_TEXT)), _TAGS),
    Schema(
        *_ERROR,
        (
            "groups",
            CompactArray(
                ("group", _COMPACT_TEXT),
                ("protocol_type", _COMPACT_TEXT),
                ("state", _COMPACT_TEXT),
                ("type", _COMPACT_TEXT),
                _TAGS,
            ),
        ),
        _TAGS,
    ),
)
"""All groups of one broker with their types (KIP-848); brokers before 3.8 do not know this version."""
CreateTopics4 = _version(
    "CreateTopics", 19, 4, CreateTopicsRequest_v3.SCHEMA, CreateTopicsResponse_v3.SCHEMA, flexible=False
)
IncrementalAlterConfigs0 = _version(
    "IncrementalAlterConfigs",
    44,
    0,
    Schema(
        (
            "resources",
            Array(
                ("resource_type", Int8),
                ("resource_name", _TEXT),
                ("configs", Array(("name", _TEXT), ("config_operation", Int8), ("value", _TEXT))),
            ),
        ),
        ("validate_only", Boolean),
    ),
    Schema(
        ("throttle_time_ms", Int32),
        (
            "responses",
            Array(("error_code", Int16), ("error_message", _TEXT), ("resource_type", Int8), ("resource_name", _TEXT)),
        ),
    ),
    flexible=False,
)
