"""What happens to a group, for the service's log and its metrics.

The log has one line for each change, with group, generation and member. Where very many members change at once, one
line says how many, and the log's level debug says which. `GroupStanding` works out what `/metrics` says of the group
beyond its state: since when tasks have no owner, and how often it rebalances. It follows the committed records. What
takes long is worked out in a thread, and what comes after it waits meanwhile, so that a large group does not keep
others waiting. Nothing here is durable.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

import structlog

from coordinator_api.group.image import GroupImage
from coordinator_api.group.outcome import (
    JoinAnswered,
    Left,
    Response,
)
from coordinator_api.group.ownerless_tasks import OwnerlessTasks, takes_long
from coordinator_api.group.records import (
    CoordinatorRecord,
    DefinitionChanged,
    DrainChanged,
    GroupDeleted,
    GroupEmptied,
    MemberRemoved,
    MemberReplaced,
    MemberSubscribed,
    RebalanceCompleted,
    RebalanceLedElsewhere,
    RebalanceStarted,
)
from coordinator_api.group.states import GroupState, RebalanceOutcome, RemovalReason
from coordinator_api.metrics import GroupMeasures, Metrics

_LOGGER = "coordinator_api"

_RecordOfAMember = MemberSubscribed | MemberReplaced | MemberRemoved
_OfAMember = (MemberSubscribed, MemberReplaced, MemberRemoved)

Say = Callable[..., object]
"""Writes a line: what happened, and its values by name."""

MOST_MEMBERS_NAMED = 8
"""So many members that change at once have a line each."""


class GroupTelemetry:
    """Of one group. `logger` names the group in each line."""

    def __init__(self, group_id: str, metrics: Metrics) -> None:
        self.metrics = metrics
        self.logger = structlog.get_logger(_LOGGER).bind(group=group_id)
        self._preparing_since: float | None = None

    def committed(self, records: Sequence[CoordinatorRecord], image: GroupImage) -> None:
        """The records are committed and applied; `image` is the state they led to."""
        logger = self.logger.bind(generation=image.generation_id, state=str(image.state))
        of_members = [record for record in records if isinstance(record, _OfAMember)]
        many = len(of_members) > MOST_MEMBERS_NAMED
        if many:
            self._many_members(logger, of_members)
        for record in records:
            if isinstance(record, MemberRemoved) and record.reason is not RemovalReason.LEFT:
                self.metrics.expired_sessions.inc()
            if isinstance(record, _OfAMember):
                if not many:
                    self._member(logger.info, record)
            else:
                self._group(logger, record, image)

    def _member(self, say: Say, record: _RecordOfAMember) -> None:
        match record:
            case MemberSubscribed(member_id, join):
                say("member_subscribed", member=member_id, group_instance_id=join.group_instance_id)
            case MemberReplaced(group_instance_id, old_member_id, new_member_id):
                say(
                    "member_replaced",
                    member=new_member_id,
                    old_member=old_member_id,
                    group_instance_id=group_instance_id,
                )
            case MemberRemoved(member_id, reason):
                say("member_removed", member=member_id, reason=str(reason))

    def _many_members(self, logger: structlog.stdlib.BoundLogger, records: Sequence[_RecordOfAMember]) -> None:
        subscribed = sum(isinstance(record, MemberSubscribed) for record in records)
        if subscribed:
            logger.info("members_subscribed", members=subscribed)
        removed = Counter(str(record.reason) for record in records if isinstance(record, MemberRemoved))
        for reason, members in sorted(removed.items()):
            logger.info("members_removed", members=members, reason=reason)
        replaced = sum(isinstance(record, MemberReplaced) for record in records)
        if replaced:
            logger.info("members_replaced", members=replaced)
        if logging.getLogger(_LOGGER).isEnabledFor(logging.DEBUG):
            for record in records:
                self._member(logger.debug, record)

    def _group(self, logger: structlog.stdlib.BoundLogger, record: CoordinatorRecord, image: GroupImage) -> None:
        match record:
            case DefinitionChanged(revision, origin=origin):
                logger.info("definition_changed", revision=revision, declared_by=origin.declared_by)
            case DrainChanged(draining):
                logger.info("drain_started" if draining else "drain_ended")
            case RebalanceStarted(cause):
                self._preparing_since = time.perf_counter()
                logger.info("rebalance_preparing", reason=cause.in_words())
            case RebalanceLedElsewhere(led_by, end=end):
                self.metrics.reported_rebalances.inc()
                logger.info("rebalance_reported", led_by=led_by, outcome=str(end.outcome), error=end.error)
            case RebalanceCompleted():
                self._completed(record, image)
            case GroupEmptied():
                logger.info("group_emptied")
            case GroupDeleted():
                logger.info("group_deleted")
            case _:
                pass

    def _completed(self, record: RebalanceCompleted, image: GroupImage) -> None:
        self.metrics.rebalances.inc()
        end = record.end
        last = image.last_rebalance
        cause = "unknown" if last is None or last.cause is None else str(last.cause.reason)
        self.metrics.rebalance_outcomes.labels(cause, str(end.outcome)).inc()
        if end.outcome is RebalanceOutcome.ERROR:
            self.metrics.failed_rebalances.inc()
        if self._preparing_since is not None:
            self.metrics.rebalance_latency.observe(time.perf_counter() - self._preparing_since)
            self._preparing_since = None
        self.logger.info(
            "rebalance_completed",
            generation=record.generation_id,
            outcome=str(end.outcome),
            members=len(record.assignments),
            probing_rebalance_at_ms=end.probing_rebalance_at_ms,
            error=end.error,
        )

    def rebalancing_ms(self) -> int | None:
        """Since the present rebalance began; None when this process has not seen that."""
        return None if self._preparing_since is None else round((time.perf_counter() - self._preparing_since) * 1000)

    def answered(self, responses: Iterable[Response]) -> None:
        """Members or operators get these answers to committed events."""
        for response in responses:
            if isinstance(response, JoinAnswered):
                self.metrics.joins.inc()
            elif isinstance(response, Left):
                self.metrics.leaves.inc()


HOUR_MS = 3_600_000

MOST_REBALANCES_KNOWN = 1_000
"""A group that rebalances more often than this in an hour is shown with so many."""


class GroupStanding:
    """`passed`: told the seconds that tasks have been without an owner, of all of them together, as they pass."""

    def __init__(self, image: GroupImage, now_ms: int, passed: Callable[[float], None]) -> None:
        self._passed = passed
        self._owners = OwnerlessTasks(image, now_ms)
        self._warm_ups = _warm_ups(image)
        self._completed_at_ms: deque[int] = deque(maxlen=MOST_REBALANCES_KNOWN)
        self._to_take: deque[tuple[CoordinatorRecord, int] | tuple[GroupImage, int]] = deque()
        self._thread: asyncio.Task[None] | None = None

    def committed(self, records: Iterable[CoordinatorRecord], now_ms: int) -> None:
        for record in records:
            if isinstance(record, RebalanceCompleted):
                self._completed_at_ms.append(now_ms)
                self._warm_ups = sum(map(len, record.warm_ups.values()))
            self._to_take.append((record, now_ms))
        self._take()

    def read_again(self, image: GroupImage, now_ms: int) -> None:
        """The group was read from the store anew: what was followed may not have been written."""
        self._warm_ups = _warm_ups(image)
        self._to_take.append((image, now_ms))
        self._take()

    def measures(self, group_id: str, image: GroupImage, now_ms: int) -> GroupMeasures:
        """`image`: as committed."""
        if self._thread is None:
            self._count(now_ms)
        since_ms = self._owners.without_owner_since_ms
        while self._completed_at_ms and self._completed_at_ms[0] <= now_ms - HOUR_MS:
            self._completed_at_ms.popleft()
        end = image.last_rebalance.end if image.last_rebalance and image.state is GroupState.STABLE else None
        probing_at_ms = None if end is None else end.probing_rebalance_at_ms
        return GroupMeasures(
            group_id=group_id,
            members=len(image.members),
            tasks_without_owner=len(since_ms),
            without_owner_s=_seconds(now_ms - min(since_ms.values(), default=now_ms)),
            held_s=0.0 if image.held is None else _seconds(now_ms - image.held.since_ms),
            warm_ups=self._warm_ups if image.members else 0,
            probing_in_s=None if probing_at_ms is None else _seconds(probing_at_ms - now_ms),
            rebalances_per_hour=len(self._completed_at_ms),
        )

    def _take(self) -> None:
        while self._thread is None and self._to_take:
            what, at_ms = self._to_take.popleft()
            self._count(at_ms)
            if isinstance(what, GroupImage):
                self._owners.read_again(what, at_ms)
            elif takes_long(what):
                self._thread = asyncio.create_task(self._take_in_thread(what, at_ms))
            else:
                self._owners.take(what, at_ms)

    async def _take_in_thread(self, record: CoordinatorRecord, at_ms: int) -> None:
        try:
            await asyncio.to_thread(self._owners.take, record, at_ms)
        finally:
            self._thread = None
            self._take()

    def _count(self, now_ms: int) -> None:
        self._passed(self._owners.passed_ms(now_ms) / 1000)


def _warm_ups(image: GroupImage) -> int:
    return sum(len(member.last_assignment.warm_ups) for member in image.members.values())


def _seconds(ms: int) -> float:
    return max(ms, 0) / 1000
