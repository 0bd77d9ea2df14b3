"""One rebalance, led from outside of the application: the members' bytes in, everybody's assignment out. Pure.

Rules:

- Members of this program are left out of the rebalance; each is handed an AssignmentInfo without tasks. So are members
  whose subscription nobody can read: Kafka's leader dies of one, the next leader, too, and so on through the group.
- A probing deadline is given to the lowest process that can carry it, so that it triggers the next rebalance also when
  the leader is dead then. The rebalance is run as if that process led, so a recorded line gives the same bytes again.
  When no process can, the leader keeps it itself.
- Nobody is ever handed nothing: a result that lacks a member raises here, before anything is sent.

Source: `StreamsPartitionAssignor.assign`, `addClientAssignments`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from assignor.clients.client_metadata import DEFAULT_FUTURE_PROCESS_ID
from assignor.errors import DecodeError, IllegalStateError
from assignor.pipeline import assign
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment, decode_subscription
from assignor.protocol.subscription_info import decode_subscription_info
from assignor.snapshot import Member, RebalanceResult, RebalanceSnapshot
from assignor.task_assignors.base import TaskAssignor
from assignor.types import ProcessId
from kafka_groups.leader.own_member import is_leader_of_ours, own_assignment, spoken_version

_AT_ONCE_MS = 0


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """`streams`: members of the application, in the order received; `ours`: member ids of this program. `unreadable`:
    other member ids, with what is wrong with their bytes. `sizes`: bytes of everybody's subscription. `topics`: that
    `streams` subscribe to.
    """

    streams: Mapping[str, Member]
    ours: tuple[str, ...]
    unreadable: Mapping[str, str]
    sizes: Mapping[str, int]
    topics: Mapping[str, tuple[str, ...]]

    @property
    def version(self) -> int:
        """Of the SubscriptionInfo that all members of the application speak."""
        return spoken_version(member.subscription for member in self.streams.values())


@dataclass(frozen=True, slots=True)
class LedRebalance:
    """`snapshot`: all that the rebalance knew, members of this program left out; `result`: all that it decided."""

    snapshot: RebalanceSnapshot
    result: RebalanceResult


def group_members(group: str, members: Iterable[tuple[str, str | None, bytes]], own_member_id: str) -> GroupMembers:
    """`members`: id, group.instance.id and subscription of everybody, as the leader received them."""
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
            topics[member_id] = _topics(subscription)
            streams[member_id] = Member(subscription, None, group_instance_id)
        except DecodeError as error:
            unreadable[member_id] = str(error)
    return GroupMembers(streams, tuple(ours), unreadable, sizes, topics)


def lead_rebalance(snapshot: RebalanceSnapshot, now_ms: int, task_assignor: TaskAssignor | None = None) -> LedRebalance:
    """`snapshot`: with at least one member. What Kafka's leader would have thrown is in `result.error`.

    Raises InputError, DecodeError, as `assignor.assign`.
    """
    undelivered = replace(snapshot, leader_process_id=None)
    result = assign(undelivered, now_ms, task_assignor)
    carrier = None if result.probing_rebalance_at_ms is None else _carrier(snapshot, result)
    if carrier is None:
        return LedRebalance(undelivered, result)
    delivered = replace(snapshot, leader_process_id=carrier)
    with_deadline = assign(delivered, now_ms, task_assignor)
    if with_deadline.probing_rebalance_at_ms is None:  # members before version 7 cannot be told a time
        return LedRebalance(undelivered, result)
    return LedRebalance(delivered, with_deadline)


def all_assignments(members: GroupMembers, result: RebalanceResult | None) -> dict[str, bytes]:
    """For every member id. `result`: None when no member of the application is in the group."""
    own = own_assignment(members.version)
    assignments = {} if result is None else dict(result.assignments)
    if set(assignments) != set(members.streams) or not all(assignments.values()):
        missing = sorted(set(members.streams).symmetric_difference(assignments))
        raise IllegalStateError(f"the rebalance has no assignment for exactly its members: {', '.join(missing)}")
    return {**assignments, **dict.fromkeys((*members.ours, *members.unreadable), own)}


def _topics(subscription: bytes) -> tuple[str, ...]:
    """Raises DecodeError for bytes that are no subscription of Kafka Streams."""
    decoded = decode_subscription(subscription)
    decode_subscription_info(decoded.user_data or b"")
    return decoded.topics


def _carrier(snapshot: RebalanceSnapshot, result: RebalanceResult) -> ProcessId | None:
    """The deadline goes to the first consumer of a process, unless that one is to rejoin at once anyway. The dummy
    client for members of a future version is none: its members rejoin at once in a lower one.
    """
    assert result.problem is not None, "a rebalance with a deadline has been through its placement"
    future = snapshot.future_process_id or DEFAULT_FUTURE_PROCESS_ID
    for process_id in sorted(result.problem.clients):
        consumers = result.problem.clients[process_id].consumers
        if process_id != future and consumers and not _rejoins_at_once(result.assignments[consumers[0]]):
            return process_id
    return None


def _rejoins_at_once(assignment: bytes) -> bool:
    info = decode_assignment_info(decode_assignment(assignment).user_data or b"")
    return info.next_rebalance_ms == _AT_ONCE_MS
