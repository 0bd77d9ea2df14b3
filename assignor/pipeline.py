"""The whole rebalance as one function: subscription bytes in, assignment bytes out. Control flow only.

0. decode the subscriptions into clients by process
1. count, check and create the repartition topics
2. make tasks of partitions, find out what every client had and how far it is behind, ask the task assignor
3. say which host has which partitions
4. spread each client's tasks over its threads, hold back what another still owns, encode

Source: `StreamsPartitionAssignor.assign`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.clients.client_metadata import GroupMetadata, group_metadata
from assignor.clients.client_state import ClientState, client_state
from assignor.clients.end_offsets import EndOffsets, EndOffsetSums, end_offset_sums
from assignor.decisions import DecisionLog
from assignor.errors import InputError, KafkaError, MissingSourceTopicError, TaskAssignmentError
from assignor.java.order import hash_set_order, int64, process_hash, task_hash
from assignor.protocol.versions import FIRST_VERSION_WITH_ENDPOINT
from assignor.snapshot import CreatedTopic, RebalanceResult, RebalanceSnapshot
from assignor.task_assignors.base import Placement, PlacementClient, PlacementProblem, TaskAssignor
from assignor.task_assignors.registry import BUILT_IN_ASSIGNORS, task_assignor_named, validate_placement
from assignor.threads.consumer_assignments import consumer_assignments, error_assignments
from assignor.threads.hosts import NO_HOSTS, host_maps
from assignor.threads.partition_order import PartitionsInJavaOrder
from assignor.topology.changelog_topics import ChangelogTopics, prepare_changelog_topics
from assignor.topology.internal_topics import InternalTopicCatalog
from assignor.topology.partition_grouper import partition_groups
from assignor.topology.repartition_topics import RepartitionTopics, prepare_repartition_topics
from assignor.types import JAVA_LONG_MAX, AssignorErrorCode, ProcessId, TaskId, TopicPartition

LEGACY_STICKY = "LegacyStickyTaskAssignor"
FALLBACK_PRIOR = "FallbackPriorTaskAssignor"


@dataclass(slots=True)
class _Done:
    """What the round has done and decided so far; one that fails half-way has created its first topics all the same."""

    created: dict[str, CreatedTopic] = field(default_factory=dict)
    log: DecisionLog = field(default_factory=list)

    def create(self, topics: RepartitionTopics | ChangelogTopics) -> None:
        for name, topic in topics.created.items():
            self.created[name] = CreatedTopic(topic.partitions, topic.replication_factor, topic.configs)


def assign(snapshot: RebalanceSnapshot, now_ms: int, task_assignor: TaskAssignor | None = None) -> RebalanceResult:
    """One round. `task_assignor`: instead of the one that the snapshot names, needed when it names a user's own class.

    What Kafka's leader would throw comes back as `error`; what it answers with an error assignment, as `error_code`.
    Raises DecodeError naming the member whose bytes cannot be read, and InputError for a snapshot without members or
    with more partitions than a group can have.
    """
    if not snapshot.members:
        raise InputError("at least one member is needed", "input.members")
    done = _Done()
    try:
        subscriptions = {member_id: member.subscription for member_id, member in snapshot.members.items()}
        group = group_metadata(subscriptions, snapshot.future_process_id)
        if group.shutdown_requested:
            return _error_result(snapshot, group, AssignorErrorCode.SHUTDOWN_REQUESTED, done)
        try:
            return _steps_one_to_four(snapshot, now_ms, task_assignor, group, done)
        except MissingSourceTopicError:
            return _error_result(snapshot, group, AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA, done)
        except TaskAssignmentError:
            return _error_result(snapshot, group, AssignorErrorCode.ASSIGNMENT_ERROR, done)
    except KafkaError as error:
        return RebalanceResult({}, _partition_counts(done), done.created, error=error, decisions=tuple(done.log))


def _steps_one_to_four(
    snapshot: RebalanceSnapshot, now_ms: int, task_assignor: TaskAssignor | None, group: GroupMetadata, done: _Done
) -> RebalanceResult:
    topology, configs = snapshot.topology, snapshot.configs
    catalog = InternalTopicCatalog(snapshot.existing_internal_topics, snapshot.failures)
    repartition = prepare_repartition_topics(topology, snapshot.cluster, catalog, configs)
    done.create(repartition)

    partitions_for_task = partition_groups(topology, repartition.cluster)
    group.versions.is_version_probing()  # raises when a future member meets one that cannot probe
    catalog = catalog.with_created(repartition.created)
    changelogs = prepare_changelog_topics(topology, _tasks_by_subtopology(partitions_for_task), catalog, configs)
    done.create(changelogs)
    end_offsets = _end_offset_sums(snapshot, changelogs)
    tasks = {partition: task for task, partitions in partitions_for_task.items() for partition in partitions}
    # a second HashMap, filled in the order of the first: with crowded buckets the two differ
    states = {
        process_id: client_state(group.clients[process_id], tasks, end_offsets.by_task)
        for process_id in hash_set_order(group.clients, process_hash)
    }
    problem = _placement_problem(snapshot, partitions_for_task, changelogs, states)
    placement = _chosen(snapshot, task_assignor, end_offsets.known).assign(problem, done.log)
    validate_placement(problem, placement)

    in_java_order = PartitionsInJavaOrder(topology, partitions_for_task)
    has_hosts = group.versions.min_received >= FIRST_VERSION_WITH_ENDPOINT
    hosts = host_maps(group.clients, placement, in_java_order) if has_hosts else NO_HOSTS

    leader = snapshot.leader_process_id
    deadline_ms = _probing_deadline(snapshot, placement, now_ms)
    told = None if leader is None or deadline_ms is None else (leader, deadline_ms)
    members = consumer_assignments(group, states, placement, partitions_for_task, in_java_order, hosts, told, done.log)
    lies_ahead = deadline_ms is not None and 0 < deadline_ms < JAVA_LONG_MAX
    is_kept = lies_ahead and (leader is None or members.probing_rebalance_encoded)
    return RebalanceResult(
        assignments={member_id: members.by_member[member_id] for member_id in snapshot.members},
        internal_topics={**repartition.ready, **changelogs.ready},
        created_topics=done.created,
        probing_rebalance_at_ms=deadline_ms if is_kept else None,
        followup_rebalance=members.followup_rebalance,
        decisions=tuple(done.log),
        placement=placement,
        problem=problem,
    )


def _error_result(
    snapshot: RebalanceSnapshot, group: GroupMetadata, code: AssignorErrorCode, done: _Done
) -> RebalanceResult:
    by_member = error_assignments(group.clients, code)
    in_order_received = {member_id: by_member[member_id] for member_id in snapshot.members}
    return RebalanceResult(
        in_order_received, _partition_counts(done), done.created, error_code=code, decisions=tuple(done.log)
    )


def _partition_counts(done: _Done) -> dict[str, int]:
    """A round that fails vouches only for the topics that it created itself."""
    return {name: topic.partitions for name, topic in done.created.items()}


def _tasks_by_subtopology(tasks: Mapping[TaskId, object]) -> dict[int, list[TaskId]]:
    by_subtopology: dict[int, list[TaskId]] = {}
    for task in tasks:
        by_subtopology.setdefault(task.subtopology, []).append(task)
    return by_subtopology


def _end_offset_sums(snapshot: RebalanceSnapshot, changelogs: ChangelogTopics) -> EndOffsetSums:
    return end_offset_sums(
        changelogs.stateful_tasks,
        changelogs.pre_existing_partitions_for,
        changelogs.pre_existing_source_based,
        EndOffsets(snapshot.changelog_end_offsets, snapshot.committed_offsets, snapshot.failures),
    )


def _placement_problem(
    snapshot: RebalanceSnapshot,
    partitions_for_task: Mapping[TaskId, tuple[TopicPartition, ...]],
    changelogs: ChangelogTopics,
    states: Mapping[ProcessId, ClientState],
) -> PlacementProblem:
    return PlacementProblem(
        configs=snapshot.configs,
        tasks=tuple(partitions_for_task),
        stateful_tasks=tuple(hash_set_order(changelogs.stateful_tasks, task_hash)),
        clients={
            process_id: PlacementClient(
                process_id=process_id,
                capacity=len(state.metadata.consumers),
                lags=state.lags,
                consumers=state.metadata.consumers,
                previous_active=state.previous_active,
                previous_standby=state.previous_standby,
                tags=state.metadata.tags,
                rack=state.metadata.rack,
            )
            for process_id, state in states.items()
        },
    )


def _chosen(snapshot: RebalanceSnapshot, task_assignor: TaskAssignor | None, lags_known: bool) -> TaskAssignor:
    """Without lags every assignor but LegacySticky, which does not need them, gives way to FallbackPrior.

    A class that a snapshot names is never loaded here: snapshots come over the network, classes run code.
    """
    if task_assignor is None and snapshot.assignor not in BUILT_IN_ASSIGNORS:
        raise InputError(
            f"{snapshot.assignor!r} is not built in; the caller has to hand in an instance of it", "input.assignor"
        )
    chosen = task_assignor or task_assignor_named(snapshot.assignor)
    return chosen if lags_known or chosen.name == LEGACY_STICKY else task_assignor_named(FALLBACK_PRIOR)


def _probing_deadline(snapshot: RebalanceSnapshot, placement: Placement, now_ms: int) -> int | None:
    """A member in the group is told Java's sum, which can wrap to a time in the past.

    Differs from Kafka: a leader that keeps the deadline itself keeps one that lies in the future.
    """
    if not placement.probing_rebalance_needed:
        return None
    deadline_ms = now_ms + snapshot.configs.probing_rebalance_interval_ms
    return min(deadline_ms, JAVA_LONG_MAX - 1) if snapshot.leader_process_id is None else int64(deadline_ms)
