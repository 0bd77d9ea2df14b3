"""The leader as a member of the group: the subscription that it sends and the assignment that it gets. Both are valid
and have no tasks. Any reader of these bytes, including a JVM leader after a hand-back, finds a SubscriptionInfo and an
AssignmentInfo in a version that the group speaks. The bytes are the same after a restart, so a static member that
returns has changed nothing. Pure: no clock, no randomness.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from assignor.errors import DecodeError
from assignor.protocol.assignment_info import AssignmentInfoEncoder
from assignor.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, decode_member, encode_subscription_info
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.topology.group_topology import GroupTopology
from assignor.types import ProcessId

PROTOCOL_TYPE = "consumer"
PROTOCOL = "stream"
"""The protocol of every Kafka Streams member. Source: `StreamsPartitionAssignor.name`."""

LEADER_TAG = "assignor-leader"
"""The client tag that marks a leader of this project among the members."""

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "assignor lead")


def leader_name(group: str) -> str:
    """Shared by all leaders of a group: their client id, their group.instance.id, so that each can replace another, and
    the group of their election.
    """
    return f"{group}-{LEADER_TAG}"


def own_process_id(group: str, group_instance_id: str) -> ProcessId:
    return ProcessId.from_bytes(uuid.uuid5(_NAMESPACE, f"{group}\n{group_instance_id}").bytes)


def source_topics(topology: GroupTopology) -> tuple[str, ...]:
    """All topics that the application reads, including repartition topics, as its members subscribe to them."""
    return tuple(sorted({topic for each in topology.subtopologies for topic in each.source_topics}))


def own_subscription(group: str, group_instance_id: str, topics: Iterable[str], version: int) -> bytes:
    """A ConsumerProtocolSubscription. `version`: of its SubscriptionInfo."""
    info = SubscriptionInfo(
        version=version,
        process_id=own_process_id(group, group_instance_id),
        client_tags={LEADER_TAG: "true"},
        latest_supported_version=LATEST_SUPPORTED_VERSION if version > 2 else -1,
    )
    return encode_subscription(Subscription(tuple(topics), encode_subscription_info(info)))


def own_assignment(version: int) -> bytes:
    """A ConsumerProtocolAssignment without partitions. `version`: of its AssignmentInfo."""
    encoder = AssignmentInfoEncoder(version, LATEST_SUPPORTED_VERSION if version > 2 else -1, {}, {})
    return encode_assignment(Assignment((), encoder.encode((), {})))


def is_leader_of_ours(group: str, group_instance_id: str | None, subscription: bytes) -> bool:
    """Whether the member is a leader of this project, which gets no tasks. Subscriptions below version 11 have no tags:
    they are recognized by the process id.
    """
    info = _subscription_info(subscription)
    if info is None or info.is_future:
        return False
    by_instance = group_instance_id is not None and info.process_id == own_process_id(group, group_instance_id)
    return by_instance or LEADER_TAG in info.client_tags


def spoken_version(subscriptions: Iterable[bytes]) -> int:
    """The lowest SubscriptionInfo version of these members, the latest known one without members."""
    infos = [_subscription_info(each) for each in subscriptions]
    return min([LATEST_SUPPORTED_VERSION, *(info.version for info in infos if info is not None)])


def _subscription_info(subscription: bytes) -> SubscriptionInfo | None:
    """None for bytes that cannot be decoded; the rebalance itself reports those."""
    try:
        return decode_member(subscription).info
    except DecodeError:
        return None
