"""Makes the forecast of a recorded rebalance with the whole assignment pipeline, from the members' subscriptions to
their assignments.

The first rebalance of a forecast may create internal topics. These topics exist in all later rebalances. The changelogs
grow from rebalance to rebalance. The records that a stateful task appends are divided equally among its changelogs. If
a source topic serves as a changelog, the records increase its committed offset instead of its end offset. See
`assignor.clients.client_state`. If a request of the leader failed in the recording, it also fails in each rebalance of
the forecast.

The bytes of a member are decoded once. For each rebalance, the bytes are encoded again with the tasks and offset sums
that the member has at that rebalance. The ConsumerProtocol version, endpoint, tags, topics, rack and process id do not
change. The unique field of a subscription grows by one in each rebalance. An assignment may show that all members
support a higher version. The member then uses this version from the next rebalance on. Source:
`StreamsPartitionAssignor.subscriptionUserData`, `onAssignment`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import InitVar, dataclass, replace

from assignor.errors import DecodeError, InputError, KafkaError, RebalanceNotPlaced
from assignor.pipeline.snapshot import CreatedTopic, Member, RebalanceResult, RebalanceSnapshot
from assignor.protocol.assignment_info import decode_assigned_tasks
from assignor.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription, wire_version
from assignor.protocol.subscription_info import (
    MemberSubscription,
    SubscriptionInfo,
    decode_members,
    encode_subscription_info,
)
from assignor.protocol.versions import FIRST_VERSION_WITH_UNIQUE_FIELD, UNKNOWN_VERSION, next_subscription_version
from assignor.recording import RecordedRebalance
from assignor.task_assignors.base import PlacementProblem
from assignor.task_assignors.decisions import DecisionKind
from assignor.topology.cluster import TopicMetadata
from assignor.topology.group_topology import changelog_configs
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId, TopicPartition
from rebalance_analysis.rerun import LoadOwn, RerunRebalance, run_recorded
from rebalance_analysis.simulate.group_members import Decided, HandedOut, Members, Past, first_members
from rebalance_analysis.simulate.model import ForecastModel
from rebalance_analysis.simulate.modelled_thread import ChangelogEnds, ModelledThread, rates_of


@dataclass(eq=False)
class RebalanceLeader:
    _recorded: RecordedRebalance
    _model: ForecastModel
    _load_own: LoadOwn | None
    as_recorded: InitVar[RecordedRebalance]

    def __post_init__(self, as_recorded: RecordedRebalance) -> None:
        self._past = _past(self._recorded.snapshot, as_recorded.snapshot)
        self._snapshot = self._recorded.snapshot
        self._members = recorded_members(self._recorded.snapshot.members)

    def recorded_rebalance(self) -> tuple[Decided, Members]:
        result = self._run(self._snapshot, 0)
        assert result.problem is not None
        threads = [
            ModelledThread(member_id, member.process, rates_of(self._model, member.process))
            for member_id, member in self._members.items()
        ]
        active = {member_id: _active(self._snapshot, member) for member_id, member in self._members.items()}
        reported = {member_id: member.info.task_offset_sums for member_id, member in self._members.items()}
        ends = _recorded_ends(result.problem)
        members = first_members(result.problem, threads, active, reported, ends, self._model, self._past)
        # If an operator forbids moves of owned tasks, this is valid for one rebalance. A drain is valid for all
        # rebalances.
        later = replace(self._snapshot.steering, keeps_owned=False)
        self._snapshot = with_created(replace(self._snapshot, steering=later), result.created_topics)
        try:
            return self._decided(result), members
        except KafkaError as error:
            raise RebalanceNotPlaced(error.with_hint()) from error

    def next_rebalance(self, members: Members, now_ms: int) -> Decided:
        sums = members.offset_sums(now_ms)
        snapshot = replace(
            with_appended(self._snapshot, members.ends, now_ms),
            members={member_id: member.joins(sums[member_id]) for member_id, member in self._members.items()},
        )
        try:
            return self._decided(self._run(snapshot, now_ms))
        except (InputError, DecodeError, KafkaError) as error:
            raise RebalanceNotPlaced(str(error)) from error

    def _run(self, snapshot: RebalanceSnapshot, now_ms: int) -> RebalanceResult:
        recorded = replace(self._recorded, snapshot=snapshot, now_ms=self._recorded.now_ms + now_ms, output=None)
        rerun = run_recorded(recorded, self._load_own)
        assert isinstance(rerun, RerunRebalance)
        if rerun.error is not None:
            is_code = rerun.result.error is None
            raise RebalanceNotPlaced(f"every member is sent the error {rerun.error}" if is_code else rerun.error)
        return rerun.result

    def _decided(self, result: RebalanceResult) -> Decided:
        assert result.problem is not None
        assert result.placement is not None
        handed_out: dict[str, HandedOut] = {}
        rejoin = result.followup_rebalance or self._leader_misses(result.created_topics)
        for member_id, member in self._members.items():
            handed_out[member_id], at_once = member.receives(result.assignments[member_id])
            rejoin |= at_once
        waiting = [each.task for each in result.decisions if each.kind is DecisionKind.WAITING_FOR_REVOCATION]
        deadline_ms = result.probing_rebalance_at_ms
        return Decided(
            result.problem,
            result.placement,
            handed_out,
            frozenset(waiting),
            rejoin,
            None if deadline_ms is None else deadline_ms - self._recorded.now_ms,
        )

    def _leader_misses(self, created: Iterable[str]) -> bool:
        """True if the rebalance created topics that the group reads. At first, the metadata of the leader's consumer
        does not contain these topics. When the metadata contains them, the consumer requests another rebalance
        (`ConsumerCoordinator.rejoinNeededOrPending`). For a leader that is not a member of the group, returns False,
        because this leader has no consumer.
        """
        read = {topic for each in self._snapshot.topology.subtopologies for topic in each.source_topics}
        return self._snapshot.leader_process_id is not None and not read.isdisjoint(created)


def _past(snapshot: RebalanceSnapshot, as_recorded: RebalanceSnapshot) -> Past:
    gone = {each: member for each, member in as_recorded.members.items() if each not in snapshot.members}
    left_behind: set[TaskId] = set()
    if gone:
        alive = {member.process for member in recorded_members(snapshot.members).values()}
        for member_id, member in gone.items():
            # if the bytes of a removed member cannot be decoded, its tasks are not known
            with suppress(InputError, DecodeError):
                owner = recorded_members({member_id: member})[member_id]
                left_behind.update(() if owner.process in alive else _active(as_recorded, owner))
    return Past(as_recorded.configs, frozenset(left_behind))


def _active(snapshot: RebalanceSnapshot, member: RecordedMember) -> list[TaskId]:
    """Returns the active tasks of a member: the tasks of the partitions that it owns, and the tasks that it reports as
    running.
    """
    reader = {topic: each.id for each in snapshot.topology.subtopologies for topic in each.source_topics}
    owned = [TaskId(reader[each.topic], each.partition) for each in member.owned if each.topic in reader]
    running = [task for task, offset_sum in member.info.task_offset_sums.items() if offset_sum == LATEST_OFFSET]
    return list(dict.fromkeys(owned + running))


def _recorded_ends(problem: PlacementProblem) -> Mapping[TaskId, int]:
    """Returns the end-offset sums of all stateful tasks. A task whose end offsets are not known has the sum 0."""
    ends = next(iter(problem.clients.values())).lags.unreported
    return {task: 0 if end == UNKNOWN_OFFSET_SUM else end for task, end in ends.items()}


_Appended = Mapping[str, Mapping[int, int]]
"""The number of appended records of each topic and partition."""


def with_created(snapshot: RebalanceSnapshot, created: Mapping[str, CreatedTopic]) -> RebalanceSnapshot:
    """Returns a copy of the snapshot in which the created topics exist and are empty. If metadata of these topics is
    recorded, the copy contains this metadata.
    """
    if not created:
        return snapshot
    seen = snapshot.created_internal_topics or {}
    existing = {name: seen.get(name) or TopicMetadata(topic.partitions) for name, topic in created.items()}
    ends = snapshot.changelog_end_offsets
    empty = {name: (0,) * topic.partitions for name, topic in created.items() if name in _changelogs(snapshot)}
    return replace(
        snapshot,
        existing_internal_topics={**snapshot.existing_internal_topics, **existing},
        changelog_end_offsets=None if ends is None else {**ends, **empty},
    )


def with_appended(snapshot: RebalanceSnapshot, ends: ChangelogEnds, now_ms: int) -> RebalanceSnapshot:
    """Returns a copy of the snapshot that has the changelog offsets of the time `now_ms`. `snapshot`: the snapshot of
    the recorded rebalance.
    """
    if not ends.appended_records_per_s:
        return snapshot
    changelogs, committed = _appended(snapshot, ends, now_ms)
    offsets = snapshot.changelog_end_offsets
    return replace(
        snapshot,
        changelog_end_offsets=None
        if offsets is None
        else {topic: _grown(known, changelogs.get(topic, {})) for topic, known in offsets.items()},
        committed_offsets={
            **snapshot.committed_offsets,
            **{topic: _committed(snapshot.committed_offsets.get(topic, ()), more) for topic, more in committed.items()},
        },
    )


def _changelogs(snapshot: RebalanceSnapshot) -> frozenset[str]:
    return frozenset(topic for each in snapshot.topology.subtopologies for topic in changelog_configs(each))


def _appended(snapshot: RebalanceSnapshot, ends: ChangelogEnds, now_ms: int) -> tuple[_Appended, _Appended]:
    """Returns two values. The first value has the numbers of records that were appended to changelogs. The second value
    has these numbers for source topics that serve as changelogs.
    """
    changelogs: dict[str, dict[int, int]] = {}
    committed: dict[str, dict[int, int]] = {}
    topics_of: dict[int, tuple[list[str], frozenset[str]]] = {
        each.id: (sorted(changelog_configs(each)), frozenset(each.source_topics))
        for each in snapshot.topology.subtopologies
    }
    for task in ends.recorded:
        topics, sources = topics_of[task.subtopology]
        for topic, records in zip(topics, _spread(task, len(topics), ends, now_ms), strict=True):
            (committed if topic in sources else changelogs).setdefault(topic, {})[task.partition] = records
    return changelogs, committed


def _spread(task: TaskId, topics: int, ends: ChangelogEnds, now_ms: int) -> list[int]:
    each, more = divmod(ends.appended(task, now_ms), topics)
    return [each + (number < more) for number in range(topics)]


def _grown(offsets: tuple[int, ...], more: Mapping[int, int]) -> tuple[int, ...]:
    return tuple([offset + more.get(partition, 0) for partition, offset in enumerate(offsets)])


def _committed(offsets: tuple[int | None, ...], more: Mapping[int, int]) -> tuple[int | None, ...]:
    partitions = max(len(offsets), 1 + max(more))
    padded = offsets + (None,) * (partitions - len(offsets))
    return tuple([(offset or 0) + more[number] if more.get(number) else offset for number, offset in enumerate(padded)])


@dataclass(slots=True)
class RecordedMember:
    """A member of a forecast. The owned partitions, version, generation and unique field of a member may change at each
    rebalance. All other fields of the member keep their recorded values.
    """

    member: Member
    subscription: Subscription
    info: SubscriptionInfo
    consumer_version: int
    owned: tuple[TopicPartition, ...]

    @property
    def process(self) -> ProcessId:
        return self.info.process_id

    def receives(self, assignment: bytes) -> tuple[HandedOut, bool]:
        """Applies an assignment. Returns the assigned tasks. Also returns True if the member rejoins immediately. There
        are two reasons for an immediate rejoin: the member has to revoke a partition, or it changes to a higher
        version.
        """
        decoded = decode_assignment(assignment)
        tasks = decode_assigned_tasks(decoded.user_data or b"")
        gives_up = not set(self.owned).issubset(decoded.partitions)
        self.owned = decoded.partitions
        version = self.info.version
        if tasks.commonly_supported_version != UNKNOWN_VERSION:
            version = next_subscription_version(version, tasks.version, tasks.commonly_supported_version)
        upgrades = version != self.info.version
        self.info = replace(self.info, version=version)
        active = tuple(dict.fromkeys(tasks.active_tasks))
        return HandedOut(active, tasks.standby_tasks), gives_up or upgrades

    def joins(self, offset_sums: Mapping[TaskId, int]) -> Member:
        """Returns the member as it joins the next rebalance, with new subscription bytes."""
        unique = self.info.unique_field
        if self.info.version >= FIRST_VERSION_WITH_UNIQUE_FIELD:
            unique = (unique + 1 + 128) % 256 - 128
        self.info = replace(
            self.info, task_offset_sums=offset_sums, unique_field=unique, error_code=0, listed_twice=frozenset()
        )
        generation_id = self.subscription.generation_id
        self.subscription = replace(
            self.subscription,
            user_data=encode_subscription_info(self.info),
            owned_partitions=self.owned,
            generation_id=None if generation_id is None else generation_id + 1,
        )
        return replace(self.member, subscription=encode_subscription(self.subscription, self.consumer_version))


def recorded_members(members: Mapping[str, Member]) -> dict[str, RecordedMember]:
    """Decodes the subscription bytes of the members. Returns the members by member id. Raises DecodeError if the bytes
    of a member cannot be decoded; the error names the member. Raises InputError if a member has a future version.
    """
    decoded = dict(decode_members({member_id: member.subscription for member_id, member in members.items()}))
    return {member_id: _recorded_member(member_id, member, decoded[member_id]) for member_id, member in members.items()}


def _recorded_member(member_id: str, member: Member, decoded: MemberSubscription) -> RecordedMember:
    subscription, info = decoded
    if info.is_future:
        raise InputError(
            f"has version {info.version}, which is not known here, so nobody knows what the member would send next",
            f"input.members[{member_id!r}].subscription",
        )
    version = wire_version(member.subscription)
    return RecordedMember(member, subscription, info, version, subscription.owned_partitions)
