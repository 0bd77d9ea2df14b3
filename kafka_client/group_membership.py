"""One member of a classic group, with the requests to join, sync, heartbeat and leave. Metadata and assignments are raw
bytes.

This module passes metadata and assignments through unchanged. The consumer of aiokafka decodes each subscription as
version 0 and encodes it again. So aiokafka's consumer would drop the owned partitions in the subscriptions of Kafka
Streams. Rules:

- A call is retried while the group's coordinator moves, loads its groups or cannot be reached. If the retries fail
  until `default.api.timeout.ms` has passed, the call raises KafkaUnavailable. When the coordinator tells the member to
  rejoin or to end, the call raises a MembershipError.
- The broker may delay the answer to a join until the rebalance ends. Such a join is parked. While a join is parked, the
  broker reads no other request from the same connection. So join, sync and heartbeat share one connection, and leave
  uses another connection.
- A member keeps its member id from one rebalance to the next. After UnknownMember, the member joins as a new member,
  without a member id.
- Only one call to a `GroupMembership` may run at a time. There is one exception: `leave` may be called while a join is
  parked.
  Source: `AbstractCoordinator`.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

from aiokafka import errors
from aiokafka.protocol.group import JoinGroupRequest_v5, SyncGroupRequest_v3

from kafka_client.admin.groups import find_coordinator
from kafka_client.connections import Connections, call
from kafka_client.error_codes import NONE, check
from kafka_client.errors import (
    FencedInstance,
    GroupRebalancing,
    InconsistentProtocol,
    InvalidSessionTimeout,
    KafkaClientError,
    KafkaRefused,
    KafkaUnavailable,
    NotNow,
    StaleGeneration,
    UnknownMember,
)
from kafka_client.requests import (
    NO_TAGS,
    Heartbeat3,
    JoinGroup9,
    LeaveGroup3,
    LeaveGroup5,
    ListGroups5,
    SyncGroup5,
    VersionedRequest,
)
from kafka_client.settings.client_settings import API_TIMEOUT_MS, REQUEST_TIMEOUT_MS, ClientSettings

UNKNOWN_MEMBER_ID = ""

_NO_GENERATION = -1
_UNKNOWN_MEMBER_ID = errors.UnknownMemberIdError.errno
_MEMBER_ID_REQUIRED = errors.MemberIdRequired.errno
_GROUP_MAX_SIZE_REACHED = 81
_FENCED_INSTANCE_ID = 82

_ANSWERS: Mapping[int, tuple[type[KafkaClientError], str]] = {
    errors.RebalanceInProgressError.errno: (
        GroupRebalancing,
        "group {0.group!r} prepares its next generation: join again",
    ),
    errors.IllegalGenerationError.errno: (
        StaleGeneration,
        "group {0.group!r} has moved past generation {generation_id}: join again",
    ),
    _UNKNOWN_MEMBER_ID: (UnknownMember, "group {0.group!r} no longer knows this member: join as a new one"),
    _FENCED_INSTANCE_ID: (
        FencedInstance,
        "group {0.group!r}: another member with group.instance.id {0.group_instance_id!r} has replaced this one",
    ),
    errors.InconsistentGroupProtocolError.errno: (
        InconsistentProtocol,
        "group {0.group!r}: the group's members use another protocol than {0.protocol!r} of type {0.protocol_type!r}",
    ),
    errors.InvalidSessionTimeoutError.errno: (
        InvalidSessionTimeout,
        "group {0.group!r}: the brokers refuse a session time-out of {0.session_timeout_ms} ms; it must be between "
        "their group.min.session.timeout.ms and group.max.session.timeout.ms",
    ),
    _GROUP_MAX_SIZE_REACHED: (KafkaRefused, "group {0.group!r}: it is full: the brokers allow group.max.size members"),
}
"""Maps the error code of an answer to the class and the text of the exception that is raised."""

_JOIN_TIMEOUT_MARGIN_MS = 5000
_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    """The group to join, and the settings of the member. `group_instance_id`: None for a dynamic member."""

    group: str
    protocol_type: str
    protocol: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the coordinator describes it to the group's leader. `metadata`: the member's subscription."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinedGeneration:
    """The generation that a member has joined. `members`: the group's members in the order of the coordinator's answer;
    empty if this member is a follower.

    `skip_assignment`: True if this member is the leader again after a restart, and the group keeps its assignments
    (KIP-814). The leader then has to call `sync` without assignments. `can_resume`: True if the brokers know KIP-814. A
    static leader then stays the leader when it restarts.
    """

    generation_id: int
    member_id: str
    leader_id: str
    members: tuple[JoinedMember, ...]
    skip_assignment: bool
    can_resume: bool = False

    @property
    def is_leader(self) -> bool:
        return self.member_id == self.leader_id


class GroupMembership(AbstractAsyncContextManager["GroupMembership"]):
    """A member of a group. Use a `GroupMembership` in an `async with` block, on one event loop. The end of the `async
    with` block closes the connections, but the member does not leave the group.
    """

    def __init__(self, settings: ClientSettings, member: MembershipSettings) -> None:
        longest_join_ms = str(max(member.rebalance_timeout_ms, member.session_timeout_ms) + _JOIN_TIMEOUT_MARGIN_MS)
        patient = settings.with_properties({REQUEST_TIMEOUT_MS: longest_join_ms, API_TIMEOUT_MS: longest_join_ms})
        self._settings = settings
        self._member = member
        self._connections = Connections(settings)
        self._parking = Connections(patient)
        self._coordinator: int | None = None
        self._member_id = UNKNOWN_MEMBER_ID
        self._generation_id = _NO_GENERATION
        self._joining = False

    @property
    def session_timeout_ms(self) -> int:
        """The session time-out that the next join requests."""
        return self._member.session_timeout_ms

    @session_timeout_ms.setter
    def session_timeout_ms(self, value: int) -> None:
        self._member = replace(self._member, session_timeout_ms=value)

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._parking.close()
        await self._connections.close()

    async def join(self, metadata: bytes, reason: str) -> JoinedGeneration:
        """Joins the group, and returns when its next generation is complete. If a static member joins after a restart,
        the brokers may answer with the current generation instead of a new generation.

        `reason`: the reason for the join, which the brokers write to their log files (KIP-800). Raises MembershipError,
        KafkaRefused, KafkaUnavailable.
        """
        self._joining = True
        try:
            response = await self._joined(metadata, reason)
        except asyncio.CancelledError:
            # Close the connection. The answer to the parked join could be mistaken for the answer to a later request.
            await self._parking.close()
            raise
        self._joining = False
        self._member_id, self._generation_id = response.member_id, response.generation_id
        return JoinedGeneration(
            generation_id=response.generation_id,
            member_id=response.member_id,
            leader_id=response.leader_id,
            members=tuple(JoinedMember(each[0], each[1], bytes(each[2])) for each in response.members),
            skip_assignment=bool(getattr(response, "skip_assignment", False)),
            can_resume=hasattr(response, "skip_assignment"),
        )

    async def join_as_returning(self, metadata: bytes, reason: str) -> JoinedGeneration:
        """Joins like a static member after a restart: the member keeps its assignment, and gets a new member id. Raises
        the errors of `join`.
        """
        assert self._member.group_instance_id is not None, "a dynamic member would join beside itself"
        self._forget()
        return await self.join(metadata, reason)

    async def sync(self, assignments: Mapping[str, bytes]) -> bytes:
        """Returns this member's assignment. `assignments`: the assignments that the leader sends to all members; empty
        for a follower. Raises the errors of `join`.
        """
        member = self._member
        tagged = [(member_id, raw, NO_TAGS) for member_id, raw in assignments.items()]
        request = VersionedRequest(
            SyncGroupRequest_v3(*self._identity(), list(assignments.items())),
            SyncGroup5(*self._identity(), member.protocol_type, member.protocol, tagged, NO_TAGS),
        )
        return bytes((await self._called("sync with", request, self._parking)).member_assignment or b"")

    async def heartbeat(self) -> None:
        """Sends a heartbeat. Raises MembershipError if the member has to rejoin or to end. Raises the other errors of
        `join` too.
        """
        await self._called("heartbeat to", VersionedRequest(Heartbeat3(*self._identity())), self._parking)

    async def leave(self, reason: str) -> None:
        """Leaves the group, also during a parked join. `leave` does nothing if this object is not a member of the
        group. Raises the errors of `join`.
        """
        group, instance = self._member.group, self._member.group_instance_id
        parked_static = self._joining and instance is not None
        if self._member_id == UNKNOWN_MEMBER_ID and not parked_static:
            return
        request = VersionedRequest(
            LeaveGroup3(group, [(self._member_id, instance)]),
            LeaveGroup5(group, [(self._member_id, instance, reason, NO_TAGS)], NO_TAGS),
        )
        response = await self._called("leave", request, self._connections)
        for _, _, code, *_ in response.members:
            if code != _UNKNOWN_MEMBER_ID:
                self._check(code)
        self._forget()

    async def group_type(self) -> str | None:
        """Returns the type of the group: `classic`, `consumer`, `streams` or `share`. The type is None if the group
        does not exist, or if the brokers are too old to return group types.
        """
        request = VersionedRequest(ListGroups5([], [], NO_TAGS))
        try:
            response = await self._called("look for", request, self._connections)
        except KafkaRefused as error:
            if isinstance(error.__cause__, errors.IncompatibleBrokerVersion):
                return None
            raise
        return next((str(each[3]).lower() for each in response.groups if each[0] == self._member.group), None)

    async def _joined(self, metadata: bytes, reason: str) -> Any:
        """Joins the group. If the join fails, it is retried until `default.api.timeout.ms` has passed. The time limit
        does not include the time for which a coordinator delays the answer to the join.
        """
        give_up_at: float | None = None
        clock = asyncio.get_running_loop().time
        while True:
            await call(self._settings, self._request_name("join"), self._find_coordinator)
            try:
                response = await self._parking.send(self._join_request(metadata, reason), self._coordinator)
                if response.error_code == NONE:
                    return response
                if response.error_code == _MEMBER_ID_REQUIRED:
                    self._member_id = response.member_id
                else:
                    self._check(response.error_code)
            except NotNow as error:
                self._coordinator = None
                give_up_at = give_up_at or clock() + self._settings.api_timeout_s
                if clock() > give_up_at:
                    raise KafkaUnavailable(
                        f"Kafka at {self._settings.bootstrap_servers}: {self._request_name('join')}: {error}"
                    ) from None
                await asyncio.sleep(_PAUSE_S)

    def _join_request(self, metadata: bytes, reason: str) -> VersionedRequest:
        member = self._member
        times_ms = (member.session_timeout_ms, member.rebalance_timeout_ms)
        head = (member.group, *times_ms, self._member_id, member.group_instance_id, member.protocol_type)
        return VersionedRequest(
            JoinGroupRequest_v5(*head, [(member.protocol, metadata)]),
            JoinGroup9(*head, [(member.protocol, metadata, NO_TAGS)], reason, NO_TAGS),
        )

    def _identity(self) -> tuple[str, int, str, str | None]:
        return self._member.group, self._generation_id, self._member_id, self._member.group_instance_id

    async def _called(self, verb: str, request: VersionedRequest, connections: Connections) -> Any:
        """Sends the request to the coordinator, checks the answer for errors, and returns the answer. Raises
        MembershipError, KafkaRefused,
        KafkaUnavailable.
        """

        async def once() -> Any:
            coordinator = await self._find_coordinator()
            try:
                async with asyncio.timeout(self._settings.request_timeout_s):
                    response = await connections.send(request, coordinator)
                self._check(response.error_code)
            except NotNow:
                self._coordinator = None
                raise
            except TimeoutError:
                self._coordinator = None
                # close the connection, because a late answer could be mistaken for the answer to the next request
                await connections.close()
                raise NotNow(f"broker {coordinator} did not answer within {REQUEST_TIMEOUT_MS}") from None
            return response

        return await call(self._settings, self._request_name(verb), once)

    async def _find_coordinator(self) -> int:
        if self._coordinator is None:
            self._coordinator = await find_coordinator(self._member.group, self._connections, self._parking)
        return self._coordinator

    def _check(self, code: int) -> None:
        """Checks the error code of an answer. Raises MembershipError, KafkaRefused, NotNow."""
        if code in (_UNKNOWN_MEMBER_ID, _FENCED_INSTANCE_ID):
            self._forget()
        if code in _ANSWERS:
            kind, text = _ANSWERS[code]
            raise kind(text.format(self._member, generation_id=self._generation_id))
        check(code, f"group {self._member.group!r}")

    def _request_name(self, verb: str) -> str:
        return f"{verb} group {self._member.group!r}"

    def _forget(self) -> None:
        self._member_id, self._generation_id, self._joining = UNKNOWN_MEMBER_ID, _NO_GENERATION, False
