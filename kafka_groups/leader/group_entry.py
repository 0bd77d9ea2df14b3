"""How a leader enters a group: it looks at the group, joins, and tries again when another member got the lead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from assignor.errors import AssignorFault
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.errors import InconsistentProtocol, StaleGeneration, UnknownMember
from kafka_client.group_membership import GroupMembership, JoinedGeneration
from kafka_groups.leader.lead_assessment import LeadAssessment, LeadState, assess_group
from kafka_groups.leader.lead_settings import LeadSettings

_LOOK_AGAIN_S = 1.0
LEAVES_AT_ONCE = "it did not get the lead, and takes no tasks"


class LeadRefused(AssignorFault):
    """The group cannot be led now. The message says why, and what to do."""


class GroupEntry:
    """The entrance of one leader into one group."""

    def __init__(
        self, settings: LeadSettings, admin: ClusterAdmin, membership: GroupMembership, say: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._admin = admin
        self._membership = membership
        self._say = say
        self.took_over_a_rebalance = False
        """Whether the leader whose place was taken in the last join had begun a generation and not assigned it."""

    async def join(self, subscription: Callable[[], bytes], reason: str) -> JoinedGeneration:
        """Join as the leader, or a follower with --join-anyway. Raises LeadRefused, KafkaRefused, KafkaUnavailable."""
        said = ""
        while True:
            found = await self._assessment()
            if found.state is LeadState.FOREIGN:
                raise LeadRefused(found.obstacle)
            self.took_over_a_rebalance = found.state is LeadState.OURS and found.is_placing
            if found.state is not LeadState.LED or self._settings.join_anyway:
                joined = await self._joined(subscription(), reason)
                if joined is not None:
                    return joined
                continue
            if not self._settings.wait:
                raise LeadRefused(found.obstacle)
            if not said:
                said = f"waiting until group {self._settings.group!r} is empty: it has members, and one of them leads"
                self._say(said)
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def stay_or_leave(self, joined: JoinedGeneration) -> JoinedGeneration | None:
        """None when this member did not get the lead and has left."""
        if joined.is_leader or self._settings.join_anyway:
            return joined
        await self._membership.leave(LEAVES_AT_ONCE)
        return None

    async def _joined(self, subscription: bytes, reason: str) -> JoinedGeneration | None:
        """None when another member leads and this one has left."""
        while True:
            try:
                return await self.stay_or_leave(await self._membership.join(subscription, reason))
            except (UnknownMember, StaleGeneration):
                continue
            except InconsistentProtocol as error:
                raise LeadRefused(
                    f"{error}: name the application.id of a Kafka Streams application with group.protocol=classic"
                ) from None

    async def _assessment(self) -> LeadAssessment:
        group_type = await self._membership.group_type()
        group = await self._admin.describe_group(self._settings.group)
        return assess_group(
            self._settings.group,
            self._settings.group_instance_id,
            group_type=group_type,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            instance_ids=[member.group_instance_id for member in group.members],
            group_state=group.state,
        )
