"""The whole rebalance: subscription bytes in, assignment bytes out. `_steps` is the table of contents.

0. gather the members' subscriptions by process
1. count, check and create the repartition topics
2. make tasks of partitions, find out what every client had and how far it is behind, ask the task assignor
3. map every host to its partitions
4. spread each client's tasks over its threads, hold back what another member still owns, encode

Source: `StreamsPartitionAssignor.assign`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from assignor.clients.client_metadata import GroupMetadata
from assignor.clients.client_state import ClientState, client_state
from assignor.clients.end_offsets import EndOffsetSums
from assignor.cluster import Racks
from assignor.decisions import DecisionLog
from assignor.errors import InputError, KafkaError, MissingSourceTopicError, TaskAssignmentError
from assignor.garbage import collected_afterwards
from assignor.group_tasks import CreatedTopics, GroupTasks, gather_members, make_tasks, sum_end_offsets
from assignor.java.order import hash_set_order, int64, process_hash
from assignor.protocol.shared_assignments import NO_ASSIGNMENTS, SharedAssignments
from assignor.protocol.versions import FIRST_VERSION_WITH_ENDPOINT
from assignor.snapshot import RebalanceResult, RebalanceSnapshot
from assignor.steering import steered_assignor
from assignor.task_assignors.base import (
    AssignmentError,
    Placement,
    PlacementClient,
    PlacementProblem,
    PublicInterfaceAssignor,
    TaskAssignor,
)
from assignor.task_assignors.placement_validation import refusal, validate_placement
from assignor.task_assignors.rack_information import RackInformation, RacksOnDemand
from assignor.task_assignors.registry import BUILT_IN_ASSIGNORS, task_assignor_named
from assignor.threads.consumer_assignments import (
    AT_ONCE_MS,
    ConsumerAssignments,
    consumer_assignments,
    error_assignments,
)
from assignor.threads.hosts import NO_HOSTS, HostMaps, host_maps
from assignor.threads.partition_order import PartitionsInJavaOrder, partitions_in_java_order
from assignor.topology.internal_topics import DESCRIBE_TOPICS_FAILURE
from assignor.topology.remembered_tasks import task_map_order
from assignor.topology.topic_racks import TopicRacks
from assignor.types import JAVA_LONG_MAX, AssignorErrorCode, ProcessId, TaskId, TopicPartition

LEGACY_STICKY = "LegacyStickyTaskAssignor"
FALLBACK_PRIOR = "FallbackPriorTaskAssignor"
STREAMS_GROUP_STICKY = "StreamsGroupStickyTaskAssignor"


@dataclass(frozen=True, slots=True)
class _Effects:
    """What a rebalance has created and decided so far; one that fails halfway keeps it."""

    created: CreatedTopics = field(default_factory=dict)
    log: DecisionLog = field(default_factory=DecisionLog)

    def partition_counts(self) -> dict[str, int]:
        """Of the created topics: a rebalance that fails vouches for no others."""
        return {name: topic.partitions for name, topic in self.created.items()}


def assign(snapshot: RebalanceSnapshot, now_ms: int, task_assignor: TaskAssignor | None = None) -> RebalanceResult:
    """One rebalance. `task_assignor` replaces the one that the snapshot names, and is needed for a user's own class.

    What Kafka's leader would throw comes back as `error`; what it answers with an error assignment, as `error_code`.
    Raises DecodeError naming the member whose bytes cannot be read, and InputError for a snapshot without members or
    with more partitions than a group can have.
    """
    if not snapshot.members:
        raise InputError("at least one member is needed", "input.members")
    with collected_afterwards():
        return _assign(snapshot, now_ms, task_assignor)


def _assign(snapshot: RebalanceSnapshot, now_ms: int, task_assignor: TaskAssignor | None) -> RebalanceResult:
    effects = _Effects()
    try:
        group = gather_members(snapshot)
        if group.shutdown_requested:
            return _error_result(snapshot, group, AssignorErrorCode.SHUTDOWN_REQUESTED, effects)
        try:
            return _steps(snapshot, now_ms, task_assignor, group, effects)
        except MissingSourceTopicError:
            return _error_result(snapshot, group, AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA, effects)
        except TaskAssignmentError:
            return _error_result(snapshot, group, AssignorErrorCode.ASSIGNMENT_ERROR, effects)
    except KafkaError as error:
        return RebalanceResult(
            NO_ASSIGNMENTS, effects.partition_counts(), effects.created, error=error, decisions=effects.log
        )


def _steps(
    snapshot: RebalanceSnapshot,
    now_ms: int,
    task_assignor: TaskAssignor | None,
    group: GroupMetadata,
    effects: _Effects,
) -> RebalanceResult:
    # steps 1 and 2
    tasks = make_tasks(snapshot, group.versions, effects.created)
    end_offsets = sum_end_offsets(snapshot, tasks)
    states = _client_states(group, tasks, end_offsets)
    chosen = _chosen(snapshot, task_assignor, end_offsets.known)
    problem = _placement_problem(snapshot, tasks, states, chosen)
    placement = steered_assignor(chosen, snapshot.steering).assign(problem, effects.log)
    if placement.assignment_error is None:
        validate_placement(problem, placement)
    elif placement.assignment_error.is_fatal:
        _notify_assignor(chosen, {}, snapshot, placement.assignment_error)

    # step 3
    in_java_order = partitions_in_java_order(snapshot.topology, tasks.sources)
    hosts = _hosts(group, placement, in_java_order)

    # step 4
    deadlines_ms = _deadlines(snapshot, placement, now_ms)
    members = consumer_assignments(
        snapshot.members,
        group,
        states,
        placement,
        tasks.partitions,
        in_java_order,
        hosts,
        {} if snapshot.leader_process_id is None else deadlines_ms,
        effects.log,
        snapshot.steering.drained_members,
    )
    assignments = SharedAssignments(members.by_member)
    _notify_assignor(chosen, assignments, snapshot, placement.assignment_error or AssignmentError.NONE)
    return RebalanceResult(
        assignments=assignments,
        internal_topics=tasks.internal_topics,
        created_topics=effects.created,
        probing_rebalance_at_ms=_kept_deadline(snapshot, members, deadlines_ms),
        followup_rebalance=members.followup_rebalance or _keeps_one_at_once(snapshot, deadlines_ms),
        decisions=effects.log,
        placement=placement,
        problem=problem,
    )


def _error_result(
    snapshot: RebalanceSnapshot, group: GroupMetadata, code: AssignorErrorCode, effects: _Effects
) -> RebalanceResult:
    by_member = error_assignments(group.clients, code)
    return RebalanceResult(
        SharedAssignments({member_id: by_member[member_id] for member_id in snapshot.members}),
        effects.partition_counts(),
        effects.created,
        error_code=code,
        decisions=effects.log,
    )


def _client_states(group: GroupMetadata, tasks: GroupTasks, end_offsets: EndOffsetSums) -> dict[ProcessId, ClientState]:
    # a second HashMap, filled in the order of the first: with crowded buckets the two differ
    return {
        process_id: client_state(group.clients[process_id], tasks.task_by_partition, end_offsets.by_task)
        for process_id in hash_set_order(group.clients, process_hash)
    }


def _notify_assignor(
    chosen: TaskAssignor, assignments: Mapping[str, bytes], snapshot: RebalanceSnapshot, error: AssignmentError
) -> None:
    """Tells an assignor of the public interface what became of its answer. Raises StreamsError when it has an error."""
    if isinstance(chosen, PublicInterfaceAssignor):
        subscriptions = {member_id: member.subscription for member_id, member in snapshot.members.items()}
        chosen.on_assignment_computed(assignments, subscriptions, error)
    if error is not AssignmentError.NONE:
        raise refusal(error, chosen.name)


def _placement_problem(
    snapshot: RebalanceSnapshot, tasks: GroupTasks, states: Mapping[ProcessId, ClientState], chosen: TaskAssignor
) -> PlacementProblem:
    is_public = isinstance(chosen, PublicInterfaceAssignor)
    return PlacementProblem(
        configs=snapshot.configs,
        tasks=tuple(tasks.partitions),
        stateful_tasks=task_map_order(tasks.changelogs.stateful_tasks),
        clients={
            process_id: PlacementClient(
                process_id=process_id,
                capacity=len(state.metadata.consumers),
                lags=state.lags,
                consumers=state.metadata.consumers,
                previous_active=state.previous_active,
                previous_standby=state.previous_standby,
                tags=state.metadata.tags,
                rack=state.metadata.first_rack if is_public else state.metadata.rack,
                host=state.metadata.host,
                reported_tasks=state.metadata.reported_tasks,
                active_owners=state.active_owners,
            )
            for process_id, state in states.items()
        },
        racks=_rack_information(snapshot, tasks, states, is_public),
        store_names={
            subtopology.id: frozenset([store.name for store in subtopology.stores])
            for subtopology in snapshot.topology.subtopologies
        },
    )


def _rack_information(
    snapshot: RebalanceSnapshot, tasks: GroupTasks, states: Mapping[ProcessId, ClientState], is_public: bool
) -> RackInformation | None:
    """An assignor of the public interface may look at racks by itself, whatever the racks of clients are."""
    if not is_public and any(state.metadata.rack is None for state in states.values()):
        return None
    racks = RacksOnDemand(partial(_public_partition_racks if is_public else _partition_racks, snapshot, tasks))
    return RackInformation(tasks.partitions, tasks.changelogs.changelog_partitions, racks)


def _topic_racks(snapshot: RebalanceSnapshot) -> TopicRacks:
    described = {**(snapshot.created_internal_topics or {}), **snapshot.existing_internal_topics}
    return TopicRacks(snapshot.cluster, described, DESCRIBE_TOPICS_FAILURE in snapshot.failures)


def _partition_racks(snapshot: RebalanceSnapshot, tasks: GroupTasks) -> Mapping[str, tuple[Racks, ...]]:
    with_standbys = snapshot.configs.num_standby_replicas != 0
    changelogs = _changelogs(tasks) if with_standbys else set()
    return _topic_racks(snapshot).of(_topics(tasks.partitions), tasks.internal_topics, changelogs)


def _public_partition_racks(snapshot: RebalanceSnapshot, tasks: GroupTasks) -> Mapping[str, tuple[Racks, ...]]:
    racks, topics = _topic_racks(snapshot), _topics(tasks.partitions)
    return racks.for_public_interface(topics, tasks.internal_topics, _changelogs(tasks))


def _topics(partitions: Mapping[TaskId, Iterable[TopicPartition]]) -> set[str]:
    return {partition.topic for by_task in partitions.values() for partition in by_task}


def _changelogs(tasks: GroupTasks) -> set[str]:
    return {topic for topics in tasks.changelogs.topics.values() for topic in topics}


def _chosen(snapshot: RebalanceSnapshot, task_assignor: TaskAssignor | None, lags_known: bool) -> TaskAssignor:
    """Without lags every assignor gives way to FallbackPrior, except LegacySticky and that of streams groups, which do
    not need them, and those of the public interface.

    A class that a snapshot names is never loaded here: snapshots come over the network, classes run code.
    """
    if task_assignor is None and snapshot.assignor not in BUILT_IN_ASSIGNORS:
        raise InputError(
            f"{snapshot.assignor!r} is not built in; the caller must pass an instance of it", "input.assignor"
        )
    chosen = task_assignor or task_assignor_named(snapshot.assignor)
    needs_no_lags = chosen.name in (LEGACY_STICKY, STREAMS_GROUP_STICKY) or isinstance(chosen, PublicInterfaceAssignor)
    return chosen if lags_known or needs_no_lags else task_assignor_named(FALLBACK_PRIOR)


def _hosts(group: GroupMetadata, placement: Placement, in_java_order: PartitionsInJavaOrder) -> HostMaps:
    has_hosts = group.versions.min_received >= FIRST_VERSION_WITH_ENDPOINT
    return host_maps(group.clients, placement, in_java_order) if has_hosts else NO_HOSTS


def _deadlines(snapshot: RebalanceSnapshot, placement: Placement, now_ms: int) -> dict[ProcessId | None, int]:
    """By process. That of a probing rebalance is the leader's, and Java's sum, which can wrap to a time in the past.

    Differs from Kafka: a leader outside the group keeps the deadline itself, so the sum is capped and stays ahead.
    """
    deadlines_ms: dict[ProcessId | None, int] = dict(placement.followup_deadlines_ms.items())
    if placement.probing_rebalance_needed:
        deadline_ms, leader = now_ms + snapshot.configs.probing_rebalance_interval_ms, snapshot.leader_process_id
        deadlines_ms[leader] = min(deadline_ms, JAVA_LONG_MAX - 1) if leader is None else int64(deadline_ms)
    return deadlines_ms


def _kept_deadline(
    snapshot: RebalanceSnapshot, members: ConsumerAssignments, deadlines_ms: Mapping[ProcessId | None, int]
) -> int | None:
    """The first deadline that somebody will keep: the leader outside the group, or the members that were sent them."""
    kept = deadlines_ms.values() if snapshot.leader_process_id is None else members.deadlines_encoded_ms
    return min((deadline_ms for deadline_ms in kept if 0 < deadline_ms < JAVA_LONG_MAX), default=None)


def _keeps_one_at_once(snapshot: RebalanceSnapshot, deadlines_ms: Mapping[ProcessId | None, int]) -> bool:
    return snapshot.leader_process_id is None and AT_ONCE_MS in deadlines_ms.values()
