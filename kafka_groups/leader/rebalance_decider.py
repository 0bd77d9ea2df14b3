"""Does the I/O of a rebalance that this process leads: reads the cluster and creates topics. The module `led_rebalance`
computes the assignments. A failed rebalance is tried again until a time limit.

The pauses between the tries become longer. Meanwhile the members wait, because the leader sends nothing until it has
computed the assignments. A rebalance fails, for example, if Kafka's leader would have thrown an exception. A rebalance
that sends an error code to members is not treated as failed. A new generation does not restart the time limit. If each
generation had its own time limit, the retries would never end. JVM members that wait longer than their session time-out
start new generations.

The leader also checks that the brokers can store the generation. The brokers store a generation as one record of
`__consumer_offsets`. The record contains the subscriptions and assignments of all members. If this record is too large,
the brokers answer with an unknown error, and this error ends JVM members.
Source: `GroupMetadataManager.classicGroupSync`, `GroupCoordinatorRecordHelpers.newGroupMetadataRecord`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from assignor.errors import AssignorFault
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.task_assignors.base import TaskAssignor
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.cluster_provider import cluster_view
from kafka_client.errors import KafkaRefused
from kafka_client.offsets_topic import OFFSETS_TOPIC
from kafka_groups.leader.led_rebalance import GroupMembers, LedRebalance, all_assignments, lead_rebalance, source_topics

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_OFFSETS_TIMEOUT_S = 30.0
_SHORTEST_TRY_S = 10.0

_RECORD_LIMIT = "max.message.bytes"
_DEFAULT_RECORD_LIMIT = 1_048_588
_ALWAYS_ACCEPTED_BYTES = 500_000
"""If the group's record has at most this number of bytes, the leader does not ask the brokers for their limit."""


class LedRebalanceFailed(AssignorFault):
    """All tries of a rebalance failed within the time limit. `last`: the rebalance of the last try, if Kafka's leader
    would have thrown an exception; otherwise None.
    """

    def __init__(self, message: str, last: DecidedRebalance | None) -> None:
        super().__init__(message)
        self.last = last


class GroupRecordTooLarge(AssignorFault):
    """The brokers would refuse the generation, because its record is too large. The message of the error names the
    remedy, and the member that needs the most bytes.
    """


@dataclass(frozen=True, slots=True)
class DecidedRebalance:
    """The result of `decide`. `led`: the computed rebalance; None if the group has no member of the application.
    `assignments`: the ConsumerProtocolAssignment of each member, by member id.
    """

    now_ms: int
    led: LedRebalance | None
    assignments: dict[str, bytes]


class _LeaderWouldThrow(AssignorFault):
    """The exception that Kafka's leader would have thrown."""

    def __init__(self, rebalance: DecidedRebalance, message: str) -> None:
        super().__init__(message)
        self.rebalance = rebalance


@dataclass(slots=True)
class RebalanceDecider:
    """Reads the cluster and decides the assignments of rebalances. `definition`: the definition of the group, without
    members and cluster. `redefine`: a function that makes a new definition from the present topics of the cluster.
    `redefine` is needed because a pattern may match other topics in a later rebalance. `redefine` is None if the
    application's file has the complete topology.
    """

    admin: ClusterAdmin
    definition: RebalanceSnapshot
    task_assignor: TaskAssignor | None
    timeout_s: float
    report: Callable[[str], None]
    redefine: Callable[[], Awaitable[RebalanceSnapshot]] | None = None
    _failing_since: float | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics that the topology reads."""
        return source_topics(self.definition.topology)

    @property
    def changelogs(self) -> tuple[str, ...]:
        """The changelog topics of the topology's stores."""
        stores = (store for each in self.definition.topology.subtopologies for store in each.stores)
        return tuple(store.changelog_topic for store in stores if store.changelog_topic is not None)

    async def decide(self, generation_id: int, members: GroupMembers) -> DecidedRebalance:
        """Decides the assignments of a generation. If a try fails, tries again. Raises LedRebalanceFailed if all tries
        have failed for more than `timeout_s` seconds.
        """
        clock = asyncio.get_running_loop().time
        if self._failing_since is None:
            self._failing_since = clock()
        give_up_at = self._failing_since + self.timeout_s
        pause_s = _FIRST_PAUSE_S
        while True:
            last: DecidedRebalance | None = None
            try:
                async with asyncio.timeout_at(max(give_up_at, clock() + min(_SHORTEST_TRY_S, self.timeout_s))):
                    decided = await self._once(members)
                self._failing_since = None
                return decided
            except TimeoutError:
                reason = f"no result within {self.timeout_s:g} s"
            except _LeaderWouldThrow as error:
                last, reason = error.rebalance, str(error)
            except AssignorFault as error:
                reason = str(error)
            except Exception as error:  # an assignor that the user wrote may raise any exception
                reason = f"{type(error).__name__}: {error}"
            if clock() + pause_s >= give_up_at:
                raise LedRebalanceFailed(f"generation {generation_id}: the rebalance failed: {reason}", last)
            self.report(f"generation {generation_id}: the rebalance failed; next try in {pause_s:g} s: {reason}")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _once(self, members: GroupMembers) -> DecidedRebalance:
        now_ms = time.time_ns() // 1_000_000
        if not members.streams:
            assignments = all_assignments(members, None)
            await _check_record_size(self.admin, members.sizes, assignments)
            return DecidedRebalance(now_ms, None, assignments)
        await self._follow_patterns(members)
        view = await cluster_view(self.admin, self.definition, offsets_timeout_s=_OFFSETS_TIMEOUT_S)
        snapshot = replace(self.definition.seen(view), members=members.streams)
        led = await asyncio.to_thread(lead_rebalance, snapshot, now_ms, self.task_assignor)
        if led.result.created_topics:
            await self.admin.create_topics(led.result.created_topics)
            # the racks of a new topic's replicas are not known before the topic is created
            if snapshot.configs.rack_aware:
                after = await cluster_view(self.admin, self.definition, offsets_timeout_s=_OFFSETS_TIMEOUT_S)
                view = view.with_created(led.result.created_topics, after)
                snapshot = replace(self.definition.seen(view), members=members.streams)
                led = await asyncio.to_thread(lead_rebalance, snapshot, now_ms, self.task_assignor)
        if led.result.error is not None:
            raise _LeaderWouldThrow(DecidedRebalance(now_ms, led, {}), led.result.error.with_hint())
        assignments = all_assignments(members, led.result)
        await _check_record_size(self.admin, members.sizes, assignments)
        return DecidedRebalance(now_ms, led, assignments)

    async def _follow_patterns(self, members: GroupMembers) -> None:
        """Makes the definition again if the topics to which the members subscribe differ from the topics that the
        topology reads. The new definition has topics that a pattern of the topology now matches, and lacks topics that
        no longer exist. A topic that the topology does not read is not added, even if members subscribe to it.
        """
        before = set(self.topics)
        if self.redefine is None or set().union(*members.topics.values()) == before:
            return
        definition = await self.redefine()
        now = set(source_topics(definition.topology))
        if now != before:
            self.definition = definition
            changes = [f"{topic} is read too" for topic in sorted(now - before)]
            changes += [f"{topic} is no longer read" for topic in sorted(before - now)]
            self.report(f"topology: by pattern, {', '.join(changes)}")


async def _check_record_size(admin: ClusterAdmin, sizes: Mapping[str, int], assignments: Mapping[str, bytes]) -> None:
    """Checks that the group's record is not larger than the brokers' limit. `sizes`: the size of each member's
    subscription in bytes, by member id. Raises GroupRecordTooLarge, KafkaUnavailable.
    """
    bytes_of = {member: size + len(assignments[member]) for member, size in sizes.items()}
    total = sum(bytes_of.values())
    if total <= _ALWAYS_ACCEPTED_BYTES:
        return
    limit = await _record_limit(admin)
    if total > limit:
        largest = max(bytes_of, key=lambda member: bytes_of[member])
        raise GroupRecordTooLarge(
            f"the group's record would have {total} bytes, {bytes_of[largest]} of them from member {largest}, and "
            f"{_RECORD_LIMIT} of {OFFSETS_TOPIC} is {limit}: stop that member, or raise {_RECORD_LIMIT} of that topic"
        )


async def _record_limit(admin: ClusterAdmin) -> int:
    """Returns the brokers' limit for the size of the group's record, in bytes. If the user may not read the configs of
    `__consumer_offsets`, returns Kafka's default.
    """
    try:
        configs = await admin.topic_configs([OFFSETS_TOPIC])
    except KafkaRefused:
        return _DEFAULT_RECORD_LIMIT
    return int(configs.get(OFFSETS_TOPIC, {}).get(_RECORD_LIMIT, _DEFAULT_RECORD_LIMIT))
