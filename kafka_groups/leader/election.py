"""Which of several processes of this program leads a group: the leader of a second, small group decides it.

All of them share one group.instance.id in the application's group, so only one may be in there at a time. They elect it
in a classic group of their own, whose session is shorter than the application's: when the one that leads dies, the next
has its place in the application's group before that group notices. One that was away for longer than its session finds
another in its place and ends; should both believe for a moment that they lead, the application's group fences the older
one (KIP-345).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

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
from kafka_groups.leader.own_member import LEADER_TAG

PROTOCOL_TYPE = "assignor"
PROTOCOL = "leader"

_BEATS_PER_SESSION = 4
_CANDIDATE = b"1"


class LeadTaken(AssignorFault):
    """Another process of this program leads the group. The message says since when, as far as that is known."""


class Election:
    """For one event loop, as `async with`."""

    def __init__(
        self, settings: ClientSettings, group: str, session_timeout_ms: int, say: Callable[[str], None]
    ) -> None:
        self._group = group
        self._say = say
        self._beat_s = session_timeout_ms / 1000 / _BEATS_PER_SESSION
        self._membership = GroupMembership(
            settings,
            MembershipSettings(
                f"{group}-{LEADER_TAG}", PROTOCOL_TYPE, PROTOCOL, session_timeout_ms, session_timeout_ms, None
            ),
        )
        self._candidates = 0

    @property
    def has_standby(self) -> bool:
        """Whether another process takes over when this one resigns; known while this one leads."""
        return self._candidates > 1

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._membership.close()

    async def win(self, stand_by: bool) -> None:
        """Until this process is elected; without `stand_by` only if no other lives. Raises LeadTaken."""
        try:
            joined = await self._join("candidate")
        except InvalidSessionTimeout as error:
            raise InvalidSessionTimeout(f"{error} (for an election it is two thirds of --session-timeout-ms)") from None
        if joined.is_leader:
            return
        if not stand_by:
            await self.resign()
            raise LeadTaken(
                f"another `assignor lead` leads group {self._group!r}; start this one with --standby to take over when "
                "it ends"
            )
        self._say(f"standing by: another process leads group {self._group!r}")
        while not joined.is_leader:
            joined = await self._next()

    async def keep(self) -> None:
        """While this process is elected. Raises LeadTaken when another is, and KafkaRefused."""
        while (await self._next()).is_leader:
            pass
        raise LeadTaken(
            f"this process was away for too long, and another `assignor lead` leads group {self._group!r} now"
        )

    async def resign(self) -> None:
        """The next candidate is elected at once. Raises MembershipError, KafkaRefused, KafkaUnavailable."""
        await self._membership.leave("resigned")

    async def _next(self) -> JoinedGeneration:
        """Sit through one generation of candidates; brokers that cannot be reached are waited for."""
        is_over = False
        while True:
            try:
                if is_over:
                    return await self._join("election")
                await asyncio.sleep(self._beat_s)
                await self._membership.heartbeat()
            except (GroupRebalancing, StaleGeneration, UnknownMember):
                is_over = True
            except KafkaUnavailable as error:
                self._say(f"election: {error}")

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
