"""Checks that this process can lead the group of an application now, and joins the group as its leader.

The first member to join an empty group leads the group. A member that joins a group with a running leader gets tasks
like any other member. `assignor lead` does not process tasks, so tasks that it gets would be idle. The brokers do not
report which member leads a group. So if a group has members, and none of them is the static member of `assignor lead`,
another member is assumed to lead the group. `assess_group` decides before a join whether this process can lead the
group. `assess_group` uses the brokers' description of the group, and does no I/O. `GroupEntry` joins the group, and
tries again if another member became the leader.

Source: `ClassicGroup.add`, `maybeElectNewJoinedLeader`; KIP-345.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from assignor.errors import AssignorFault
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.admin.groups import ConsumerGroupDescription
from kafka_client.errors import InconsistentProtocol, StaleGeneration, UnknownMember
from kafka_client.group_membership import GroupMembership, JoinedGeneration
from kafka_groups.leader.lead_settings import LeadSettings
from kafka_groups.leader.led_rebalance import PROTOCOL, PROTOCOL_TYPE
from rebalance_analysis.presentation.quantities import counted

_POLL_INTERVAL_S = 1.0
LEAVES_AT_ONCE = "it did not get the lead, and takes no tasks"

CLASSIC = "classic"
_PLACING = "CompletingRebalance"


class LeadState(StrEnum):
    """`FREE`: the group is empty, so the next member that joins leads it. `OURS`: the static member of `assignor lead`
    is in the group. `LED`: another member leads the group now. `FOREIGN`: the group is not a Kafka Streams group on the
    classic protocol.
    """

    FREE = "free"
    OURS = "ours"
    LED = "led"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class LeadAssessment:
    """The result of `assess_group`. `obstacle`: one line with the reason why this process cannot lead the group, and
    the remedy; empty if it can lead the group. `is_placing`: True if the group waits for the assignments of its leader.
    """

    state: LeadState
    obstacle: str = ""
    is_placing: bool = False


def assess_group(group: ConsumerGroupDescription, group_type: str | None, group_instance_id: str) -> LeadAssessment:
    """Decides whether this process can lead a group. `group_type`: the type of the group; None if the brokers do not
    report it. `group_instance_id`: the group.instance.id of `assignor lead`.
    """
    if group_type is not None and group_type != CLASSIC:
        return LeadAssessment(LeadState.FOREIGN, _newer_protocol(group.group_id, group_type))
    if not group.members:
        return LeadAssessment(LeadState.FREE)
    if group.protocol_type not in ("", PROTOCOL_TYPE) or group.protocol not in ("", PROTOCOL):
        kind = f"protocol {group.protocol!r} of type {group.protocol_type!r}"
        return LeadAssessment(
            LeadState.FOREIGN,
            f"group {group.group_id!r} is not a Kafka Streams group: its members speak {kind}, not {PROTOCOL!r} of "
            f"type {PROTOCOL_TYPE!r}; name the application.id of a Kafka Streams application",
        )
    if any(member.group_instance_id == group_instance_id for member in group.members):
        return LeadAssessment(LeadState.OURS, is_placing=group.state == _PLACING)
    return LeadAssessment(LeadState.LED, _led_by_another(group.group_id, len(group.members)))


def _led_by_another(group: str, members: int) -> str:
    return (
        f"group {group!r} has {counted(members, 'member')}, and one of them leads it: only the first to join an empty "
        "group can. Stop its instances and start this first, or use --wait to join as soon as the group is empty; "
        "--join-anyway joins as a follower, whose tasks stay idle until it leads"
    )


def _newer_protocol(group: str, group_type: str) -> str:
    if group_type == "streams":
        return (
            f"group {group!r} uses group.protocol=streams (KIP-1071), where the brokers place the tasks and no member "
            "leads; run the application with group.protocol=classic"
        )
    return (
        f"group {group!r} is of type {group_type!r}, not {CLASSIC!r}: the brokers assign its partitions and no member "
        "leads; name the application.id of a Kafka Streams application with group.protocol=classic"
    )


class LeadRefused(AssignorFault):
    """This process cannot lead the group now. The message of the error has the reason and the remedy."""


@dataclass(slots=True)
class GroupEntry:
    """Joins one group as its leader. `took_over_a_rebalance`: True if the last join replaced a leader that had not yet
    sent the assignments of its rebalance.
    """

    settings: LeadSettings
    admin: ClusterAdmin
    membership: GroupMembership
    report: Callable[[str], None]
    took_over_a_rebalance: bool = False

    async def join(self, subscription: Callable[[], bytes], reason: str) -> JoinedGeneration:
        """Joins the group as its leader. If another member leads the group and --join-anyway is set, joins the group as
        a follower. Raises LeadRefused, KafkaRefused, KafkaUnavailable.
        """
        has_reported = False
        while True:
            found = await self._assessment()
            if found.state is LeadState.FOREIGN:
                raise LeadRefused(found.obstacle)
            self.took_over_a_rebalance = found.state is LeadState.OURS and found.is_placing
            if found.state is not LeadState.LED or self.settings.join_anyway:
                joined = await self._joined(subscription(), reason)
                if joined is not None:
                    return joined
                continue
            if not self.settings.wait:
                raise LeadRefused(found.obstacle)
            if not has_reported:
                has_reported = True
                group = self.settings.group
                self.report(f"waiting until group {group!r} is empty: it has members, and one of them leads")
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def stay_or_leave(self, joined: JoinedGeneration) -> JoinedGeneration | None:
        """Decides whether this member stays in the group. If this member leads the group or `join_anyway` is set,
        returns the joined generation. If this member does not stay, leaves the group and returns None.
        """
        if joined.is_leader or self.settings.join_anyway:
            return joined
        await self.membership.leave(LEAVES_AT_ONCE)
        return None

    async def _joined(self, subscription: bytes, reason: str) -> JoinedGeneration | None:
        """Joins the group. If another member leads the group and `join_anyway` is not set, leaves the group immediately
        and returns None.
        """
        while True:
            try:
                return await self.stay_or_leave(await self.membership.join(subscription, reason))
            except (UnknownMember, StaleGeneration):
                continue
            except InconsistentProtocol as error:
                raise LeadRefused(
                    f"{error}: name the application.id of a Kafka Streams application with group.protocol=classic"
                ) from None

    async def _assessment(self) -> LeadAssessment:
        group_type = await self.membership.group_type()
        group = await self.admin.describe_group(self.settings.group)
        return assess_group(group, group_type, self.settings.group_instance_id)
