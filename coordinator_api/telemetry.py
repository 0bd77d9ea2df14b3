"""What happens to a group, for the service's log and its metrics: one line for each change, with group, generation
and member. Where very many members change at once, one line says how many, and the log's level debug says which.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import structlog

from assignor.errors import AssignorFault
from coordinator_api.group.image import GroupImage
from coordinator_api.group.outcome import (
    HeartbeatAnswered,
    JoinAnswered,
    Left,
    ProcessHeartbeatAnswered,
    Response,
)
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
from coordinator_api.group.states import RebalanceOutcome, RemovalReason
from coordinator_api.metrics import Metrics

_LOGGER = "coordinator_api"

_RecordOfAMember = MemberSubscribed | MemberReplaced | MemberRemoved
_OfAMember = (MemberSubscribed, MemberReplaced, MemberRemoved)

Say = Callable[..., object]
"""Writes a line: what happened, and its values by name."""

MOST_MEMBERS_NAMED = 8
"""So many members that change at once have a line each."""


class GroupTelemetry:
    """Of one group. Each method says one thing that has happened."""

    def __init__(self, group_id: str, metrics: Metrics) -> None:
        self._metrics = metrics
        self._logger = structlog.get_logger(_LOGGER).bind(group=group_id)
        self._preparing_since: float | None = None

    def committed(self, records: Sequence[CoordinatorRecord], image: GroupImage) -> None:
        """The records are committed and applied; `image` is the state they led to."""
        logger = self._logger.bind(generation=image.generation_id, state=str(image.state))
        of_members = [record for record in records if isinstance(record, _OfAMember)]
        many = len(of_members) > MOST_MEMBERS_NAMED
        if many:
            self._many_members(logger, of_members)
        for record in records:
            match record:
                case MemberRemoved(_, reason) if reason is not RemovalReason.LEFT:
                    self._metrics.expired_sessions.inc()
                case _:
                    pass
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
                self._metrics.reported_rebalances.inc()
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
        self._metrics.rebalances.inc()
        end = record.end
        last = image.last_rebalance
        cause = "unknown" if last is None or last.cause is None else str(last.cause.reason)
        self._metrics.rebalance_outcomes.labels(cause, str(end.outcome)).inc()
        if end.outcome is RebalanceOutcome.ERROR:
            self._metrics.failed_rebalances.inc()
        if self._preparing_since is not None:
            self._metrics.rebalance_latency.observe(time.perf_counter() - self._preparing_since)
            self._preparing_since = None
        self._logger.info(
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

    def without_owner(self, seconds: float) -> None:
        """So much time has passed for tasks without an owner."""
        self._metrics.time_without_owner.inc(seconds)

    def answered(self, responses: Iterable[Response]) -> None:
        """Members or operators get these answers."""
        for response in responses:
            match response:
                case HeartbeatAnswered() | ProcessHeartbeatAnswered():
                    self._metrics.heartbeats.inc()
                case JoinAnswered():
                    self._metrics.joins.inc()
                case Left():
                    self._metrics.leaves.inc()
                case _:
                    pass

    @contextmanager
    def commit_latency(self) -> Iterator[None]:
        with self._metrics.commit_latency.time():
            yield

    @contextmanager
    def assignment_latency(self) -> Iterator[None]:
        with self._metrics.assignment_latency.time():
            yield

    def reloaded(self, sequence: int) -> None:
        self._logger.warning("group_reloaded", sequence=sequence)

    def compaction_failed(self, error: Exception) -> None:
        self._logger.warning("compaction_failed", error=str(error))

    def rebalance_not_stored(self, generation_id: int, error: Exception) -> None:
        self._logger.error("rebalance_not_stored", generation=generation_id, error=str(error))

    def rebalance_waits(self, generation_id: int, error: Exception) -> None:
        """It could not be begun, and is tried again."""
        self._logger.warning("rebalance_waits", generation=generation_id, error=str(error))

    def rebalance_broken(self, generation_id: int, error: Exception) -> None:
        self._logger.error("rebalance_broken", generation=generation_id, exc_info=error)

    def cluster_look_failed(self) -> None:
        self._metrics.failed_cluster_looks.inc()

    def cluster_out_of_reach(self, error: str) -> None:
        """The first of the looks that fail one after the other."""
        self._logger.warning("cluster_out_of_reach", error=error)

    def cluster_back(self, after_ms: int) -> None:
        self._logger.info("cluster_answers_again", after_ms=after_ms)

    def topics_not_told(self, error: Exception) -> None:
        self._logger.warning("topics_not_told", error=str(error))

    def not_carried_out(self, error: Exception) -> None:
        self._logger.error("effects_not_carried_out", exc_info=error)

    def tick_failed(self, error: Exception) -> None:
        """A store that cannot be used is told in a line; anything else is a bug."""
        if isinstance(error, AssignorFault):
            self._logger.error("tick_failed", error=str(error))
        else:
            self._logger.error("tick_failed", exc_info=error)
