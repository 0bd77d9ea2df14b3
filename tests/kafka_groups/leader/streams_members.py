"""Members of a Kafka Streams group without a JVM: they send real SubscriptionInfo, and follow their assignments.

A member joins, takes its assignment, gives up at once what it is not assigned any more, and joins again when a
rebalance begins, when it gave something up, or when its assignment tells it to, as a cooperative stream thread does.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from assignor.protocol.assignment_info import AssignmentInfo, decode_assignment_info
from assignor.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.types import LATEST_OFFSET, ProcessId, TaskId, TopicPartition
from kafka_client.errors import GroupRebalancing, StaleGeneration, UnknownMember
from kafka_client.group_membership import GroupMembership, MembershipSettings
from kafka_client.settings.client_settings import client_settings

_HEARTBEAT_INTERVAL_S = 0.05
_AT_ONCE_MS = 0


@dataclass(slots=True)
class StreamsMember:
    """`user_data`: instead of its own SubscriptionInfo. `assignments`: in the order received."""

    bootstrap_servers: str
    group: str
    process: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    assignments: list[AssignmentInfo] = field(default_factory=list)
    generation_id: int = -1
    is_leader: bool = False
    joins: int = 0
    active: tuple[TaskId, ...] = ()
    _owned: tuple[TopicPartition, ...] = ()
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _task: asyncio.Task[None] | None = None
    _unique: int = 0
    _membership: GroupMembership = field(init=False)

    def __post_init__(self) -> None:
        settings = MembershipSettings(self.group, "consumer", "stream", 10_000, 20_000)
        self._membership = GroupMembership(client_settings(self.bootstrap_servers), settings)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._live())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def leave(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await self._membership.leave("the test is over")
            await self._membership.close()

    @property
    def assignment(self) -> AssignmentInfo:
        return self.assignments[-1]

    async def wait_until(self, holds: Callable[[], bool], timeout_s: float = 15.0) -> None:
        """Looks whenever an assignment has come, or the lead. Raises TimeoutError, or what ended the member."""
        async with asyncio.timeout(timeout_s), self._changed:
            while not holds():
                if self._task is not None and self._task.done():
                    self._task.result()
                await self._changed.wait()

    async def _live(self) -> None:
        while True:
            try:
                await self._generation()
            except (GroupRebalancing, StaleGeneration, UnknownMember):
                continue

    async def _generation(self) -> None:
        self.joins += 1
        joined = await self._membership.join(self._subscription(), "test")
        if joined.is_leader:
            async with self._changed:
                self.is_leader = True
                self._changed.notify_all()
            await asyncio.Event().wait()  # a JVM leader would place tasks now; a test that asks for that has gone wrong
        raw = decode_assignment(await self._membership.sync({}))
        info = decode_assignment_info(raw.user_data or b"")
        gave_up = set(self._owned) - set(raw.partitions)
        self._owned, self.active = raw.partitions, tuple(sorted(set(info.active_tasks)))
        async with self._changed:
            self.generation_id = joined.generation_id
            self.assignments.append(info)
            self._changed.notify_all()
        if gave_up or info.next_rebalance_ms == _AT_ONCE_MS:
            return
        while True:
            await asyncio.sleep(_HEARTBEAT_INTERVAL_S)
            await self._membership.heartbeat()

    def _subscription(self) -> bytes:
        self._unique = (self._unique + 1) % 128
        info = SubscriptionInfo(
            version=11,
            process_id=ProcessId(0, self.process),
            task_offset_sums=dict.fromkeys(self.active, LATEST_OFFSET),
            unique_field=self._unique,
        )
        user_data = encode_subscription_info(info) if self.user_data is None else self.user_data
        return encode_subscription(Subscription(self.topics, user_data, self._owned, self.generation_id))
