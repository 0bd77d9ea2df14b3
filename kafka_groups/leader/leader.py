"""Leads a Kafka Streams group from a process outside the application. The process joins the group first, leads its
rebalances, stays its leader, and leaves it.

Rules:

- Every member of the group either gets an assignment that it can read, or waits. If a rebalance cannot be computed, the
  leader retries for `retry_timeout_ms`. During the retries, the members continue to process the tasks that they own.
  After `retry_timeout_ms` this leader leaves the group, and a JVM member leads the rebalance. Kafka's own leader does
  not retry a rebalance that cannot be computed. Kafka's leader immediately throws an exception, and its stream thread
  ends. If Kafka's leader would send an assignment with an error code, this leader sends the same assignment.
- If this process joins and does not become the group's leader, it leaves the group immediately. With `join_anyway`,
  this process stays in the group.
- The leader itself starts a rebalance when source topics change. The leader also starts a rebalance at a probing
  deadline that no member can carry. After a restart, the leader also starts a rebalance if topics of the topology are
  missing, or if source partitions have no owner.
- When a standby starts or ends, the leader needs a different session time-out. So the leader joins again as the same
  static member. If the leader joins again only to change its session time-out, the brokers start no rebalance. The
  members themselves start follow-up rebalances and probing rebalances. The member that carries the probing deadline
  starts the probing rebalance.

Source: `StreamsPartitionAssignor`, `ConsumerCoordinator`, `AbstractCoordinator`.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple

from assignor.protocol.consumer_protocol import decode_assignment
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.recording import rebalance_document
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.errors import GroupRebalancing, KafkaUnavailable, StaleGeneration, UnknownMember
from kafka_client.event_loop import first_of
from kafka_client.group_membership import GroupMembership, JoinedGeneration
from kafka_groups.leader.group_entry import GroupEntry
from kafka_groups.leader.lead_settings import LeadSettings
from kafka_groups.leader.led_rebalance import GroupMembers, LedRebalance, group_members, own_subscription
from kafka_groups.leader.rebalance_decider import DecidedRebalance, LedRebalanceFailed, RebalanceDecider
from kafka_groups.leader.rebalance_records import RebalanceRecords, progress_text, seen_rebalance, trigger_text
from kafka_groups.leader.source_topics import (
    PartitionCounts,
    change_text,
    mismatch_text,
    partitions_after,
    partitions_without_owner,
)
from kafka_groups.rebalance_reports import OVERTAKEN, interrupted_document
from rebalance_analysis.history.past_rebalance import SeenRebalance
from rebalance_analysis.presentation.quantities import counted

_UNREACHABLE_PAUSE_S = 1.0
_HEARTBEATS_PER_SESSION = 4
_LONGEST_HEARTBEAT_INTERVAL_S = 1.0
_NEW_SESSION = "another session time-out"


class _Watched(NamedTuple):
    """The conditions that the leader watches. If one of them becomes true, the leader starts a rebalance.

    `partitions`: the number of partitions of each source topic in the last rebalance; None to watch no topics.
    `probing_at_ms`: a probing deadline that no member can carry. `reason`: the reason why a rebalance is needed now;
    empty if no rebalance is needed.
    """

    partitions: PartitionCounts | None = None
    probing_at_ms: int | None = None
    reason: str = ""


@dataclass(eq=False)
class Leader:
    """Leads one group for as long as `lead` runs. `session_timeout_ms`: a function that returns the session time-out
    that the next join requests.
    """

    _settings: LeadSettings
    _admin: ClusterAdmin
    _membership: GroupMembership
    _work: RebalanceDecider
    _records: RebalanceRecords
    _report: Callable[[str], None]
    _session_timeout_ms: Callable[[], int]

    def __post_init__(self) -> None:
        self._entry = GroupEntry(self._settings, self._admin, self._membership, self._report)
        self._version = LATEST_SUPPORTED_VERSION
        self._seen: SeenRebalance | None = None
        self._reason = ""
        self._mismatch = ""
        self._unassigned: dict[int, str] = {}
        """Maps the id of each generation that never got an assignment to the reason. Contains only generations that are
        not recorded yet.
        """

    async def lead(self) -> None:
        """Leads the group until this call is cancelled. Raises LeadRefused, FencedInstance, LedRebalanceFailed and
        KafkaRefused. Raises KafkaUnavailable only if Kafka cannot be reached before the first join.
        """
        self._membership.session_timeout_ms = self._session_timeout_ms()
        joined = await self._entry.join(self._subscription, "assignor lead starts")
        if self._entry.took_over_a_rebalance and joined.is_leader and not joined.skip_assignment:
            self._unassigned[joined.generation_id - 1] = "its leader was gone"
        while True:
            try:
                joined = await self._generation(joined) or await self._rejoined()
            except (GroupRebalancing, StaleGeneration):
                joined = await self._patiently(self._rejoined)
            except UnknownMember:
                self._report("the group no longer knows this member: its session expired or it was removed")
                joined = await self._patiently(self._joined_as_new_member)
            except KafkaUnavailable as error:
                self._report(str(error))
                joined = await self._patiently(self._rejoined)

    async def _rejoined(self) -> JoinedGeneration:
        self._membership.session_timeout_ms = self._session_timeout_ms()
        try:
            joined = await self._membership.join(self._subscription(), self._reason or "a rebalance is in progress")
        except UnknownMember:
            return await self._joined_as_new_member()
        return await self._entry.stay_or_leave(joined) or await self._joined_as_new_member()

    async def _joined_as_new_member(self) -> JoinedGeneration:
        return await self._entry.join(self._subscription, "assignor lead joins anew")

    async def _patiently(self, join: Callable[[], Coroutine[Any, Any, JoinedGeneration]]) -> JoinedGeneration:
        """Calls `join` again and again until the brokers can be reached."""
        while True:
            try:
                return await join()
            except StaleGeneration:
                continue
            except KafkaUnavailable as error:
                self._report(str(error))
                await asyncio.sleep(_UNREACHABLE_PAUSE_S)

    async def _generation(self, joined: JoinedGeneration) -> JoinedGeneration | None:
        """Does the leader's work in one generation, until the leader has a reason to join again. Returns the next
        generation if this member has already joined it; otherwise None.

        Raises MembershipError, LedRebalanceFailed, KafkaUnavailable.
        """
        own_reason, self._reason = self._reason, ""
        if not joined.is_leader:
            await self._follow(joined)
            watched = _Watched()
        elif joined.skip_assignment:
            watched = await self._resume(joined)
        else:
            watched = await self._lead_rebalance(joined, own_reason)
        while not watched.reason:
            needs_session = self._needs_another_session if joined.is_leader and joined.can_resume else None
            watches = (self._probing(watched.probing_at_ms), self._topics_change(watched.partitions))
            reason = await first_of(self._send_heartbeats(needs_session), *watches)
            if reason is not _NEW_SESSION:
                watched = watched._replace(reason=reason)
                continue
            again = await self._with_new_session()
            if not again.skip_assignment:
                # another rebalance began before this join, so the group has a new generation
                return again
            await self._membership.sync({})
            await self._membership.heartbeat()  # the new session time-out takes effect with this heartbeat
            timeout_ms = self._membership.session_timeout_ms
            self._report(f"session.timeout.ms is {timeout_ms} from now on, because a standby has come or gone")
        self._reason = watched.reason
        return None

    async def _with_new_session(self) -> JoinedGeneration:
        self._membership.session_timeout_ms = self._session_timeout_ms()
        return await self._membership.join_as_returning(self._subscription(), "a standby has come or gone")

    async def _lead_rebalance(self, joined: JoinedGeneration, own_reason: str) -> _Watched:
        began = time.monotonic()
        joined_members = ((member.member_id, member.group_instance_id, member.metadata) for member in joined.members)
        members = group_members(self._settings.group, joined_members, joined.member_id)
        self._version = members.version
        for member, fault in members.unreadable.items():
            self._report(
                f"generation {joined.generation_id}: the subscription of member {member} cannot be read, so it gets no "
                f"tasks; stop it ({fault})"
            )
        if members.streams:
            self._unassigned[joined.generation_id] = OVERTAKEN
        try:
            decided = await first_of(self._work.decide(joined.generation_id, members), self._send_heartbeats())
        except LedRebalanceFailed as failure:
            if failure.last is not None and failure.last.led is not None:
                await self._record(joined.generation_id, failure.last.now_ms, failure.last.led)
            raise
        finally:
            self._report_mismatch(joined.generation_id, members)
        try:
            await self._membership.sync(decided.assignments)
        except KafkaUnavailable:
            self._unassigned.pop(
                joined.generation_id, None
            )  # the brokers may have got the assignments, so do not record the generation as interrupted
            raise
        took_ms = round((time.monotonic() - began) * 1000)
        if decided.led is None:
            self._seen = None
            self._report(f"generation {joined.generation_id}: leading a group without members of the application")
            return _Watched()
        await self._record_and_report(joined.generation_id, decided, decided.led, own_reason, took_ms)
        result = decided.led.result
        kept_here = decided.led.snapshot.leader_process_id is None
        return _Watched(
            partitions_after(decided.led.snapshot, result, self._work.topics),
            result.probing_rebalance_at_ms if kept_here else None,
        )

    def _report_mismatch(self, generation_id: int, members: GroupMembers) -> None:
        """Reports a difference between the topology and the members' subscriptions. Reports the difference again only
        when it changes, because a roll-out has many rebalances with the same difference.
        """
        mismatch, before = mismatch_text(self._work.topics, members.topics), self._mismatch
        self._mismatch = mismatch
        if mismatch and mismatch != before:
            self._report(f"generation {generation_id}: {mismatch}")

    async def _record_and_report(
        self, generation_id: int, decided: DecidedRebalance, led: LedRebalance, own_reason: str, took_ms: int
    ) -> None:
        await self._record(generation_id, decided.now_ms, led)
        before = self._seen
        self._seen = await asyncio.to_thread(
            seen_rebalance, self._settings.group, generation_id, decided.now_ms, led, before
        )
        self._report(progress_text(generation_id, led, trigger_text(self._seen, before, own_reason), took_ms))

    async def _record(self, generation_id: int, now_ms: int, led: LedRebalance) -> None:
        self._unassigned.pop(generation_id, None)
        unassigned, self._unassigned = self._unassigned, {}
        group = self._settings.group
        document = rebalance_document(
            id=f"{group}-{generation_id}",
            group_id=group,
            generation_id=generation_id,
            now_ms=now_ms,
            source="kafka",
            snapshot=led.snapshot,
            result=led.result,
        )
        interrupted = [
            interrupted_document(f"{group}-{each}", each, why, document) for each, why in sorted(unassigned.items())
        ]
        await self._records.add(document, interrupted)

    async def _resume(self, joined: JoinedGeneration) -> _Watched:
        """Continues to lead a group that kept its assignments while this leader was away. Checks whether topics or the
        topology changed during this time.
        """
        await self._membership.sync({})
        self._report(f"generation {joined.generation_id}: the lead is kept without a rebalance")
        wanted = (*self._work.topics, *self._work.changelogs)
        topics = await self._admin.topics(wanted)
        partitions = {name: topics[name].partitions for name in self._work.topics if name in topics}
        group = await self._admin.describe_group(self._settings.group)
        others = [member for member in group.members if member.member_id != joined.member_id]
        missing = sorted(set(wanted) - topics.keys())
        # Topics may be missing for two reasons: the topology is newer than the last rebalance, or a leader failed
        # before it created the topics.
        if others and missing:
            return _Watched(reason=f"topics of the topology are missing, {missing[0]} among them")
        if others and partitions_without_owner(partitions, [member.assignment for member in others]):
            return _Watched(reason="source topics have partitions that no member is assigned")
        return _Watched(partitions)

    async def _follow(self, joined: JoinedGeneration) -> None:
        assignment = await self._membership.sync({})
        partitions = counted(len(decode_assignment(assignment).partitions) if assignment else 0, "partition")
        self._report(
            f"generation {joined.generation_id}: following another leader, which assigned {partitions} to this member; "
            "their tasks stay idle"
        )

    def _subscription(self) -> bytes:
        settings = self._settings
        return own_subscription(settings.group, settings.group_instance_id, self._work.topics, self._version)

    async def _send_heartbeats(self, needs_another_session: Callable[[], bool] | None = None) -> Any:
        """Sends heartbeats. Stops when the function `needs_another_session` returns True after a heartbeat. Raises a
        MembershipError if the group coordinator answers a heartbeat with an error.
        """
        while True:
            await asyncio.sleep(self._heartbeat_interval_s)
            try:
                await self._membership.heartbeat()
            except KafkaUnavailable as error:
                self._report(str(error))
                continue
            if needs_another_session is not None and needs_another_session():
                return _NEW_SESSION

    @property
    def _heartbeat_interval_s(self) -> float:
        """A quarter of the session time-out, but at most 1 s. The interval is short because a leader that notices a
        rebalance late delays all members.
        """
        return min(_LONGEST_HEARTBEAT_INTERVAL_S, self._membership.session_timeout_ms / 1000 / _HEARTBEATS_PER_SESSION)

    def _needs_another_session(self) -> bool:
        return self._session_timeout_ms() != self._membership.session_timeout_ms

    async def _probing(self, at_ms: int | None) -> str:
        if at_ms is None:
            return await _never()
        await asyncio.sleep(max(0.0, at_ms / 1000 - time.time()))
        return "the probing deadline"

    async def _topics_change(self, before: PartitionCounts | None) -> str:
        """Polls the topics. When two polls in a row show the same change, returns the change. One poll is not enough:
        while new metadata spreads, brokers may give different answers for a moment.
        """
        if before is None:
            return await _never()
        last: str | None = None
        while True:
            await asyncio.sleep(self._settings.metadata_max_age_ms / 1000 if last is None else _UNREACHABLE_PAUSE_S)
            try:
                topics = await self._admin.topics(self._work.topics)
            except KafkaUnavailable as error:
                self._report(str(error))
                continue
            change = change_text(before, {name: topic.partitions for name, topic in topics.items()})
            if change is not None and change == last:
                return change
            last = change


async def _never() -> str:
    await asyncio.Event().wait()
    raise AssertionError("the event is never set")
