"""Computes one rebalance for a leader outside the application. The input contains the members' subscriptions. The
result has an assignment for every member. The module does no I/O, and does not use a clock or random numbers.

Rules:

- Two kinds of members get an AssignmentInfo without tasks: leaders of this project, and members whose subscriptions
  cannot be read. If the leader were a JVM member, an unreadable subscription would stop this leader, then the next
  leader, and so on.
- Among the processes that can carry the probing deadline, the deadline is sent to the process with the lowest id. The
  process that has the deadline starts the next rebalance, even if the leader has left or failed. The rebalance is
  computed as if the process with the deadline were the leader. So if the rebalance is computed again from the recorded
  line, the assignments have the same bytes. If no process can carry the probing deadline, this leader itself starts the
  probing rebalance.
- Every member gets an assignment. If the result lacks a member, `all_assignments` raises IllegalStateError before any
  assignment is sent.

Source: `StreamsPartitionAssignor.assign`, `addClientAssignments`.

The leader is itself a member of the group. The leader sends a subscription and gets an assignment, both without tasks.
The leader's subscription contains a SubscriptionInfo, and its assignment contains an AssignmentInfo. SubscriptionInfo
and AssignmentInfo have a version that the group uses, so every member can read them. When this leader has left, a JVM
member can become the leader and read the SubscriptionInfo and AssignmentInfo. A restart does not change the leader's
subscription and assignment. So the brokers see no change when the static member returns.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from assignor.clients.client_metadata import DEFAULT_FUTURE_PROCESS_ID
from assignor.errors import DecodeError, IllegalStateError
from assignor.pipeline import assign
from assignor.pipeline.snapshot import Member, RebalanceResult, RebalanceSnapshot
from assignor.protocol.assignment_info import AssignmentInfoEncoder, decode_assignment_info
from assignor.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from assignor.protocol.subscription_info import SubscriptionInfo, decode_member, encode_subscription_info
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.task_assignors.base import TaskAssignor
from assignor.topology.group_topology import GroupTopology
from assignor.types import ProcessId

PROTOCOL_TYPE = "consumer"
PROTOCOL = "stream"
"""The name of the protocol that every Kafka Streams member supports. Source: `StreamsPartitionAssignor.name`."""

LEADER_TAG = "assignor-leader"
"""The client tag that only leaders of this project have."""

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "assignor lead")


def leader_name(group: str) -> str:
    """Returns the name that all `assignor lead` processes of a group share. The name is used as the client id, as the
    id of the election group, and as the default group.instance.id. Any of these processes can replace another, because
    all have the same group.instance.id.
    """
    return f"{group}-{LEADER_TAG}"


def own_process_id(group: str, group_instance_id: str) -> ProcessId:
    return ProcessId.from_bytes(uuid.uuid5(_NAMESPACE, f"{group}\n{group_instance_id}").bytes)


def source_topics(topology: GroupTopology) -> tuple[str, ...]:
    """Returns all topics to which the application's members subscribe, including repartition topics."""
    return tuple(sorted({topic for each in topology.subtopologies for topic in each.source_topics}))


def own_subscription(group: str, group_instance_id: str, topics: Iterable[str], version: int) -> bytes:
    """Returns the leader's ConsumerProtocolSubscription. `version`: the version of the SubscriptionInfo in this
    subscription.
    """
    info = SubscriptionInfo(
        version=version,
        process_id=own_process_id(group, group_instance_id),
        client_tags={LEADER_TAG: "true"},
        latest_supported_version=LATEST_SUPPORTED_VERSION if version > 2 else -1,
    )
    return encode_subscription(Subscription(tuple(topics), encode_subscription_info(info)))


def own_assignment(version: int) -> bytes:
    """Returns a ConsumerProtocolAssignment without partitions. `version`: the version of the AssignmentInfo in this
    assignment.
    """
    encoder = AssignmentInfoEncoder(version, LATEST_SUPPORTED_VERSION if version > 2 else -1, {}, {})
    return encode_assignment(Assignment((), encoder.encode((), {})))


def is_leader_of_ours(group: str, group_instance_id: str | None, subscription: bytes) -> bool:
    """Returns True if the member is a leader of this project. Leaders of this project get no tasks. A leader is
    recognized by its client tag. Subscriptions below version 11 have no client tags, so a leader may also be recognized
    by its process id.
    """
    info = _subscription_info(subscription)
    if info is None or info.is_future:
        return False
    by_instance = group_instance_id is not None and info.process_id == own_process_id(group, group_instance_id)
    return by_instance or LEADER_TAG in info.client_tags


def spoken_version(subscriptions: Iterable[bytes]) -> int:
    """Returns the lowest SubscriptionInfo version in these subscriptions; the latest known version if there are no
    subscriptions.
    """
    infos = [_subscription_info(each) for each in subscriptions]
    return min([LATEST_SUPPORTED_VERSION, *(info.version for info in infos if info is not None)])


def _subscription_info(subscription: bytes) -> SubscriptionInfo | None:
    """Returns the decoded SubscriptionInfo; None if the subscription cannot be decoded."""
    try:
        return decode_member(subscription).info
    except DecodeError:
        return None


_AT_ONCE_MS = 0


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The members of a generation. `streams`: the application's members, in the order in which the leader received
    them. `ours`: the member ids of this project's leaders.

    `unreadable`: for each member whose subscription cannot be read, the error. `sizes`: for every member, the size of
    its subscription in bytes. `topics`: for each member of the application, the topics to which it subscribes. The key
    of each mapping is the member id.
    """

    streams: Mapping[str, Member]
    ours: tuple[str, ...]
    unreadable: Mapping[str, str]
    sizes: Mapping[str, int]
    topics: Mapping[str, tuple[str, ...]]

    @property
    def version(self) -> int:
        """The newest version of SubscriptionInfo that every member of the application supports."""
        return spoken_version(member.subscription for member in self.streams.values())


@dataclass(frozen=True, slots=True)
class LedRebalance:
    """A computed rebalance. `snapshot`: the input of the rebalance, without leaders of this project. `result`: the
    output of the rebalance.
    """

    snapshot: RebalanceSnapshot
    result: RebalanceResult


def group_members(group: str, members: Iterable[tuple[str, str | None, bytes]], own_member_id: str) -> GroupMembers:
    """Separates the members of a generation into the application's members, this project's leaders and unreadable
    members. `members`: member id, group.instance.id and subscription of every member, in the order in which the leader
    received them.
    """
    streams: dict[str, Member] = {}
    ours: list[str] = []
    unreadable: dict[str, str] = {}
    sizes: dict[str, int] = {}
    topics: dict[str, tuple[str, ...]] = {}
    for member_id, group_instance_id, subscription in members:
        sizes[member_id] = len(subscription)
        if member_id == own_member_id or is_leader_of_ours(group, group_instance_id, subscription):
            ours.append(member_id)
            continue
        try:
            topics[member_id] = decode_member(subscription).subscription.topics
            streams[member_id] = Member(subscription, None, group_instance_id)
        except DecodeError as error:
            unreadable[member_id] = str(error)
    return GroupMembers(streams, tuple(ours), unreadable, sizes, topics)


def lead_rebalance(snapshot: RebalanceSnapshot, now_ms: int, task_assignor: TaskAssignor | None = None) -> LedRebalance:
    """Computes a rebalance. `snapshot`: the input of the rebalance, with at least one member. If Kafka's leader would
    throw an exception, `result.error` has this exception.

    Raises InputError and DecodeError, as `assignor.assign` does.
    """
    undelivered = replace(snapshot, leader_process_id=None)
    result = assign(undelivered, now_ms, task_assignor)
    carrier = None if result.probing_rebalance_at_ms is None else _carrier(snapshot, result)
    if carrier is None:
        return LedRebalance(undelivered, result)
    delivered = replace(snapshot, leader_process_id=carrier)
    with_deadline = assign(delivered, now_ms, task_assignor)
    # a member with a subscription version below 7 cannot carry a probing deadline
    if with_deadline.probing_rebalance_at_ms is None:
        return LedRebalance(undelivered, result)
    return LedRebalance(delivered, with_deadline)


def all_assignments(members: GroupMembers, result: RebalanceResult | None) -> dict[str, bytes]:
    """Returns the assignment of every member, by member id. `result`: the result of the rebalance; None if the group
    has no member of the application.
    """
    own = own_assignment(members.version)
    assignments = {} if result is None else dict(result.assignments)
    if set(assignments) != set(members.streams) or not all(assignments.values()):
        missing = sorted(set(members.streams).symmetric_difference(assignments))
        raise IllegalStateError(f"the assignments do not match the members; they differ in {', '.join(missing)}")
    return {**assignments, **dict.fromkeys((*members.ours, *members.unreadable), own)}


def _carrier(snapshot: RebalanceSnapshot, result: RebalanceResult) -> ProcessId | None:
    """Returns the process that gets the probing deadline. A process can carry the deadline if its first consumer can
    carry it. If several processes can carry the deadline, returns the process with the lowest id. Returns None if no
    process can carry the deadline.

    A consumer that has to rejoin immediately cannot carry the probing deadline. So members with a future protocol
    version cannot carry the deadline. These members rejoin immediately, with a lower version.
    """
    assert result.problem is not None, "a rebalance with a deadline has a placement"
    future = snapshot.future_process_id or DEFAULT_FUTURE_PROCESS_ID
    for process_id in sorted(result.problem.clients):
        consumers = result.problem.clients[process_id].consumers
        if process_id != future and consumers and not _rejoins_at_once(result.assignments[consumers[0]]):
            return process_id
    return None


def _rejoins_at_once(assignment: bytes) -> bool:
    info = decode_assignment_info(decode_assignment(assignment).user_data or b"")
    return info.next_rebalance_ms == _AT_ONCE_MS
