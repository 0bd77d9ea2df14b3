"""Elects the one `assignor lead` process that leads the application's group. The `assignor lead` processes elect the
leading process in a second, small group of their own, the election group.

All `assignor lead` processes share one group.instance.id in the application's group, so only one process may be a
member of that group at a time. The leader of the election group, a classic group, is the elected process. When the
elected process fails, another process is elected. The newly elected process replaces the failed process in the
application's group before the failed process's session in that group expires. A standby learns of the failure when the
failed process's session in the election group expires. A process that starts does not have to wait until the failed
process's session expires. The join of the new process begins a rebalance of the election group, and the failed process
does not join this rebalance in time. If a process loses the election because its session expired, the process ends when
it learns of the newly elected process. If two processes are ever elected at one time, the brokers fence the process
that joined the application's group first (KIP-345).
Source: `GroupMetadataManager.completeClassicGroupJoin`.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from assignor.errors import AssignorFault
from kafka_client.errors import (
    GroupRebalancing,
    InvalidSessionTimeout,
    KafkaUnavailable,
    StaleGeneration,
    UnknownMember,
)
from kafka_client.group_membership import GroupMembership, JoinedGeneration, MembershipSettings
from kafka_client.settings.client_settings import ClientSettings
from kafka_groups.leader.lead_settings import OwnSession
from kafka_groups.leader.led_rebalance import leader_name

PROTOCOL_TYPE = "assignor"
PROTOCOL = "leader"

_HEARTBEATS_PER_SESSION = 4
_LONGEST_HEARTBEAT_INTERVAL_S = 0.5
_REJOIN_TIMEOUT_MS = 2_000
"""The rebalance time-out of the election group. The rebalance time-out is short, because a process that is restarted
immediately has little time for its election. A restarted process has to be elected, and to join the application's
group, within the shortest possible session time-out of that group (6 s).
"""
_CANDIDATE = b"1"


class LeadTaken(AssignorFault):
    """Another `assignor lead` process leads the group. The error's message names the remedy."""


class Election(AbstractAsyncContextManager["Election"]):
    """One candidate of the election. Use an `Election` in an `async with` block, on one event loop."""

    def __init__(
        self, settings: ClientSettings, group: str, session: OwnSession, report: Callable[[str], None]
    ) -> None:
        self._group = group
        self._report = report
        self._session = session
        self._membership = GroupMembership(
            settings,
            MembershipSettings(leader_name(group), PROTOCOL_TYPE, PROTOCOL, session.in_election_ms, _REJOIN_TIMEOUT_MS),
        )
        self._candidates = 0

    @property
    def has_standby(self) -> bool:
        """True if another process is ready to lead. The value is known only while this process leads."""
        return self._candidates > 1

    async def __aexit__(self, *_: object) -> None:
        await self._membership.close()

    async def win(self, stand_by: bool) -> None:
        """Wait until this process is elected. If `stand_by` is False, raise LeadTaken when another process is
        elected.
        """
        joined = await self._join_first()
        if joined.is_leader:
            return
        if not stand_by:
            await self.resign()
            raise LeadTaken(
                f"another `assignor lead` leads group {self._group!r}; start this one with --standby to take over when "
                "it ends"
            )
        self._report(f"standing by: another process leads group {self._group!r}")
        while not joined.is_leader:
            joined = await self._next()

    async def keep(self) -> None:
        """Stay a candidate for as long as this process is the elected process. Raises LeadTaken once another process is
        elected. Raises KafkaRefused.
        """
        while (await self._next()).is_leader:
            pass
        raise LeadTaken(
            f"this process was away longer than its session; another `assignor lead` now leads group {self._group!r}"
        )

    async def resign(self) -> None:
        """Resign, so that the next candidate is elected at once. Raises MembershipError, KafkaRefused,
        KafkaUnavailable.
        """
        await self._membership.leave("resigned")

    async def _join_first(self) -> JoinedGeneration:
        """Join the election group with a session time-out that the brokers allow. If the brokers refuse a time-out, try
        the next time-out of the list.
        """
        while True:
            refused_ms = self._session.in_election_ms
            try:
                return await self._join("candidate")
            except InvalidSessionTimeout as error:
                if not self._session.try_another():
                    hint = "give one with --session-timeout-ms; for an election it is two thirds of that"
                    raise InvalidSessionTimeout(f"{error} ({hint})") from None
                self._membership.session_timeout_ms = self._session.in_election_ms
                self._report(
                    f"the brokers refuse a session of {refused_ms} ms; the next try is {self._session.in_election_ms} "
                    "ms, which also bounds how long a dead leader holds up a rebalance"
                )

    async def _next(self) -> JoinedGeneration:
        """Stay in this generation of the election group until it ends, then join the next generation. `_next` waits
        while the brokers cannot be reached.
        """
        is_over = False
        while True:
            try:
                if is_over:
                    return await self._join("election")
                heartbeat_interval_s = self._session.in_election_ms / 1000 / _HEARTBEATS_PER_SESSION
                await asyncio.sleep(min(_LONGEST_HEARTBEAT_INTERVAL_S, heartbeat_interval_s))
                await self._membership.heartbeat()
            except (GroupRebalancing, StaleGeneration, UnknownMember):
                is_over = True
            except KafkaUnavailable as error:
                self._report(f"election: {error}")

    async def _join(self, reason: str) -> JoinedGeneration:
        while True:
            try:
                joined = await self._membership.join(_CANDIDATE, reason)
                candidates = {member.member_id: _CANDIDATE for member in joined.members}
                await self._membership.sync(candidates if joined.is_leader else {})
            except (GroupRebalancing, StaleGeneration, UnknownMember):
                continue
            self._candidates = len(joined.members)
            return joined
