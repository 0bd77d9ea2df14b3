"""Steps 3 and 4: the partitions of each host, and the assignment that the leader sends to each member.

The host maps contain every process with an endpoint. The host maps also contain processes without tasks, because a
missing process would request another rebalance immediately. The host maps show the new placement of the tasks, even if
another process still has to revoke a task. If several processes have the same endpoint, the host maps contain only one
of them: the last process in the leader's HashMap.

If another member still owns a partition of a task, the task is held back until the member has revoked the partition.
The assignment of the task's new owner requires the new owner to rejoin immediately (next rebalance 0). If the new
owner's process had a standby of the task, the new owner gets a temporary standby. The temporary standby keeps the
task's state open.

If a process has to request the next rebalance, the assignment of its first member contains the time of the next
rebalance. If a probing rebalance is needed, the leader's process has to request it. If a task of this first member is
held back, the first member rejoins immediately. In this case, no member of the process gets the time of the next
rebalance.

The partitions of a task are written in the order of the HashSet that Kafka's partition grouper fills
(`PartitionsInJavaOrder`). The order of a task's partitions affects only the bytes, because decoders read these
partitions as a set.

Source: `StreamsPartitionAssignor.populatePartitionsByHostMaps`, `computeNewAssignment`, `addClientAssignments`,
`populateActiveTaskAndPartitionsLists`, `buildStandbyTaskMap`; `PartitionGrouper.partitionGroups`; KIP-429, KIP-441.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from assignor.clients.client_metadata import ClientMetadata, GroupMetadata
from assignor.clients.client_state import ClientState
from assignor.errors import IllegalStateError, NullPointerError
from assignor.java.hash_codes import host_hash, int64, string_hash, task_hash, topic_partition_hash
from assignor.java.order import hash_set_order
from assignor.pipeline.tasks_to_threads import TasksOfThreads, tasks_of_threads
from assignor.protocol.assignment_info import AssignmentInfoEncoder
from assignor.protocol.consumer_protocol import assignment_parts
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.protocol.versions import FIRST_VERSION_WITH_NEXT_REBALANCE, LATEST_SUPPORTED_VERSION
from assignor.task_assignors.base import ClientPlacement, Placement
from assignor.task_assignors.decisions import Decision, DecisionKind, DecisionLog
from assignor.topology.group_topology import GroupTopology
from assignor.topology.partition_grouper import Sources, source_partitions
from assignor.types import JAVA_LONG_MAX, AssignorErrorCode, HostInfo, ProcessId, Role, TaskId, TopicPartition

_KEPT = 16

SourceTopics = tuple[tuple[int, tuple[str, ...]], ...]
"""The id of each subtopology, with its source topics in the order of `Subtopology.source_topics`. If a user wrote the
topology, the source topics can have any order.
"""


def partitions_in_java_order(topology: GroupTopology, sources: Sources) -> PartitionsInJavaOrder:
    """Returns the partitions of each task in Java's order. `sources`: the source topics from which the tasks are made.
    The result is cached, so all rebalances of a group share one object.
    """
    return _remembered(tuple([(each.id, tuple(each.source_topics)) for each in topology.subtopologies]), sources)


@lru_cache(maxsize=_KEPT)
def _remembered(source_topics: SourceTopics, sources: Sources) -> PartitionsInJavaOrder:
    return PartitionsInJavaOrder(source_topics, source_partitions(sources))


class PartitionsInJavaOrder:
    """The partitions of each task in Java's order. The first call of `of(task)` computes this order."""

    def __init__(
        self, source_topics: SourceTopics, partitions_for_task: Mapping[TaskId, tuple[TopicPartition, ...]]
    ) -> None:
        # Kafka adds a task's partitions in the order of a HashSet of topics. Partitions of one bucket keep this order.
        self._source_topics = {id_: hash_set_order(topics, string_hash) for id_, topics in source_topics}
        self._partitions_for_task = partitions_for_task
        self._ordered: dict[TaskId, tuple[TopicPartition, ...]] = {}

    def of(self, task: TaskId) -> tuple[TopicPartition, ...]:
        partitions = self._partitions_for_task[task]
        if len(partitions) < 2:
            return partitions
        ordered = self._ordered.get(task)
        if ordered is None:
            ordered = self._ordered[task] = self._in_java_order(task, frozenset(partitions))
        return ordered

    def _in_java_order(self, task: TaskId, partitions: frozenset[TopicPartition]) -> tuple[TopicPartition, ...]:
        topics = self._source_topics[task.subtopology]
        as_added = (TopicPartition(topic, task.partition) for topic in topics)
        return tuple(
            hash_set_order(
                [partition for partition in as_added if partition in partitions],
                topic_partition_hash,
                initial_capacity=len(topics),
            )
        )


class HostMaps(NamedTuple):
    """The partitions of each host's active tasks, and the partitions of each host's standby tasks, in Kafka's order."""

    active: Mapping[HostInfo, tuple[TopicPartition, ...]]
    standby: Mapping[HostInfo, tuple[TopicPartition, ...]]


NO_HOSTS = HostMaps({}, {})


def host_maps(
    clients: Mapping[ProcessId, ClientMetadata], placement: Placement, partitions: PartitionsInJavaOrder
) -> HostMaps:
    process_of_host = {client.host: process_id for process_id, client in clients.items() if client.host is not None}
    if not process_of_host:
        return NO_HOSTS
    active: dict[HostInfo, tuple[TopicPartition, ...]] = {}
    standby: dict[HostInfo, tuple[TopicPartition, ...]] = {}
    for host in hash_set_order(process_of_host, host_hash):
        placed = placement.clients[process_of_host[host]]
        active[host] = _partitions(placed.active_in_order(), partitions)
        standby[host] = _partitions(placed.standby_in_order(), partitions)
    return HostMaps(active, standby)


def _partitions(tasks: Iterable[TaskId], partitions: PartitionsInJavaOrder) -> tuple[TopicPartition, ...]:
    """Returns the partitions of the tasks. Raises NullPointerError for a task that the group does not have. Only an
    assignor of the public interface can return an unknown task. Validation does not report the unknown task if
    validation stops at an earlier error.
    """
    try:
        as_added = [partition for task in tasks for partition in partitions.of(task)]
    except KeyError as unknown:
        reason = 'Cannot invoke "java.util.Collection.iterator()" because "c" is null'
        raise NullPointerError(reason, f"{unknown.args[0]} is no task of this group") from None
    return tuple(hash_set_order(as_added, topic_partition_hash))


AT_ONCE_MS = 0
_BY_PARTITION = itemgetter(0)
_TASK = itemgetter(1)


def rebalance_deadlines(
    placement: Placement, leader: ProcessId | None, probing_rebalance_at_ms: int
) -> dict[ProcessId | None, int]:
    """Returns each process that has to request the next rebalance, with the time of the request. If a probing rebalance
    is needed, the leader's process has to request it. The time of the probing rebalance is a sum of two Java longs.
    This sum can wrap to a time in the past.

    Differs from Kafka: if the leader is outside the group (`leader` is None), the leader stores the deadline itself.
    For a leader outside the group, the time of the probing rebalance is capped and does not wrap.
    """
    deadlines_ms: dict[ProcessId | None, int] = dict(placement.followup_deadlines_ms.items())
    if placement.probing_rebalance_needed:
        capped_ms = min(probing_rebalance_at_ms, JAVA_LONG_MAX - 1)
        deadlines_ms[leader] = capped_ms if leader is None else int64(probing_rebalance_at_ms)
    return deadlines_ms


def error_assignments(
    clients: Mapping[ProcessId, ClientMetadata], code: AssignorErrorCode
) -> dict[str, AssignmentParts]:
    """Returns one assignment for all members, which has an error code and no partitions.

    Source: `StreamsPartitionAssignor.errorAssignment`.
    """
    encoder = AssignmentInfoEncoder(LATEST_SUPPORTED_VERSION, LATEST_SUPPORTED_VERSION, {}, {}, code)
    refused = assignment_parts((), encoder.parts((), {}))
    return {consumer: refused for client in clients.values() for consumer in client.consumers}


@dataclass(slots=True)
class ConsumerAssignments:
    """Assigns the tasks to members, and encodes and stores the assignments of all members.

    `partitions_for_task`: the sorted partitions of each task. `drained_members`: members that get no tasks as long as
    their process has other members. `by_member`: the ConsumerProtocolAssignment of each member in parts, by member id.
    `deadlines_encoded_ms`: the encoded times at which members have to request the next rebalance.
    `followup_rebalance`: True if a member has to rejoin immediately.
    """

    group: GroupMetadata
    states: Mapping[ProcessId, ClientState]
    placement: Placement
    partitions_for_task: Mapping[TaskId, tuple[TopicPartition, ...]]
    in_java_order: PartitionsInJavaOrder
    hosts: HostMaps
    log: DecisionLog
    drained_members: frozenset[str]
    by_member: dict[str, AssignmentParts] = field(default_factory=dict, init=False)
    deadlines_encoded_ms: list[int] = field(default_factory=list, init=False)
    followup_rebalance: bool = field(default=False, init=False)
    _encoder: AssignmentInfoEncoder = field(init=False)
    _sends_next_rebalance: bool = field(init=False)

    def add_all(self, members: Iterable[str], deadlines_ms: Mapping[ProcessId | None, int]) -> None:
        """Adds the assignments of all members. `members`: all members of the group, in the order of the result.
        `deadlines_ms`: the deadlines that members store (see `rebalance_deadlines`); empty if the leader is outside the
        group. Raises IllegalStateError if a member would get a partition that another member still owns.
        """
        versions, hosts = self.group.versions, self.hosts
        self._encoder = AssignmentInfoEncoder(
            versions.min_received, versions.min_supported, hosts.active, hosts.standby
        )
        self._sends_next_rebalance = versions.min_received >= FIRST_VERSION_WITH_NEXT_REBALANCE
        # most threads of a large group have no task, so all members start with one common empty assignment
        self.by_member = dict.fromkeys(members, assignment_parts((), self._encoder.parts((), {})))
        for process_id, state in self.states.items():
            self._add_client(state, self.placement.clients[process_id], deadlines_ms.get(process_id))

    def _add_client(self, state: ClientState, placed: ClientPlacement, deadline_ms: int | None) -> None:
        tasks = tasks_of_threads(state, placed, self.log, self.drained_members)
        consumers = state.metadata.consumers
        first = None if deadline_ms is None else consumers[0]
        for consumer in consumers:
            if consumer in tasks.active or consumer in tasks.standby or consumer == first:
                own_deadline_ms = deadline_ms if consumer == first else None
                self.by_member[consumer] = self._of_consumer(state, consumer, tasks, own_deadline_ms)

    def _of_consumer(
        self, state: ClientState, consumer: str, tasks: TasksOfThreads, deadline_ms: int | None
    ) -> AssignmentParts:
        assigned, held_back = self._hand_out(state, consumer, tasks.active.get(consumer, ()))
        temporary = self._temporary_standbys(state, consumer, held_back)
        standby = self._partitions_of_standbys(_standby_order(tasks.standby.get(consumer, ()), temporary))
        next_rebalance_ms = JAVA_LONG_MAX
        if held_back:
            next_rebalance_ms = AT_ONCE_MS
            self.followup_rebalance |= self._sends_next_rebalance
        elif deadline_ms is not None:
            next_rebalance_ms = deadline_ms
            if self._sends_next_rebalance:
                self.deadlines_encoded_ms.append(next_rebalance_ms)
                self.followup_rebalance |= next_rebalance_ms == AT_ONCE_MS
        user_data = self._encoder.parts(list(map(_TASK, assigned)), standby, next_rebalance_ms)
        partitions = list(map(_BY_PARTITION, assigned))
        _check_cooperative(self.group, consumer, partitions)
        return assignment_parts(partitions, user_data)

    def _hand_out(
        self, state: ClientState, consumer: str, tasks: Sequence[TaskId]
    ) -> tuple[list[tuple[TopicPartition, TaskId]], list[TaskId]]:
        """Returns the sorted partitions that the consumer gets, each with its task. Also returns the tasks that are
        held back. The consumer gets no partition of a task that is held back. Raises NullPointerError as
        `_partitions_of_standbys` does.
        """
        assigned: list[tuple[TopicPartition, TaskId]] = []
        held_back: list[TaskId] = []
        owners, metadata = self.group.owners, state.metadata
        owned = metadata.owned_partitions
        partitions_of = self.partitions_for_task.get
        for task in tasks:
            partitions = partitions_of(task)
            if partitions is None:
                nothing = 'the return value of "java.util.Map.get(Object)" is null'
                raise _unknown(f'Cannot invoke "java.util.Set.iterator()" because {nothing}', task)
            for partition in partitions:
                if owned.get(partition) != consumer and partition in owners:
                    break  # another member still owns the partition
            else:
                for partition in partitions:
                    assigned.append((partition, task))
                continue
            held_back.append(task)
            kind, owner = DecisionKind.WAITING_FOR_REVOCATION, owners[partition][-1]
            self.log.append(Decision(kind, task, Role.ACTIVE, metadata.process_id, None, consumer, owner))
        assigned.sort(key=_BY_PARTITION)
        return assigned, sorted(held_back)

    def _temporary_standbys(self, state: ClientState, consumer: str, held_back: Sequence[TaskId]) -> list[TaskId]:
        """Returns the stateful tasks that are held back and that were standbys on this process. A temporary standby
        keeps the state of the task open until the owner has revoked the active task.
        """
        if not held_back:
            return []
        kept = [task for task in held_back if task in state.previous_standby and task in state.lags]
        self.log.extend(
            Decision(DecisionKind.TEMPORARY_STANDBY, task, Role.STANDBY, state.metadata.process_id, None, consumer)
            for task in kept
        )
        return kept

    def _partitions_of_standbys(self, standby: Iterable[TaskId]) -> dict[TaskId, tuple[TopicPartition, ...]]:
        """Returns the partitions of each standby task. Raises NullPointerError for a task that the group does not have
        (see `_partitions`).
        """
        partitions_of = self.in_java_order.of
        try:
            return {task: partitions_of(task) for task in standby}
        except KeyError as unknown:
            reason = 'Cannot invoke "java.util.Set.size()" because "partitions" is null'
            raise _unknown(reason, unknown.args[0]) from None


def _unknown(reason: str, task: TaskId) -> NullPointerError:
    return NullPointerError(reason, f"{task} is no task of this group")


def _standby_order(standby: Sequence[TaskId], temporary: Sequence[TaskId]) -> list[TaskId]:
    if len(standby) < 2 and not temporary:
        return list(standby)
    return hash_set_order([*standby, *temporary], task_hash)


def _check_cooperative(group: GroupMetadata, consumer: str, partitions: Sequence[TopicPartition]) -> None:
    """Raises IllegalStateError if the consumer gets a partition that another member still owns.
    Source: `ConsumerCoordinator.validateCooperativeAssignment`.
    """
    for partition in partitions:
        owners = group.owners.get(partition)
        if owners is not None and consumer not in owners:
            raise IllegalStateError(
                f"With the COOPERATIVE protocol, owned partitions cannot be reassigned to other members; however "
                f"{partition} was given to {consumer} while {', '.join(owners)} still owns it"
            )
