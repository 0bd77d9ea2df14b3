"""Writes a member's subscriptions and reads its assignments. Subscriptions and assignments have the format
ConsumerProtocol v3, which contains SubscriptionInfo or AssignmentInfo.

Rules: the unique field changes with each subscription, so that each rejoin has new metadata. The partitions in an
assignment are in Kafka's order: the n-th partition belongs to the n-th active task in the list.
Source: `StreamsPartitionAssignor.subscriptionUserData`, `onAssignment`; KIP-429 (owned partitions), KIP-792
(generation), KIP-708 (client tags).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.errors import TaskAssignmentError
from assignor.protocol.assignment_info import AssignmentInfo, HostPartitions, decode_assignment_info
from assignor.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION, next_subscription_version
from assignor.topology.group_topology import Subtopology
from assignor.topology.source_patterns import reads_topic
from assignor.types import AssignorErrorCode, HostInfo, ProcessId, TaskId, TopicPartition
from streams_runtime.membership.member_events import (
    AssignTasks,
    HeldTasks,
    Order,
    PartitionHosts,
    Partitions,
    RevokeTasks,
)


@dataclass(frozen=True, slots=True)
class ReceivedAssignment:
    """A decoded assignment. `rejoin_now`: True if this member has to start the next rebalance at once."""

    held: HeldTasks
    partitions: Partitions
    error_code: AssignorErrorCode
    rejoin_now: bool


@dataclass(slots=True)
class SubscriptionWriter:
    """Writes the subscriptions and reads the assignments of one member.

    `topics`: all source topics of the topology that have names. `sources`: the subtopologies, by id. Assignments with
    topics that a subtopology does not read are rejected. If `sources` is None, every assignment is accepted.
    """

    process_id: ProcessId
    topics: tuple[str, ...]
    client_tags: Mapping[str, str] = field(default_factory=dict)
    user_endpoint: HostInfo | None = None
    rack: str | None = None
    sources: Mapping[int, Subtopology] | None = None
    _used_version: int = LATEST_SUPPORTED_VERSION
    _unique_field: int = 0

    def next_subscription(
        self,
        offset_sums: Mapping[TaskId, int],
        owned: Partitions,
        generation_id: int | None,
        error_code: AssignorErrorCode = AssignorErrorCode.NONE,
    ) -> bytes:
        """Returns the ConsumerProtocolSubscription to send next.

        `owned`: the partitions of the member's active tasks. `generation_id`: the generation of the assignment with
        these partitions. `error_code`: SHUTDOWN_REQUESTED asks the leader to end the whole application (KIP-671).
        """
        # the unique field is a signed byte, so 127 is followed by -128, as in Java
        self._unique_field = (self._unique_field + 1 + 128) % 256 - 128
        info = SubscriptionInfo(
            version=self._used_version,
            latest_supported_version=LATEST_SUPPORTED_VERSION,
            process_id=self.process_id,
            user_end_point=None if self.user_endpoint is None else str(self.user_endpoint),
            task_offset_sums=dict(offset_sums),
            unique_field=self._unique_field,
            error_code=int(error_code),
            client_tags=dict(self.client_tags),
        )
        return encode_subscription(
            Subscription(
                topics=self.topics,
                user_data=encode_subscription_info(info),
                owned_partitions=tuple(owned),
                generation_id=generation_id,
                rack=self.rack,
            )
        )

    def read(self, assignment: bytes, member_id: str, generation_id: int) -> ReceivedAssignment:
        """Decode an assignment. `assignment`: a ConsumerProtocolAssignment.


        Raises DecodeError if the bytes cannot be decoded. Raises TaskAssignmentError if the assignment contradicts
        itself.
        """
        received = decode_assignment(assignment)
        if received.user_data is None:
            raise TaskAssignmentError("the assignment carries no AssignmentInfo")
        info = decode_assignment_info(received.user_data)
        version = next_subscription_version(self._used_version, info.version, info.commonly_supported_version)
        version_changed = version != self._used_version
        self._used_version = version
        partitions = sorted(received.partitions)
        return ReceivedAssignment(
            HeldTasks(
                member_id,
                generation_id,
                _active_tasks(partitions, info),
                {task: frozenset(of_task) for task, of_task in info.standby_tasks.items()},
                PartitionHosts(_by_host(info.partitions_by_host), _by_host(info.standby_partitions_by_host)),
            ),
            frozenset(partitions),
            AssignorErrorCode(info.err_code),
            rejoin_now=version_changed or info.next_rebalance_ms == 0,
        )

    def foreign_task(self, held: HeldTasks) -> str | None:
        """Finds an assigned task or topic that this member's topology does not have, and describes it. Returns None if
        the topology has all assigned tasks and topics.
        """
        if self.sources is None:
            return None
        for task in sorted({*held.active, *held.standby}):
            known = self.sources.get(task.subtopology)
            if known is None:
                numbers = ", ".join(map(str, sorted(self.sources)))
                return f"task {task} is of subtopology {task.subtopology}, this member has {numbers}"
            assigned = sorted({partition.topic for partition in held.active.get(task, ())})
            foreign = [topic for topic in assigned if not reads_topic(known, topic)]
            if foreign:
                return f"task {task} reads {', '.join(foreign)}, in this member {', '.join(sorted(known.reads))}"
        return None


def _by_host(hosts: HostPartitions) -> dict[HostInfo, Partitions]:
    return {host: frozenset(partitions) for host, partitions in hosts.items()}


def _active_tasks(partitions: list[TopicPartition], info: AssignmentInfo) -> dict[TaskId, Partitions]:
    if len(partitions) != len(info.active_tasks):
        raise TaskAssignmentError(
            f"Number of assigned partitions {len(partitions)} is not equal to the number of active taskIds "
            f"{len(info.active_tasks)}"
        )
    tasks: dict[TaskId, set[TopicPartition]] = {}
    for task, partition in zip(info.active_tasks, partitions, strict=True):
        tasks.setdefault(task, set()).add(partition)
    return {task: frozenset(of_task) for task, of_task in tasks.items()}


@dataclass(frozen=True, slots=True)
class OwnedTasks:
    """The active tasks of a member. `generation_id`: the generation of the assignment with these tasks; None if the
    member has no assignment.
    """

    generation_id: int | None = None
    partitions: Partitions = frozenset()
    tasks: Mapping[TaskId, Partitions] = field(default_factory=dict)

    @classmethod
    def of(cls, received: ReceivedAssignment) -> OwnedTasks:
        """Returns the tasks that the member owns after its task holder has carried out the assignment."""
        return cls(received.held.generation_id, received.partitions, received.held.active)

    def revoked_by(self, received: ReceivedAssignment) -> Partitions:
        """Returns the owned partitions that the assignment does not contain."""
        return self.partitions - received.partitions

    def orders_to_hold(self, received: ReceivedAssignment) -> tuple[Order, ...]:
        """Returns the orders for the task holder. If some tasks are no longer assigned, the first order revokes these
        tasks. The last order starts the assigned tasks.
        """
        assign = AssignTasks(received.held)
        revoked = self.revoked_by(received)
        if not revoked:
            return (assign,)
        return RevokeTasks(frozenset(task for task, of_task in self.tasks.items() if of_task & revoked)), assign
