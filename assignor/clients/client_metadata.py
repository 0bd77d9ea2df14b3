"""Step 0: the members' subscriptions, gathered by process.

A process (`ClientMetadata`) has one member for each stream thread. Where its members disagree, the order in which
Kafka's leader walks them decides, which is the order of a Java HashMap of member ids: the first member's endpoint,
tags and rack count, and the last member's claim on a partition and its offset sum of a task. Members of a version
newer than ours can only be counted; they are collected in one dummy client. Source: step zero of
`StreamsPartitionAssignor.assign`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from assignor.errors import ConfigError, DecodeError, IllegalStateError, NumberFormatError
from assignor.java.order import hash_set_order, process_hash, string_hash
from assignor.protocol.consumer_protocol import Subscription, decode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, decode_subscription_info
from assignor.protocol.usual_subscriptions import (
    SubscriptionReader,
    UsualSubscription,
    UsualSubscriptionInfo,
    usual_subscription_info,
)
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION, ReceivedVersions, received_versions
from assignor.types import (
    JAVA_INT_MAX,
    AssignorErrorCode,
    HostInfo,
    ProcessId,
    TaskId,
    TopicPartition,
    utf16_order,
)

Value = TypeVar("Value")

AnySubscription = Subscription | UsualSubscription
AnySubscriptionInfo = SubscriptionInfo | UsualSubscriptionInfo

DEFAULT_FUTURE_PROCESS_ID = ProcessId.parse("ffffffff-ffff-4fff-bfff-ffffffffffff")
"""Differs from Kafka: there the dummy client's id is random; results here must be repeatable."""

_ENDPOINT = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)", re.ASCII)
_GROUPS_KEPT = 16
_JAVA_WHITESPACE = "".join(map(chr, range(0x21)))


@dataclass(frozen=True, slots=True)
class ClientMetadata:
    """One process. `consumers`: its members, sorted; their number is its capacity.

    `owned_partitions`: each partition that a member claims, with that member. `offset_sums`: by reported task.
    `reported_tasks`: the tasks that each member reported. `rack`: None unless all members have the same.
    `first_rack`: of the first member, which is what assignors of the public interface see.
    """

    process_id: ProcessId
    host: HostInfo | None
    tags: Mapping[str, str]
    rack: str | None
    consumers: tuple[str, ...]
    owned_partitions: Mapping[TopicPartition, str] = field(default_factory=dict)
    offset_sums: Mapping[TaskId, int] = field(default_factory=dict)
    reported_tasks: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    first_rack: str | None = None


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """The whole group. `clients`: in the order of the leader's Java HashMap.

    `owners`: every claimed partition with all members that claim it.
    """

    clients: Mapping[ProcessId, ClientMetadata]
    owners: Mapping[TopicPartition, tuple[str, ...]]
    versions: ReceivedVersions
    shutdown_requested: bool


def group_metadata(subscriptions: Mapping[str, bytes], future_process_id: ProcessId | None) -> GroupMetadata:
    """`subscriptions`: member id to bytes of ConsumerProtocolSubscription, in the order received.

    Raises DecodeError naming the member, ConfigError for an endpoint that is not host:port, IllegalStateError for a
    process that reports tasks of a named topology together with others.
    """
    group = _GroupBuilder(future_process_id or DEFAULT_FUTURE_PROCESS_ID)
    # the consumer decodes all of them before the assignor decodes the first user data
    decoded: dict[bytes, AnySubscription] = {}
    read_usual = SubscriptionReader().read
    for member_id, raw in subscriptions.items():
        if raw not in decoded:
            decoded[raw] = read_usual(raw) or _read(member_id, decode_subscription, raw)
    # threads without tasks send what others of their process sent: they are only counted
    alike: dict[bytes, list[str]] = {}
    for member_id in _in_map_order(tuple(subscriptions)):
        raw = subscriptions[member_id]
        if raw in alike:
            alike[raw].append(member_id)
            continue
        subscription = decoded[raw]
        user_data = subscription.user_data or b""
        info = usual_subscription_info(user_data) or _read(member_id, decode_subscription_info, user_data)
        client = group.add(member_id, subscription, info)
        if not (subscription.owned_partitions or info.task_offset_sums or info.is_future):
            alike[raw] = client.consumers
    return group.build()


@lru_cache(maxsize=_GROUPS_KEPT)
def _in_map_order(member_ids: tuple[str, ...]) -> tuple[str, ...]:
    """Of a HashMap. A group of thousands has the same members in most of its rebalances."""
    return tuple(hash_set_order(member_ids, string_hash))


def _read(member_id: str, decode: Callable[[bytes], Value], raw: bytes) -> Value:
    try:
        return decode(raw)
    except DecodeError as error:
        raise DecodeError(f"subscription of member {member_id}: {error.what}", error.reason, error.offset) from error


def host_of(endpoint: str | None) -> HostInfo | None:
    """None for no endpoint. Raises ConfigError for one that is not host:port. Source: `HostInfo.buildFromEndpoint`."""
    if endpoint is None or not endpoint.strip(_JAVA_WHITESPACE):
        return None
    match = _ENDPOINT.fullmatch(endpoint)
    if match is None:
        raise ConfigError(f"Error parsing host address {endpoint}. Expected format host:port.")
    digits = match[2].lstrip("0") or "0"
    if len(digits) > len(str(JAVA_INT_MAX)) or int(digits) > JAVA_INT_MAX:
        raise NumberFormatError(f'For input string: "{match[2]}"')
    return HostInfo(match[1], int(digits))


def named_beside_unnamed() -> IllegalStateError:
    """Kafka keeps a client's tasks sorted, and a task of a named topology cannot be compared with others
    (`TaskId.compareTo`).

    Kafka Streams 4 has no named topologies any more, but a member may still report their tasks.
    """
    return IllegalStateError(
        "Can't compare a TaskId with a namedTopology to one without",
        "a member reports tasks of a named topology, and there are tasks of a topology without a name",
    )


class _ClientBuilder:
    """One process while its members are added."""

    def __init__(self, process_id: ProcessId, info: AnySubscriptionInfo | None, rack: str | None) -> None:
        self.process_id = process_id
        self.host = None if info is None else host_of(info.user_end_point)
        self.tags: Mapping[str, str] = {} if info is None else info.client_tags
        self.first_rack = rack
        self.racks: set[str | None] = {rack}
        self.consumers: list[str] = []
        self.owned_partitions: dict[TopicPartition, str] = {}
        self.offset_sums: dict[TaskId, int] = {}
        self.reported_tasks: dict[str, tuple[TaskId, ...]] = {}
        self.has_names: set[bool] = set()

    def add(self, member_id: str, subscription: AnySubscription, offset_sums: Mapping[TaskId, int]) -> None:
        self.racks.add(subscription.rack)
        self.consumers.append(member_id)
        if offset_sums:
            self.reported_tasks[member_id] = tuple(offset_sums)
            for task in offset_sums:
                self.has_names.add(task[2] is not None)
            if len(self.has_names) > 1:
                raise named_beside_unnamed()
            self.offset_sums.update(offset_sums)
        if subscription.owned_partitions:
            for partition in subscription.owned_partitions:
                self.owned_partitions[partition] = member_id

    def build(self) -> ClientMetadata:
        return ClientMetadata(
            process_id=self.process_id,
            host=self.host,
            tags=self.tags,
            rack=next(iter(self.racks)) if len(self.racks) == 1 else None,
            consumers=tuple(_sorted_as_java(self.consumers)),
            owned_partitions=self.owned_partitions,
            offset_sums=self.offset_sums,
            reported_tasks={**dict.fromkeys(self.consumers, ()), **self.reported_tasks},
            first_rack=self.first_rack,
        )


class _GroupBuilder:
    def __init__(self, future_process_id: ProcessId) -> None:
        self.future_process_id = future_process_id
        self.clients: dict[ProcessId, _ClientBuilder] = {}
        self.owners: dict[TopicPartition, tuple[str, ...]] = {}
        self.versions: list[tuple[int, int]] = []
        self.shutdown_requested = False

    def add(self, member_id: str, subscription: AnySubscription, info: AnySubscriptionInfo) -> _ClientBuilder:
        if info.error_code == AssignorErrorCode.SHUTDOWN_REQUESTED:
            self.shutdown_requested = True
        self.versions.append((info.version, info.latest_supported_version))
        client = self._client_of(subscription, info)
        client.add(member_id, subscription, info.task_offset_sums)
        owners, alone = self.owners, (member_id,)
        for partition in subscription.owned_partitions:
            owners[partition] = (*owners[partition], member_id) if partition in owners else alone
        return client

    def _client_of(self, subscription: AnySubscription, info: AnySubscriptionInfo) -> _ClientBuilder:
        if info.version > LATEST_SUPPORTED_VERSION:
            return self._client(self.future_process_id, None, subscription.rack)
        return self._client(info.process_id, info, subscription.rack)

    def _client(self, process_id: ProcessId, info: AnySubscriptionInfo | None, rack: str | None) -> _ClientBuilder:
        client = self.clients.get(process_id)
        if client is None:
            client = self.clients[process_id] = _ClientBuilder(process_id, info, rack)
        return client

    def build(self) -> GroupMetadata:
        order: Iterable[ProcessId] = hash_set_order(self.clients, process_hash)
        return GroupMetadata(
            clients={process_id: self.clients[process_id].build() for process_id in order},
            owners=self.owners,
            versions=received_versions(self.versions),
            shutdown_requested=self.shutdown_requested,
        )


def _sorted_as_java(consumers: list[str]) -> list[str]:
    if all(consumer.isascii() for consumer in consumers):
        return sorted(consumers)
    return sorted(consumers, key=utf16_order)
