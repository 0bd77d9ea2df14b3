"""Asks a group's coordinator for committed offsets and members.

A group's coordinator is the broker that leads the group's partition of `__consumer_offsets`. To read committed offsets,
the first try asks the coordinator that an earlier call has found. If this try fails, another broker may be the
coordinator now, so the next try looks up the coordinator. If an open transaction may change an offset, the request is
repeated, at first every 5 ms. The interval is short because many open transactions only wait for their markers and end
within milliseconds.
Source: `CoordinatorStrategy`, `ListConsumerGroupOffsetsHandler`, `DescribeClassicGroupsHandler`.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka.protocol.commit import OffsetFetchRequest_v3
from aiokafka.protocol.coordination import FindCoordinatorRequest

from assignor.types import TopicPartition
from kafka_client.connections import Connections
from kafka_client.error_codes import UNSTABLE_OFFSET_COMMIT, check
from kafka_client.errors import NotNow
from kafka_client.requests import NO_TAGS, DescribeGroups4, OffsetFetch7, VersionedRequest, by_topic

_GROUP = 0
"""The type of a group coordinator in a FindCoordinator request. Source: `FindCoordinatorRequest.CoordinatorType`."""
_NOT_COMMITTED = -1
_QUICK_TRIES, _QUICK_PAUSE_S = 20, 0.005


class CommittedOffset(NamedTuple):
    """A committed offset, which is the offset of the next record to process. `metadata`: the text that was committed
    with the offset.
    """

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """A member of a group. `subscription`, `assignment`: bytes of the group's protocol; empty while the group
    rebalances.

    Source: `MemberDescription` of the admin client.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A group of the classic protocol. `state`: Kafka's name of the group's state; `Dead` if the group does not exist.

    `protocol_type`: `consumer` for consumers and Kafka Streams. `protocol`: the name of the group's assignor, which is
    `stream` for Kafka Streams; empty if the group has no assignor. Brokers do not report the group's leader.
    """

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[ConsumerGroupMember, ...] = ()


async def committed_offsets(
    connections: Connections, group: str, partitions: list[TopicPartition] | None, stable: bool, known: dict[str, int]
) -> dict[TopicPartition, CommittedOffset]:
    """Makes one try to read the committed offsets of a group. Partitions without a committed offset are left out.
    `known`: maps each group to the node id of the group's coordinator; this function updates `known`.

    Raises NotNow, KafkaRefused.
    """
    asked = None if partitions is None else list(by_topic(partitions).items())
    if asked == []:
        return {}
    request = _offset_fetch(group, asked, stable)
    try:
        if group not in known:
            known[group] = await find_coordinator(group, connections)
        answer = await connections.send(request, known[group])
        quick_tries = _QUICK_TRIES
        while _is_unstable(answer) and quick_tries > 0:
            quick_tries -= 1
            await asyncio.sleep(_QUICK_PAUSE_S)
            answer = await connections.send(request, known[group])
        return _found(answer)
    except NotNow:
        known.pop(group, None)
        raise


def _offset_fetch(group: str, asked: list[tuple[str, list[int]]] | None, stable: bool) -> VersionedRequest:
    topics = None if asked is None else [(topic, numbers, NO_TAGS) for topic, numbers in asked]
    newest = OffsetFetch7(group, topics, stable, NO_TAGS)
    if stable:
        return VersionedRequest(newest, needs="stable offsets need Kafka 2.5 or newer")
    return VersionedRequest(OffsetFetchRequest_v3(group, asked), newest)


def _is_unstable(answer: Any) -> bool:
    at = 2 if answer.API_VERSION > 3 else 1  # in OffsetFetch 7 the leader epoch comes first
    return any(more[at] == UNSTABLE_OFFSET_COMMIT for _, numbers, *_ in answer.topics for _, _, *more in numbers)


def _found(answer: Any) -> dict[TopicPartition, CommittedOffset]:
    check(answer.error_code, "group")
    found: dict[TopicPartition, CommittedOffset] = {}
    has_tags = answer.API_VERSION > 3
    for topic, numbers, *_ in answer.topics:
        for partition, offset, *more in numbers:
            metadata, code = more[1:3] if has_tags else more  # in OffsetFetch 7 the leader epoch comes first
            check(code, f"{topic}-{partition}")
            if offset != _NOT_COMMITTED:
                found[TopicPartition(topic, partition)] = CommittedOffset(offset, metadata or "")
    return found


async def describe_group(connections: Connections, group: str) -> ConsumerGroupDescription:
    """Makes one try to describe a group. Raises NotNow, KafkaRefused."""
    coordinator = await find_coordinator(group, connections)
    answer = await connections.send(VersionedRequest(DescribeGroups4([group], False)), coordinator)
    ((code, name, state, protocol_type, protocol, members, _),) = answer.groups
    check(code, "group")
    return ConsumerGroupDescription(
        name, state, protocol_type, protocol, tuple(ConsumerGroupMember(*member) for member in sorted(members))
    )


async def find_coordinator(group: str, connections: Connections, *others: Connections) -> int:
    """Makes one try to find the node id of the group's coordinator. `others`: other `Connections` objects that also get
    the coordinator's address. Raises NotNow, KafkaRefused.
    """
    answer = await connections.send(FindCoordinatorRequest(group, _GROUP))
    check(answer.error_code, "its coordinator", getattr(answer, "error_message", None))
    node_id: int = answer.coordinator_id
    for each in (connections, *others):
        each.add_broker(node_id, (answer.host, answer.port))
    return node_id
