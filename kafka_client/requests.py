"""Requests for group membership and for admin calls, in newer versions than aiokafka has.

The versions in aiokafka lack these features: `skip_assignment` (KIP-814), the reasons for joining and leaving
(KIP-800), leaving by `group.instance.id` (KIP-345), and group types (KIP-848). OffsetFetch 7 can require stable offsets
(KIP-447). DescribeGroups 4 returns `group.instance.id`. CreateTopics 4 lets the cluster choose the replication factor
(KIP-464). Metadata 10 returns topic ids (KIP-516). IncrementalAlterConfigs changes some configs of a topic, and does
not change the other configs (KIP-339).
Source of field order and types: `JoinGroupRequest.json` and the other message definitions in kafka-clients.
"""

from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any

from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.abstract import AbstractType
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
NO_UUID = bytes(16)
"""The id of a topic without an id. Source: `Uuid.ZERO_UUID`."""
TOPIC = 2
"""The code of the resource type "topic". Source: `ConfigResource.Type`."""
SET_CONFIG, DELETE_CONFIG = 0, 1
"""The operation codes for a config: set the config, and reset the config to its default. Source:
`AlterConfigOp.OpType`.
"""

_TAGS = ("tags", TaggedFields)
_THROTTLED = ("throttle_time_ms", Int32)
_ERROR = ("error_code", Int16)


class Uuid(AbstractType[bytes]):  # type: ignore[misc]
    """The type `uuid` of Kafka's protocol: 16 bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(len(NO_UUID))


class VersionedRequest:
    """A request in several versions. A broker gets the newest version that it knows. `structs`: the request in each
    version, as structs of aiokafka, the oldest version first. `needs`: the error's text if the broker knows none of the
    versions.
    """

    def __init__(self, *structs: Any, needs: str | None = None) -> None:
        self._structs = structs
        self._needs = needs or type(structs[0]).__name__

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Any:
        """Returns the request in the newest version that the broker knows. The connection of aiokafka calls this
        method. `versions`: maps each API key to the lowest and the highest version that the broker knows. Raises
        IncompatibleBrokerVersion.
        """
        for struct in reversed(self._structs):
            lowest, highest = versions.get(struct.API_KEY, (0, -1))
            if lowest <= struct.API_VERSION <= highest:
                return struct
        raise IncompatibleBrokerVersion(self._needs)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Groups partitions by topic. The result maps each topic to the list of its partition numbers. Topics and partition
    numbers are sorted.
    """
    numbers: dict[str, list[int]] = {}
    for partition in sorted(set(partitions)):
        numbers.setdefault(partition.topic, []).append(partition.partition)
    return numbers


def _text(*names: str) -> tuple[Any, ...]:
    return tuple((name, String("utf-8")) for name in names)


def _compact(*names: str) -> tuple[Any, ...]:
    return tuple((name, CompactString("utf-8")) for name in names)


def _version(api: tuple[str, int, int], request: Any, response: Any, *, flexible: bool = True) -> Any:
    """Returns the class of one version of a request. `api`: the name of the request, its API key and the version.
    `request`: the fields of the request. `response`: the fields of the response after the throttle time. `flexible`:
    True if the version has tagged fields (KIP-482).
    """
    name, key, version = api
    common = {"API_KEY": key, "API_VERSION": version}
    tags = (_TAGS,) if flexible else ()
    answer = type(f"{name}Response_v{version}", (Response,), {**common, "SCHEMA": Schema(_THROTTLED, *response, *tags)})
    fields = {**common, "FLEXIBLE_VERSION": flexible, "RESPONSE_TYPE": answer, "SCHEMA": Schema(*request, *tags)}
    return type(f"{name}Request_v{version}", (RequestStruct,), fields)


class CreateTopicsAnswer4(CreateTopicsResponse_v3):  # type: ignore[misc]
    API_VERSION = 4


class CreateTopics4(CreateTopicsRequest_v3):  # type: ignore[misc]
    API_VERSION = 4
    RESPONSE_TYPE = CreateTopicsAnswer4


_OFFSETS = (("partition", Int32), ("offset", Int64), ("leader_epoch", Int32))
_COMMITTED = ("partitions", CompactArray(*_OFFSETS, *_compact("metadata"), _ERROR, _TAGS))
_DESCRIBED_MEMBER = (
    *_text("member_id", "group_instance_id", "client_id", "client_host"),
    ("member_metadata", Bytes),
    ("member_assignment", Bytes),
)

_BROKER = (("node_id", Int32), *_compact("host"), ("port", Int32), *_compact("rack"), _TAGS)
_PARTITION = (
    _ERROR,
    ("partition", Int32),
    ("leader", Int32),
    ("leader_epoch", Int32),
    ("replicas", CompactArray(Int32)),
    ("isr", CompactArray(Int32)),
    ("offline_replicas", CompactArray(Int32)),
    _TAGS,
)

Metadata10 = _version(
    ("Metadata", 3, 10),
    (
        ("topics", CompactArray(("topic_id", Uuid), *_compact("topic"), _TAGS)),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    ),
    (
        ("brokers", CompactArray(*_BROKER)),
        *_compact("cluster_id"),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                _ERROR,
                *_compact("topic"),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                ("partitions", CompactArray(*_PARTITION)),
                ("authorized_operations", Int32),
                _TAGS,
            ),
        ),
        ("authorized_operations", Int32),
    ),
)
OffsetFetch7 = _version(
    ("OffsetFetch", 9, 7),
    (
        *_compact("consumer_group"),
        ("topics", CompactArray(*_compact("topic"), ("partitions", CompactArray(Int32)), _TAGS)),
        ("require_stable", Boolean),
    ),
    (("topics", CompactArray(*_compact("topic"), _COMMITTED, _TAGS)), _ERROR),
)
JoinGroup9 = _version(
    ("JoinGroup", 11, 9),
    (
        *_compact("group"),
        ("session_timeout", Int32),
        ("rebalance_timeout", Int32),
        *_compact("member_id", "group_instance_id", "protocol_type"),
        ("protocols", CompactArray(*_compact("name"), ("metadata", CompactBytes), _TAGS)),
        *_compact("reason"),
    ),
    (
        _ERROR,
        ("generation_id", Int32),
        *_compact("protocol_type", "protocol_name", "leader_id"),
        ("skip_assignment", Boolean),
        *_compact("member_id"),
        ("members", CompactArray(*_compact("member_id", "group_instance_id"), ("metadata", CompactBytes), _TAGS)),
    ),
)
Heartbeat3 = _version(
    ("Heartbeat", 12, 3),
    (*_text("group"), ("generation_id", Int32), *_text("member_id", "group_instance_id")),
    (_ERROR,),
    flexible=False,
)
LeaveGroup3 = _version(
    ("LeaveGroup", 13, 3),
    (*_text("group"), ("members", Array(*_text("member_id", "group_instance_id")))),
    (_ERROR, ("members", Array(*_text("member_id", "group_instance_id"), _ERROR))),
    flexible=False,
)
LeaveGroup5 = _version(
    ("LeaveGroup", 13, 5),
    (*_compact("group"), ("members", CompactArray(*_compact("member_id", "group_instance_id", "reason"), _TAGS))),
    (_ERROR, ("members", CompactArray(*_compact("member_id", "group_instance_id"), _ERROR, _TAGS))),
)
SyncGroup5 = _version(
    ("SyncGroup", 14, 5),
    (
        *_compact("group"),
        ("generation_id", Int32),
        *_compact("member_id", "group_instance_id", "protocol_type", "protocol_name"),
        ("assignments", CompactArray(*_compact("member_id"), ("assignment", CompactBytes), _TAGS)),
    ),
    (_ERROR, *_compact("protocol_type", "protocol_name"), ("member_assignment", CompactBytes)),
)
DescribeGroups4 = _version(
    ("DescribeGroups", 15, 4),
    (("groups", Array(String("utf-8"))), ("include_authorized_operations", Boolean)),
    (
        (
            "groups",
            Array(
                _ERROR,
                *_text("group", "state", "protocol_type", "protocol"),
                ("members", Array(*_DESCRIBED_MEMBER)),
                ("authorized_operations", Int32),
            ),
        ),
    ),
    flexible=False,
)
ListGroups5 = _version(
    ("ListGroups", 16, 5),
    (("states", CompactArray(CompactString("utf-8"))), ("types", CompactArray(CompactString("utf-8")))),
    (_ERROR, ("groups", CompactArray(*_compact("group", "protocol_type", "state", "type"), _TAGS))),
)
"""Lists all groups of one broker, with their types (KIP-848). Brokers before Kafka 3.8 do not know this version of
ListGroups.
"""
_CHANGES = Array(*_text("name"), ("config_operation", Int8), *_text("value"))
IncrementalAlterConfigs0 = _version(
    ("IncrementalAlterConfigs", 44, 0),
    (
        ("resources", Array(("resource_type", Int8), *_text("resource_name"), ("configs", _CHANGES))),
        ("validate_only", Boolean),
    ),
    (("responses", Array(_ERROR, *_text("error_message"), ("resource_type", Int8), *_text("resource_name"))),),
    flexible=False,
)
