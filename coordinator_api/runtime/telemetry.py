"""Writes the changes of a group to the log file and the metrics of the service.

Each change gets a log line with the group, the generation and the member. If many members change in one commit, a
single line has the number of members. Lines of level debug have the ids of the members. `GroupStanding` computes the
values of the group for `/metrics` from the committed records. The values are the time for which tasks have had no owner
(`OwnerlessTasks`), and the number of rebalances. If a record takes long to evaluate, a thread evaluates it, so that a
large group does not block other groups. Later records of the same group wait until the thread has ended. The values for
`/metrics` are not stored.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from assignor.protocol.shared_assignments import AssignmentParts
from assignor.types import TaskId
from coordinator_api.group.health import GroupHealth
from coordinator_api.group.image import GroupImage
from coordinator_api.group.outcome import JoinAnswered, Left, Response
from coordinator_api.group.records import (
    CoordinatorRecord,
    DefinitionChanged,
    DrainChanged,
    GroupDeleted,
    GroupEmptied,
    MemberAway,
    MemberRemoved,
    MemberReplaced,
    MemberSubscribed,
    RebalanceCompleted,
    RebalanceLedElsewhere,
    RebalanceStarted,
)
from coordinator_api.group.states import RebalanceOutcome, RemovalReason
from coordinator_api.group.subscriptions import assigned_tasks
from coordinator_api.metrics import GroupMeasures, Metrics

_LOGGER = "coordinator_api"

_RecordOfAMember = MemberSubscribed | MemberReplaced | MemberRemoved

LogEvent = Callable[..., object]
"""A function that writes a line to the service's log file. The arguments of the function are the name of the event, and
the values of the event by name.
"""

MOST_MEMBERS_NAMED = 8
"""If at most this number of members change in one commit, each of these members gets a separate log line."""


class GroupTelemetry:
    """The log lines and metrics of one group. `logger` adds the group to each line."""

    def __init__(self, group_id: str, metrics: Metrics) -> None:
        self.metrics = metrics
        self.logger = structlog.get_logger(_LOGGER).bind(group=group_id)
        self._preparing_since: float | None = None

    def committed(self, records: Sequence[CoordinatorRecord], image: GroupImage) -> None:
        """Log and count committed records. `image`: the state after the records."""
        logger = self.logger.bind(generation=image.generation_id, state=str(image.state))
        of_members = [record for record in records if isinstance(record, _RecordOfAMember)]
        many = len(of_members) > MOST_MEMBERS_NAMED
        if many:
            self._many_members(logger, of_members)
        for record in records:
            if isinstance(record, MemberRemoved) and record.reason is not RemovalReason.LEFT:
                self.metrics.expired_sessions.inc()
            if isinstance(record, _RecordOfAMember):
                if not many:
                    self._member(logger.info, record)
            else:
                self._group(logger, record, image)

    def _member(self, log_event: LogEvent, record: _RecordOfAMember) -> None:
        match record:
            case MemberSubscribed(member_id, join):
                log_event("member_subscribed", member=member_id, group_instance_id=join.group_instance_id)
            case MemberReplaced(group_instance_id, old, new):
                log_event("member_replaced", member=new, old_member=old, group_instance_id=group_instance_id)
            case MemberRemoved(member_id, reason):
                log_event("member_removed", member=member_id, reason=str(reason))

    def _many_members(self, logger: structlog.stdlib.BoundLogger, records: Sequence[_RecordOfAMember]) -> None:
        for kind, event in ((MemberSubscribed, "members_subscribed"), (MemberReplaced, "members_replaced")):
            members = sum(isinstance(record, kind) for record in records)
            if members:
                logger.info(event, members=members)
        removed = Counter(str(record.reason) for record in records if isinstance(record, MemberRemoved))
        for reason, members in sorted(removed.items()):
            logger.info("members_removed", members=members, reason=reason)
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
                logger.info("rebalance_preparing", reason=cause.as_text())
            case RebalanceLedElsewhere(led_by, end=end):
                self.metrics.reported_rebalances.inc()
                logger.info("rebalance_reported", led_by=led_by, outcome=str(end.outcome), error=end.error)
            case RebalanceCompleted():
                self._completed(record, image)
            case GroupEmptied():
                logger.info("group_emptied")
            case GroupDeleted():
                logger.info("group_deleted")

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
        """Returns the milliseconds since the present rebalance began. Returns None if this process did not see the
        start of the rebalance.
        """
        return None if self._preparing_since is None else round((time.perf_counter() - self._preparing_since) * 1000)

    def answered(self, responses: Iterable[Response]) -> None:
        """Count the answers to committed events."""
        for response in responses:
            if isinstance(response, JoinAnswered):
                self.metrics.joins.inc()
            elif isinstance(response, Left):
                self.metrics.leaves.inc()


_WENT_BY_THEMSELVES = (RemovalReason.LEFT, RemovalReason.GRACE_ENDED)
"""The reasons for the removal of a member that left. If the last member of a group was removed for one of these
reasons, the application was stopped on purpose.
"""
_HELD_BACK = (RebalanceOutcome.FOLLOW_UP, RebalanceOutcome.SETTLED, RebalanceOutcome.ERROR)
"""The outcomes after which tasks may have no owner. After outcomes that are not in `_HELD_BACK`, every task has an
owner.
"""


class OwnerlessTasks:
    """Finds the tasks of a group that no member owns. For each such task, records when the time without owner began.
    The metric "time without owner" is computed from the times that `OwnerlessTasks` records.

    The owner of a task is the member to which the last rebalance assigned the active task. A task has no owner if the
    member with the active task was removed or is away, or if the last rebalance failed. A task also has no owner while
    a follow-up rebalance waits until the former owner has revoked the task. A crashed member counts as an owner until
    the member is removed.

    Known limits: after the group was read from the store again, only the assigned tasks of present members are known.
    In a group with an outside leader, no task is counted, because the service knows nothing about tasks between two
    reports.

    `since_ms`: for each task without an owner, the start of the time without owner. Each change replaces this mapping
    with a new one. Two methods of one OwnerlessTasks must not run at the same time.
    """

    def __init__(self, image: GroupImage, now_ms: int) -> None:
        """`image`: the present state of the group."""
        self.since_ms: Mapping[TaskId, int] = {}
        self._given: dict[str, AssignmentParts] = {}
        self._away: set[str] = set()
        self._went_by_itself = True
        self._counted_until_ms = now_ms
        self.read_again(image, now_ms)

    def read_again(self, image: GroupImage, now_ms: int) -> None:
        """Start again from `image`, which was read from the store. If every task has an owner after the last rebalance
        and the group is Stable, all tasks count as owned again.
        """
        end = image.present_end
        if image.led_by is not None or (end is not None and end.outcome not in _HELD_BACK):
            self.since_ms = {}
        members = () if image.led_by is not None else tuple(image.members.values())
        given = ((member.member_id, member.last_assignment.assignment) for member in members)
        self._given = {member_id: assignment for member_id, assignment in given if assignment is not None}
        self._away = {member.member_id for member in members if member.is_away}
        self._lose(self._tasks(self._away), now_ms)

    def passed_ms(self, now_ms: int) -> int:
        """Returns the time since the last call, multiplied by the number of tasks that have no owner now."""
        passed = len(self.since_ms) * max(now_ms - self._counted_until_ms, 0)
        self._counted_until_ms = max(now_ms, self._counted_until_ms)
        return passed

    def note(self, record: CoordinatorRecord, at_ms: int) -> None:
        """Update the tasks for a record that was committed at `at_ms`."""
        match record:
            case MemberRemoved(member_id, reason):
                self._went_by_itself = reason in _WENT_BY_THEMSELVES
                self._lose(self._tasks((member_id,)), at_ms)
                self._given.pop(member_id, None)
                self._away.discard(member_id)
            case MemberAway(member_id):
                self._lose(self._tasks((member_id,)), at_ms)
                self._away.add(member_id)
            case MemberSubscribed(member_id) if member_id in self._away:
                self._come_back(member_id)
            case MemberReplaced(_, old_member_id, new_member_id):
                self._come_back(old_member_id)
                if old_member_id in self._given:
                    self._given[new_member_id] = self._given.pop(old_member_id)
            case RebalanceCompleted():
                self._completed(record, at_ms)
            case GroupEmptied() if self._went_by_itself:
                # the application was stopped on purpose, so its tasks are not counted
                self.since_ms = {}
            case GroupDeleted():
                self.since_ms = {}

    def _completed(self, record: RebalanceCompleted, at_ms: int) -> None:
        before = self._given
        self._given = dict(record.assignments.parts)
        self._away &= self._given.keys()
        if record.end.outcome not in _HELD_BACK:
            self.since_ms = {}
        else:
            known = {task for each in before.values() for task in assigned_tasks(each).active} | self.since_ms.keys()
            owned = {task for each in self._given.values() for task in assigned_tasks(each).active}
            self.since_ms = {task: self.since_ms.get(task, at_ms) for task in known - owned}
        self._lose(self._tasks(self._away), at_ms)

    def _come_back(self, member_id: str) -> None:
        if member_id in self._away:
            self._away.discard(member_id)
            back = set(self._tasks((member_id,)))
            self.since_ms = {task: since for task, since in self.since_ms.items() if task not in back}

    def _lose(self, tasks: Iterable[TaskId], at_ms: int) -> None:
        lost = dict.fromkeys(tasks, at_ms)
        if lost:
            self.since_ms = {**lost, **self.since_ms}

    def _tasks(self, member_ids: Iterable[str]) -> list[TaskId]:
        given = (self._given.get(member_id) for member_id in member_ids)
        return [task for each in given if each is not None for task in assigned_tasks(each).active]


def takes_long(record: CoordinatorRecord) -> bool:
    """Returns whether `note` has to read the assignments of all members for this record."""
    return isinstance(record, RebalanceCompleted) and record.end.outcome in _HELD_BACK


HOUR_MS = 3_600_000

MOST_REBALANCES_KNOWN = 1_000
"""The largest number of rebalances in an hour that can be shown. A group with more rebalances is shown with this
number.
"""


class GroupStanding:
    """The values of one group for `/metrics`. `passed`: a function that is called with a number of seconds: the time
    without owner, summed over all tasks.
    """

    def __init__(self, image: GroupImage, now_ms: int, passed: Callable[[float], None]) -> None:
        self._passed = passed
        self._owners = OwnerlessTasks(image, now_ms)
        self.warming_since_ms = dict.fromkeys(_warm_ups(image), now_ms)
        """For each warm-up of the last rebalance and its member, the time since which the member has this warm-up."""

        self._completed_at_ms: deque[int] = deque(maxlen=MOST_REBALANCES_KNOWN)
        self.rebalanced_at_ms: int | None = None
        """The time at which the last rebalance ended; None if this process has not seen its end."""

        self.rebalancing_since_ms: int | None = None
        """The start of the present rebalance; None if no rebalance runs, or if this process has not seen its start."""

        self._to_take: deque[tuple[CoordinatorRecord, int] | tuple[GroupImage, int]] = deque()
        self._thread: asyncio.Task[None] | None = None

    def committed(self, records: Iterable[CoordinatorRecord], now_ms: int) -> None:
        for record in records:
            if isinstance(record, RebalanceStarted):
                self.rebalancing_since_ms = now_ms
            if isinstance(record, RebalanceCompleted):
                self.rebalancing_since_ms, self.rebalanced_at_ms = None, now_ms
                self._completed_at_ms.append(now_ms)
                given = [(task, member_id) for member_id, tasks in record.warm_ups.items() for task in tasks]
                self.warming_since_ms = {each: self.warming_since_ms.get(each, now_ms) for each in given}
            self._to_take.append((record, now_ms))
        self._take()

    def read_again(self, image: GroupImage, now_ms: int) -> None:
        """Start again from `image`, which was read from the store, because earlier records may not have been
        committed.
        """
        self.warming_since_ms = {each: self.warming_since_ms.get(each, now_ms) for each in _warm_ups(image)}
        self._to_take.append((image, now_ms))
        self._take()

    @property
    def ownerless_since_ms(self) -> Mapping[TaskId, int]:
        """For each task without an owner, the start of the time without owner."""
        return self._owners.since_ms

    def measures(self, group_id: str, image: GroupImage, health: GroupHealth, now_ms: int) -> GroupMeasures:
        """Returns the values for `/metrics`. `image`: the committed state."""
        if self._thread is None:
            self._count(now_ms)
        since_ms = self.ownerless_since_ms
        while self._completed_at_ms and self._completed_at_ms[0] <= now_ms - HOUR_MS:
            self._completed_at_ms.popleft()
        probing_at_ms = image.present_end.probing_rebalance_at_ms if image.present_end else None
        return GroupMeasures(
            group_id=group_id,
            members=len(image.members),
            tasks_without_owner=len(since_ms),
            without_owner_s=_seconds(now_ms - min(since_ms.values(), default=now_ms)),
            held_s=0.0 if image.held is None else _seconds(now_ms - image.held.since_ms),
            warm_ups=len(self.warming_since_ms) if image.members else 0,
            probing_in_s=None if probing_at_ms is None else _seconds(probing_at_ms - now_ms),
            rebalances_per_hour=len(self._completed_at_ms),
            health=health.level,
            reasons={str(each.code): each.level for each in reversed(health.reasons)},
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
                self._owners.note(what, at_ms)

    async def _take_in_thread(self, record: CoordinatorRecord, at_ms: int) -> None:
        try:
            await asyncio.to_thread(self._owners.note, record, at_ms)
        finally:
            self._thread = None
            self._take()

    def _count(self, now_ms: int) -> None:
        self._passed(self._owners.passed_ms(now_ms) / 1000)


def _warm_ups(image: GroupImage) -> list[tuple[TaskId, str]]:
    return [(task, key) for key, member in image.members.items() for task in member.last_assignment.warm_ups]


def _seconds(ms: int) -> float:
    return max(ms, 0) / 1000
