"""The requests of the classic group protocol, each in the newest version and in one that every supported broker knows.

aiokafka's own versions lack `skip_assignment` (KIP-814), reasons (KIP-800) and leaving by group.instance.id (KIP-345).
Source of field order and types: `JoinGroupRequest.json` and its neighbours in kafka-clients.
"""

# mypy: allow-subclassing-any
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    Bytes,
    CompactArray,
    CompactBytes,
    CompactString,
    Int16,
    Int32,
    Schema,
    String,
    TaggedFields,
)

_NO_TAGS: dict[int, bytes] = {}
_TAGS = ("tags", TaggedFields)
_TEXT = String("utf-8")
_COMPACT_TEXT = CompactString("utf-8")

_FIRST_JOIN_WITH_REASON = 8
_FIRST_SYNC_WITH_PROTOCOL = 5
_FIRST_LEAVE_WITH_REASON = 5


class JoinGroupResponse_v5(Response):
    API_KEY = 11
    API_VERSION = 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("generation_id", Int32),
        ("protocol_name", _TEXT),
        ("leader", _TEXT),
        ("member_id", _TEXT),
        ("members", Array(("member_id", _TEXT), ("group_instance_id", _TEXT), ("metadata", Bytes))),
    )


class JoinGroupResponse_v9(Response):
    API_KEY = 11
    API_VERSION = 9
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("generation_id", Int32),
        ("protocol_type", _COMPACT_TEXT),
        ("protocol_name", _COMPACT_TEXT),
        ("leader", _COMPACT_TEXT),
        ("skip_assignment", Boolean),
        ("member_id", _COMPACT_TEXT),
        (
            "members",
            CompactArray(
                ("member_id", _COMPACT_TEXT), ("group_instance_id", _COMPACT_TEXT), ("metadata", CompactBytes), _TAGS
            ),
        ),
        _TAGS,
    )


class JoinGroupRequest_v5(RequestStruct):
    API_KEY = 11
    API_VERSION = 5
    RESPONSE_TYPE = JoinGroupResponse_v5
    SCHEMA = Schema(
        ("group", _TEXT),
        ("session_timeout", Int32),
        ("rebalance_timeout", Int32),
        ("member_id", _TEXT),
        ("group_instance_id", _TEXT),
        ("protocol_type", _TEXT),
        ("protocols", Array(("name", _TEXT), ("metadata", Bytes))),
    )


class JoinGroupRequest_v9(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 11
    API_VERSION = 9
    RESPONSE_TYPE = JoinGroupResponse_v9
    SCHEMA = Schema(
        ("group", _COMPACT_TEXT),
        ("session_timeout", Int32),
        ("rebalance_timeout", Int32),
        ("member_id", _COMPACT_TEXT),
        ("group_instance_id", _COMPACT_TEXT),
        ("protocol_type", _COMPACT_TEXT),
        ("protocols", CompactArray(("name", _COMPACT_TEXT), ("metadata", CompactBytes), _TAGS)),
        ("reason", _COMPACT_TEXT),
        _TAGS,
    )


@dataclass(frozen=True, slots=True)
class JoinGroupRequest(Request[JoinGroupRequest_v5 | JoinGroupRequest_v9]):
    """`member_id`: empty for a first join. `metadata`: the subscription, for the one protocol offered."""

    API_KEY = 11

    group: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocol: str
    metadata: bytes
    reason: str

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        head = (
            self.group,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.member_id,
            self.group_instance_id,
            self.protocol_type,
        )
        if request_struct_class.API_VERSION < _FIRST_JOIN_WITH_REASON:
            return request_struct_class(*head, [(self.protocol, self.metadata)])
        return request_struct_class(*head, [(self.protocol, self.metadata, _NO_TAGS)], self.reason, _NO_TAGS)


class SyncGroupResponse_v3(Response):
    API_KEY = 14
    API_VERSION = 3
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16), ("assignment", Bytes))


class SyncGroupResponse_v5(Response):
    API_KEY = 14
    API_VERSION = 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("protocol_type", _COMPACT_TEXT),
        ("protocol_name", _COMPACT_TEXT),
        ("assignment", CompactBytes),
        _TAGS,
    )


class SyncGroupRequest_v3(RequestStruct):
    API_KEY = 14
    API_VERSION = 3
    RESPONSE_TYPE = SyncGroupResponse_v3
    SCHEMA = Schema(
        ("group", _TEXT),
        ("generation_id", Int32),
        ("member_id", _TEXT),
        ("group_instance_id", _TEXT),
        ("assignments", Array(("member_id", _TEXT), ("assignment", Bytes))),
    )


class SyncGroupRequest_v5(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 14
    API_VERSION = 5
    RESPONSE_TYPE = SyncGroupResponse_v5
    SCHEMA = Schema(
        ("group", _COMPACT_TEXT),
        ("generation_id", Int32),
        ("member_id", _COMPACT_TEXT),
        ("group_instance_id", _COMPACT_TEXT),
        ("protocol_type", _COMPACT_TEXT),
        ("protocol_name", _COMPACT_TEXT),
        ("assignments", CompactArray(("member_id", _COMPACT_TEXT), ("assignment", CompactBytes), _TAGS)),
        _TAGS,
    )


@dataclass(frozen=True, slots=True)
class SyncGroupRequest(Request[SyncGroupRequest_v3 | SyncGroupRequest_v5]):
    """`assignments`: member id to assignment; a follower sends none."""

    API_KEY = 14

    group: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocol: str
    assignments: Mapping[str, bytes]

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        head = (self.group, self.generation_id, self.member_id, self.group_instance_id)
        if request_struct_class.API_VERSION < _FIRST_SYNC_WITH_PROTOCOL:
            return request_struct_class(*head, list(self.assignments.items()))
        assignments = [(member_id, raw, _NO_TAGS) for member_id, raw in self.assignments.items()]
        return request_struct_class(*head, self.protocol_type, self.protocol, assignments, _NO_TAGS)


class HeartbeatResponse_v3(Response):
    API_KEY = 12
    API_VERSION = 3
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16))


class HeartbeatRequest_v3(RequestStruct):
    API_KEY = 12
    API_VERSION = 3
    RESPONSE_TYPE = HeartbeatResponse_v3
    SCHEMA = Schema(("group", _TEXT), ("generation_id", Int32), ("member_id", _TEXT), ("group_instance_id", _TEXT))


@dataclass(frozen=True, slots=True)
class GroupHeartbeatRequest(Request[HeartbeatRequest_v3]):
    API_KEY = 12

    group: str
    generation_id: int
    member_id: str
    group_instance_id: str | None

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        return request_struct_class(self.group, self.generation_id, self.member_id, self.group_instance_id)


class LeaveGroupResponse_v3(Response):
    API_KEY = 13
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("members", Array(("member_id", _TEXT), ("group_instance_id", _TEXT), ("error_code", Int16))),
    )


class LeaveGroupResponse_v5(Response):
    API_KEY = 13
    API_VERSION = 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "members",
            CompactArray(
                ("member_id", _COMPACT_TEXT), ("group_instance_id", _COMPACT_TEXT), ("error_code", Int16), _TAGS
            ),
        ),
        _TAGS,
    )


class LeaveGroupRequest_v3(RequestStruct):
    API_KEY = 13
    API_VERSION = 3
    RESPONSE_TYPE = LeaveGroupResponse_v3
    SCHEMA = Schema(("group", _TEXT), ("members", Array(("member_id", _TEXT), ("group_instance_id", _TEXT))))


class LeaveGroupRequest_v5(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 13
    API_VERSION = 5
    RESPONSE_TYPE = LeaveGroupResponse_v5
    SCHEMA = Schema(
        ("group", _COMPACT_TEXT),
        (
            "members",
            CompactArray(
                ("member_id", _COMPACT_TEXT), ("group_instance_id", _COMPACT_TEXT), ("reason", _COMPACT_TEXT), _TAGS
            ),
        ),
        _TAGS,
    )


@dataclass(frozen=True, slots=True)
class LeaveGroupRequest(Request[LeaveGroupRequest_v3 | LeaveGroupRequest_v5]):
    """`member_id`: empty to name a static member by its group.instance.id alone."""

    API_KEY = 13

    group: str
    member_id: str
    group_instance_id: str | None
    reason: str

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        identity = (self.member_id, self.group_instance_id)
        if request_struct_class.API_VERSION < _FIRST_LEAVE_WITH_REASON:
            return request_struct_class(self.group, [identity])
        return request_struct_class(self.group, [(*identity, self.reason, _NO_TAGS)], _NO_TAGS)


class ListGroupsResponse_v5(Response):
    API_KEY = 16
    API_VERSION = 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
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
    )


class ListGroupsRequest_v5(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 16
    API_VERSION = 5
    RESPONSE_TYPE = ListGroupsResponse_v5
    SCHEMA = Schema(("states", CompactArray(_COMPACT_TEXT)), ("types", CompactArray(_COMPACT_TEXT)), _TAGS)


@dataclass(frozen=True, slots=True)
class ListGroupsRequest(Request[ListGroupsRequest_v5]):
    """All groups of one broker with their types (KIP-848); brokers before 3.8 do not know this version."""

    API_KEY = 16

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        return request_struct_class([], [], _NO_TAGS)
