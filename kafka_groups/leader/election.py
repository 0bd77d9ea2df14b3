"""Elects the `assignor lead` process that leads the application's group. For this election, the `assignor lead`
processes form a second, small group: the election group.

All `assignor lead` processes use the same group.instance.id in the application's group. So only one `assignor lead`
process can be a member of the application's group at a time. The election group is a classic group, and its leader is
the elected process. If the elected process fails, its session in the election group expires, and another process is
elected. The new process then joins the application's group in place of the failed process. The new process joins before
the failed process's session in the application's group expires. A process that has just started does not have to wait
for the end of a session. The join of a process starts a rebalance of the election group. A failed process does not join
this rebalance in time. If the session of an elected process expires although the process runs, another process is
elected. The process with the expired session ends when it learns of this election. If two processes are ever elected at
the same time, both join the application's group, and the brokers fence the earlier member (KIP-345).
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
"""The rebalance time-out of the election group. The time-out is short, because a restarted process has little time.
Within the shortest session, which is 6 s, the process has to be elected and has to join the application's group.
"""
_CANDIDATE = b"1"


class LeadTaken(AssignorFault):
    """Another `assignor lead` process leads the group. The message of the error names the remedy."""


class Election(AbstractAsyncContextManager["Election"]):
    """Represents this process in the election. Use an `Election` in an `async with` block, on one event loop."""

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
        """Waits until this process is elected. If `stand_by` is False and another process is elected, raises LeadTaken
        without waiting.
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
        """Stays in the election group while this process is the elected process. Raises LeadTaken when another process
        is elected. Raises KafkaRefused.
        """
        while (await self._next()).is_leader:
            pass
        raise LeadTaken(
            f"this process was away longer than its session; another `assignor lead` now leads group {self._group!r}"
        )

    async def resign(self) -> None:
        """Leaves the election group, so that another process is elected immediately. Raises MembershipError,
        KafkaRefused, KafkaUnavailable.
        """
        await self._membership.leave("resigned")

    async def _join_first(self) -> JoinedGeneration:
        """Joins the election group with a session time-out that the brokers allow. If the brokers refuse a time-out,
        tries the next time-out of a list.
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
        """Waits until this generation of the election group ends. Then joins and returns the next generation. Waits
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
