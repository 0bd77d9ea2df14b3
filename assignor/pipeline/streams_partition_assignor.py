"""Computes a whole rebalance, from subscription bytes to assignment bytes. The function `_steps` carries out the steps
of a rebalance:

- Step 0 groups the members' subscriptions by process.
- Step 1 counts and checks the repartition topics, and lists the repartition topics to create.
- Step 2 makes tasks from partitions, finds each client's previous tasks and lags, and calls the task assignor.
- Step 3 lists the partitions of every host.
- Step 4 assigns each client's tasks to its threads, holds back tasks that another member still owns, and encodes the
  assignments.

A what-if analysis calls `gather_members`, `make_tasks` and `sum_end_offsets` before it changes a group. So the analysis
has the same tasks and changelogs as the leader. Source: `StreamsPartitionAssignor.assign`.
"""

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from assignor.clients.client_metadata import GroupMetadata, ReceivedVersions, group_metadata
from assignor.clients.client_state import ClientState, EndOffsets, EndOffsetSums, client_states, end_offset_sums
from assignor.errors import InputError, KafkaError, MissingSourceTopicError, TaskAssignmentError
from assignor.pipeline.consumer_assignments import (
    AT_ONCE_MS,
    NO_HOSTS,
    ConsumerAssignments,
    error_assignments,
    host_maps,
    partitions_in_java_order,
    rebalance_deadlines,
)
from assignor.pipeline.snapshot import CreatedTopic, RebalanceResult, RebalanceSnapshot
from assignor.protocol.shared_assignments import NO_ASSIGNMENTS, SharedAssignments
from assignor.protocol.versions import FIRST_VERSION_WITH_ENDPOINT
from assignor.task_assignors.base import (
    AssignmentError,
    PartitionRacks,
    PlacementClient,
    PlacementProblem,
    PublicInterfaceAssignor,
    RackInformation,
    RacksOnDemand,
    TaskAssignor,
    refusal,
    validate_placement,
)
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.registry import BUILT_IN_ASSIGNORS, task_assignor_named
from assignor.task_assignors.steering import steered_assignor
from assignor.topology.internal_topics import (
    DESCRIBE_TOPICS_FAILURE,
    ChangelogTopics,
    InternalTopicCatalog,
    prepare_changelog_topics,
    prepare_repartition_topics,
)
from assignor.topology.partition_grouper import (
    Sources,
    counted_sources,
    source_partitions,
    task_by_partition,
    task_map_order,
    tasks_by_subtopology,
)
from assignor.topology.topic_racks import TopicRacks
from assignor.types import JAVA_LONG_MAX, AssignorErrorCode, ProcessId, TaskId, TopicPartition

CreatedTopics = dict[str, CreatedTopic]
"""The created topics by name. No topic is ever removed from CreatedTopics, because a failed rebalance also reports the
topics that it created.
"""


@dataclass(frozen=True, slots=True)
class GroupTasks:
    """The tasks of a group. `partitions`: every task with its source partitions. `task_by_partition`: each source
    partition, with the task that reads it. `internal_topics`: every internal topic that the tasks of the group need,
    with its partition count. `sources`: the source topics with their partition counts. The tasks are made from these
    topics.
    """

    partitions: Mapping[TaskId, tuple[TopicPartition, ...]]
    task_by_partition: Mapping[TopicPartition, TaskId]
    internal_topics: Mapping[str, int]
    changelogs: ChangelogTopics
    sources: Sources


def gather_members(snapshot: RebalanceSnapshot) -> GroupMetadata:
    """Carries out step 0, which groups the members by process. Raises DecodeError with the member's id, or KafkaError,
    as `group_metadata` does.
    """
    subscriptions = {member_id: member.subscription for member_id, member in snapshot.members.items()}
    return group_metadata(subscriptions, snapshot.future_process_id, snapshot.configs.kafka_version)


def make_tasks(snapshot: RebalanceSnapshot, versions: ReceivedVersions, created: CreatedTopics) -> GroupTasks:
    """Carries out step 1 (repartition topics), and step 2 up to the changelogs. `created`: the object to which this
    function adds the topics that have to be created.

    Raises KafkaError if Kafka's leader would throw, and InputError for more partitions than a group can have.
    """
    topology, configs = snapshot.topology, snapshot.configs
    catalog = InternalTopicCatalog(snapshot.existing_internal_topics, snapshot.failures, snapshot.topics_refusal)
    repartition = prepare_repartition_topics(topology, snapshot.cluster, catalog, configs)
    created.update(repartition.created)

    sources = counted_sources(topology, repartition.cluster)
    partitions = source_partitions(sources)
    if versions.future is not None:
        # this call only checks: it raises an error if a member's version is too old for version probing
        versions.is_version_probing()
    if repartition.created:
        catalog = catalog.with_created(repartition.created)
    changelogs = prepare_changelog_topics(topology, tasks_by_subtopology(partitions), catalog, configs)
    created.update(changelogs.created)
    internal_topics = {**repartition.ready, **changelogs.ready}
    return GroupTasks(partitions, task_by_partition(sources), internal_topics, changelogs, sources)


def sum_end_offsets(snapshot: RebalanceSnapshot, tasks: GroupTasks) -> EndOffsetSums:
    """Adds up the end offsets of each stateful task's changelogs, in step 2."""
    return end_offset_sums(
        tasks.changelogs.stateful_tasks,
        tasks.changelogs.pre_existing_topics(),
        tasks.changelogs.source_topics,
        EndOffsets(snapshot.changelog_end_offsets, snapshot.committed_offsets, snapshot.failures),
    )


LEGACY_STICKY = "LegacyStickyTaskAssignor"
FALLBACK_PRIOR = "FallbackPriorTaskAssignor"
STREAMS_GROUP_STICKY = "StreamsGroupStickyTaskAssignor"


@dataclass(frozen=True, slots=True)
class _Effects:
    """The topics that a rebalance has created and the decisions that the rebalance has made so far. A failed rebalance
    also reports its created topics and its decisions.
    """

    created: CreatedTopics = field(default_factory=dict)
    log: DecisionLog = field(default_factory=DecisionLog)

    def partition_counts(self) -> dict[str, int]:
        """Returns the partition counts of the created topics. For a failed rebalance, only the partition counts of
        created topics are certain.
        """
        return {name: topic.partitions for name, topic in self.created.items()}


def assign(snapshot: RebalanceSnapshot, now_ms: int, task_assignor: TaskAssignor | None = None) -> RebalanceResult:
    """Computes one rebalance. `task_assignor`: the assignor to use in place of the assignor that the snapshot names;
    required if the snapshot names a user's own class.

    If Kafka's leader would throw, the field `error` of the result is set. If Kafka's leader would send an error code to
    the members, the field `error_code` is set. Raises DecodeError with the id of the member whose bytes cannot be
    decoded. Raises InputError if the snapshot has no members, or more partitions than a group can have.
    """
    if not snapshot.members:
        raise InputError("at least one member is needed", "input.members")
    with _collected_afterwards():
        return _assign(snapshot, now_ms, task_assignor)


@contextmanager
def _collected_afterwards() -> Iterator[None]:
    """Disables Python's garbage collector in the `with` block, and enables it afterwards. If several threads use this
    context manager at the same time, only the first thread disables and enables the collector. If the collector was
    disabled before the block, it stays disabled after the block.

    A rebalance creates hundreds of thousands of small objects and no reference cycles. Without this context manager,
    the collector would traverse all existing objects after every few hundred new objects. The traversals would take up
    to a third of the time of a large rebalance.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _assign(snapshot: RebalanceSnapshot, now_ms: int, task_assignor: TaskAssignor | None) -> RebalanceResult:
    effects = _Effects()
    try:
        snapshot.configs.check()
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
    snapshot: RebalanceSnapshot, now_ms: int, own_assignor: TaskAssignor | None, group: GroupMetadata, effects: _Effects
) -> RebalanceResult:
    # steps 1 and 2
    tasks = make_tasks(snapshot, group.versions, effects.created)
    end_offsets = sum_end_offsets(snapshot, tasks)
    states = client_states(group.clients, tasks.task_by_partition, end_offsets.by_task)
    chosen = _chosen(snapshot, own_assignor, end_offsets.known)
    problem = _placement_problem(snapshot, tasks, states, chosen)
    placement = steered_assignor(chosen, snapshot.steering).assign(problem, effects.log)
    if placement.assignment_error is None:
        validate_placement(problem, placement)
    elif placement.assignment_error.is_fatal:
        _notify_assignor(chosen, {}, snapshot, placement.assignment_error)

    probing_rebalance_at_ms = now_ms + snapshot.configs.probing_rebalance_interval_ms
    deadlines_ms = rebalance_deadlines(placement, snapshot.leader_process_id, probing_rebalance_at_ms)

    # step 3
    in_java_order = partitions_in_java_order(snapshot.topology, tasks.sources)
    has_hosts = group.versions.min_received >= FIRST_VERSION_WITH_ENDPOINT
    hosts = host_maps(group.clients, placement, in_java_order) if has_hosts else NO_HOSTS

    # step 4
    drained = snapshot.steering.drained_members
    members = ConsumerAssignments(
        group, states, placement, tasks.partitions, in_java_order, hosts, effects.log, drained
    )
    members.add_all(snapshot.members, {} if snapshot.leader_process_id is None else deadlines_ms)
    assignments = SharedAssignments(members.by_member)
    _notify_assignor(chosen, assignments, snapshot, placement.assignment_error or AssignmentError.NONE)
    return RebalanceResult(
        assignments=assignments,
        internal_topics=tasks.internal_topics,
        created_topics=effects.created,
        probing_rebalance_at_ms=_kept_deadline(snapshot, members, deadlines_ms),
        followup_rebalance=members.followup_rebalance
        or (snapshot.leader_process_id is None and AT_ONCE_MS in deadlines_ms.values()),
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


def _notify_assignor(
    chosen: TaskAssignor, assignments: Mapping[str, bytes], snapshot: RebalanceSnapshot, error: AssignmentError
) -> None:
    """Calls `on_assignment_computed` of an assignor of the public interface. Raises StreamsError if validation found an
    error in the assignor's result.
    """
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
    """Returns the racks of partitions for the task assignor. Returns None if a client has no rack. An assignor of the
    public interface always gets the racks of partitions, because the assignor itself may use the racks.
    """
    if not is_public and any(state.metadata.rack is None for state in states.values()):
        return None
    racks = RacksOnDemand(partial(_public_partition_racks if is_public else _partition_racks, snapshot, tasks))
    return RackInformation(tasks.partitions, tasks.changelogs.changelog_partitions, racks)


def _topic_racks(snapshot: RebalanceSnapshot) -> TopicRacks:
    described = {**(snapshot.created_internal_topics or {}), **snapshot.existing_internal_topics}
    return TopicRacks(snapshot.cluster, described, DESCRIBE_TOPICS_FAILURE in snapshot.failures)


def _partition_racks(snapshot: RebalanceSnapshot, tasks: GroupTasks) -> PartitionRacks:
    with_standbys = snapshot.configs.num_standby_replicas != 0
    changelogs = _changelogs(tasks) if with_standbys else set()
    return _topic_racks(snapshot).of(_topics(tasks.partitions), tasks.internal_topics, changelogs)


def _public_partition_racks(snapshot: RebalanceSnapshot, tasks: GroupTasks) -> PartitionRacks:
    racks, topics = _topic_racks(snapshot), _topics(tasks.partitions)
    return racks.for_public_interface(topics, tasks.internal_topics, _changelogs(tasks))


def _topics(partitions: Mapping[TaskId, Iterable[TopicPartition]]) -> set[str]:
    return {partition.topic for by_task in partitions.values() for partition in by_task}


def _changelogs(tasks: GroupTasks) -> set[str]:
    return {topic for topics in tasks.changelogs.topics.values() for topic in topics}


def _chosen(snapshot: RebalanceSnapshot, task_assignor: TaskAssignor | None, lags_known: bool) -> TaskAssignor:
    """Returns the task assignor. If lags are unknown, FallbackPrior replaces the assignor, with three exceptions.
    LegacySticky and the assignor of streams groups are not replaced, because they do not use lags. Assignors of the
    public interface are not replaced, because they have to handle unknown lags themselves.

    This function never imports a class that a snapshot names. Snapshots come over the network, and loading a class runs
    code.
    """
    if task_assignor is None and snapshot.assignor not in BUILT_IN_ASSIGNORS:
        raise InputError(
            f"{snapshot.assignor!r} is not built in; the caller must pass an instance of it", "input.assignor"
        )
    chosen = task_assignor or task_assignor_named(snapshot.assignor)
    needs_no_lags = chosen.name in (LEGACY_STICKY, STREAMS_GROUP_STICKY) or isinstance(chosen, PublicInterfaceAssignor)
    return chosen if lags_known or needs_no_lags else task_assignor_named(FALLBACK_PRIOR)


def _kept_deadline(
    snapshot: RebalanceSnapshot, members: ConsumerAssignments, deadlines_ms: Mapping[ProcessId | None, int]
) -> int | None:
    """Returns the earliest stored deadline for the next rebalance. A leader outside the group stores all deadlines
    itself. If the leader is a member, each member stores the deadline of its own assignment.
    """
    kept = deadlines_ms.values() if snapshot.leader_process_id is None else members.deadlines_encoded_ms
    return min((deadline_ms for deadline_ms in kept if 0 < deadline_ms < JAVA_LONG_MAX), default=None)
