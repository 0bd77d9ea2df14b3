"""A recorded member: its bytes are decoded once, and encoded again for every rebalance with what the member has by
then.

What a rebalance does not change stays as recorded: versions, endpoint, tags, topics, rack, process id. The unique
field counts on, and a member that learns that all support a higher version speaks that one from then on. Source:
`StreamsPartitionAssignor.subscriptionUserData`, `onAssignment`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from assignor.errors import InputError
from assignor.protocol.assignment_info import decode_assigned_tasks
from assignor.protocol.consumer_protocol import (
    Subscription,
    decode_assignment,
    encode_subscription,
    wire_version,
)
from assignor.protocol.subscription_info import (
    MemberSubscription,
    SubscriptionInfo,
    decode_members,
    encode_subscription_info,
)
from assignor.protocol.versions import (
    FIRST_VERSION_WITH_UNIQUE_FIELD,
    UNKNOWN_VERSION,
    next_subscription_version,
)
from assignor.snapshot import Member
from assignor.types import ProcessId, TaskId, TopicPartition


class DecodedAssignment(NamedTuple):
    """What an assignment says. `partitions`: those the member owns from now on."""

    active: tuple[TaskId, ...]
    standby: tuple[TaskId, ...]
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True)
class RecordedMember:
    """Owned partitions, version, generation and unique field change from rebalance to rebalance."""

    member: Member
    subscription: Subscription
    info: SubscriptionInfo
    consumer_version: int
    owned: tuple[TopicPartition, ...]

    @property
    def process(self) -> ProcessId:
        return self.info.process_id

    def receives(self, assignment: bytes) -> tuple[DecodedAssignment, bool]:
        """Applies an assignment. Returns what it says, and whether the member rejoins at once: because it has to give
        up a partition, or because it speaks a higher version from now on.
        """
        decoded = decode_assignment(assignment)
        tasks = decode_assigned_tasks(decoded.user_data or b"")
        gives_up = not set(self.owned).issubset(decoded.partitions)
        self.owned = decoded.partitions
        version = self.info.version
        if tasks.commonly_supported_version != UNKNOWN_VERSION:
            version = next_subscription_version(version, tasks.version, tasks.commonly_supported_version)
        upgrades = version != self.info.version
        self.info = replace(self.info, version=version)
        active = tuple(dict.fromkeys(tasks.active_tasks))
        return DecodedAssignment(active, tasks.standby_tasks, decoded.partitions), gives_up or upgrades

    def joins(self, offset_sums: Mapping[TaskId, int]) -> Member:
        """The member with the bytes that it joins the next rebalance with."""
        unique = self.info.unique_field
        if self.info.version >= FIRST_VERSION_WITH_UNIQUE_FIELD:
            unique = (unique + 1 + 128) % 256 - 128
        self.info = replace(
            self.info, task_offset_sums=offset_sums, unique_field=unique, error_code=0, listed_twice=frozenset()
        )
        generation_id = self.subscription.generation_id
        self.subscription = replace(
            self.subscription,
            user_data=encode_subscription_info(self.info),
            owned_partitions=self.owned,
            generation_id=None if generation_id is None else generation_id + 1,
        )
        return replace(self.member, subscription=encode_subscription(self.subscription, self.consumer_version))


def recorded_members(members: Mapping[str, Member]) -> dict[str, RecordedMember]:
    """By member id. Raises DecodeError naming a member whose bytes cannot be read, InputError for a future version."""
    decoded = dict(decode_members({member_id: member.subscription for member_id, member in members.items()}))
    return {member_id: _recorded_member(member_id, member, decoded[member_id]) for member_id, member in members.items()}


def _recorded_member(member_id: str, member: Member, decoded: MemberSubscription) -> RecordedMember:
    subscription, info = decoded
    if info.is_future:
        raise InputError(
            f"has version {info.version}, which is not known here, so nobody knows what the member would send next",
            f"input.members[{member_id!r}].subscription",
        )
    version = wire_version(member.subscription)
    return RecordedMember(member, subscription, info, version, subscription.owned_partitions)
