"""The members of a snapshot with their bytes decoded, so that a what-if can change them.

A member that does not change keeps its bytes; a changed one is encoded again in the versions it came in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from assignor.clients.client_metadata import DEFAULT_FUTURE_PROCESS_ID
from assignor.errors import InputError
from assignor.names import instance_name
from assignor.protocol.consumer_protocol import Subscription, encode_subscription, wire_version
from assignor.protocol.subscription_info import SubscriptionInfo, decode_members, encode_subscription_info
from assignor.snapshot import Member, RebalanceSnapshot
from assignor.types import ProcessId


@dataclass(frozen=True, slots=True)
class OpenMember:
    """`process_id`: the process that the leader counts the member to. `wire_version`: of the ConsumerProtocol."""

    member_id: str
    process_id: ProcessId
    sent: Member
    subscription: Subscription
    info: SubscriptionInfo
    wire_version: int


class OpenGroup:
    """Members in the order received. It is changed in place; `closed` returns the members of the changed snapshot."""

    def __init__(self, snapshot: RebalanceSnapshot) -> None:
        """Raises DecodeError naming the member whose bytes cannot be read."""
        future = snapshot.future_process_id or DEFAULT_FUTURE_PROCESS_ID
        decoded = dict(decode_members({member_id: sent.subscription for member_id, sent in snapshot.members.items()}))
        self._members: dict[str, OpenMember] = {}
        for member_id, sent in snapshot.members.items():
            subscription, info = decoded[member_id]
            process_id = future if info.is_future else info.process_id
            version = wire_version(sent.subscription)
            self._members[member_id] = OpenMember(member_id, process_id, sent, subscription, info, version)
        self._edited: set[str] = set()

    def processes(self) -> dict[ProcessId, list[OpenMember]]:
        """Processes in the order of their first members."""
        found: dict[ProcessId, list[OpenMember]] = {}
        for member in self._members.values():
            found.setdefault(member.process_id, []).append(member)
        return found

    def names(self) -> dict[ProcessId, list[str]]:
        """The names of each process: those of its instance and its members."""
        return {
            process: [
                name
                for member in members
                for name in (*_client_names(member.sent.client_id), member.sent.group_instance_id, member.member_id)
                if name
            ]
            for process, members in self.processes().items()
        }

    def remove(self, member: OpenMember) -> None:
        del self._members[member.member_id]

    def put(self, member: OpenMember) -> None:
        """Appends a new member, or replaces the one with the same id."""
        if self._members.get(member.member_id) != member:
            self._members[member.member_id] = member
            self._edited.add(member.member_id)

    def closed(self) -> Mapping[str, Member]:
        """Raises InputError for a value that does not fit its field."""
        return {
            member_id: _closed(member) if member_id in self._edited else member.sent
            for member_id, member in self._members.items()
        }


def must_be_known(member: OpenMember, where: str) -> None:
    """Raises InputError for a member of a future version, of which only the version can be read."""
    if member.info.is_future:
        raise InputError(f"member {member.member_id} speaks version {member.info.version}, not known here", where)


def _client_names(client_id: str | None) -> tuple[str | None, ...]:
    return () if client_id is None else (instance_name(client_id), client_id)


def _closed(member: OpenMember) -> Member:
    user_data = member.subscription.user_data if member.info.is_future else encode_subscription_info(member.info)
    raw = encode_subscription(replace(member.subscription, user_data=user_data), member.wire_version)
    return replace(member.sent, subscription=raw)
