"""Groups the members' subscriptions by process, in step 0 of a rebalance.

A process (`ClientMetadata`) has one member for each stream thread. Kafka's leader iterates over the members in the
order of a Java HashMap of member ids. If the members of one process send different data, the result depends on the
order of the member ids in the HashMap. The endpoint, the tags and `first_rack` of a process come from its first member.
If several members report the same partition, the last of these members counts as the owner of the partition. If several
members report the same task, the offset sum of the last of these members is used. A subscription with a version above
LATEST_SUPPORTED_VERSION cannot be decoded. All members with a version above LATEST_SUPPORTED_VERSION belong to one
dummy client, which only counts its members. Source: step zero of `StreamsPartitionAssignor.assign`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from assignor.configs.application_server import host_of
from assignor.configs.kafka_versions import VERSION_WITHOUT_A_NAME, KafkaVersion
from assignor.errors import IllegalStateError, TaskAssignmentError
from assignor.java.hash_codes import process_hash
from assignor.java.order import hash_set_order
from assignor.protocol.subscription_info import MemberSubscription, decode_members
from assignor.protocol.versions import EARLIEST_PROBEABLE_VERSION, LATEST_SUPPORTED_VERSION
from assignor.types import AssignorErrorCode, HostInfo, ProcessId, TaskId, TopicPartition, utf16_order

DEFAULT_FUTURE_PROCESS_ID = ProcessId.parse("ffffffff-ffff-4fff-bfff-ffffffffffff")
"""The id of the dummy client. Differs from Kafka: the id of the dummy client is constant, so that results are
repeatable. In Kafka, the id of the dummy client is random.
"""

_TOPOLOGY_NAME = itemgetter(2)
_CLIENTS_KEPT = 128
_MANY_CONSUMERS = 100
_SHUTDOWN_REQUESTED = int(AssignorErrorCode.SHUTDOWN_REQUESTED)


@dataclass(frozen=True, slots=True)
class ClientMetadata:
    """A process of the group. `consumers`: the member ids of the process, sorted. The number of members is the capacity
    of the process.

    `owned_partitions`: each owned partition, with the member that claims to own it. `offset_sums`: the offset sum of
    each reported task. `reported_tasks`: the tasks that each member reported, by member id. Members without reported
    tasks are absent. `rack`: the rack of all members; None if their racks differ. `first_rack`: the rack of the first
    member; assignors of the public interface get this rack.
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
class ReceivedVersions:
    """The versions of the subscriptions of one rebalance.

    `min_received`: the lowest version of all subscriptions, but at most LATEST_SUPPORTED_VERSION; all assignments are
    encoded in this version. `min_supported`: the lowest of the members' latest supported versions; UNKNOWN_VERSION if a
    member does not send its latest supported version. `future`: the version of the last member whose version is above
    LATEST_SUPPORTED_VERSION; None if all versions are supported.
    """

    min_received: int = LATEST_SUPPORTED_VERSION
    min_supported: int = LATEST_SUPPORTED_VERSION
    future: int | None = None

    def is_version_probing(self) -> bool:
        """True if some members have to rejoin with a lower version, in another rebalance.

        Raises TaskAssignmentError if one member has a future version and another member's version is too old for
        version probing.
        """
        if self.future is None:
            return False
        if self.min_received >= EARLIEST_PROBEABLE_VERSION:
            return True
        raise TaskAssignmentError(
            f"Received a future (version probing) subscription (version: {self.future}) and an incompatible "
            f"pre Kafka 2.0 subscription (version: {self.min_received}) at the same time."
        )


def received_versions(versions: Iterable[tuple[int, int]]) -> ReceivedVersions:
    """Returns the ReceivedVersions of all subscriptions. `versions`: the version and the latest supported version of
    each subscription, in the order of the members.
    """
    min_received = LATEST_SUPPORTED_VERSION
    min_supported = LATEST_SUPPORTED_VERSION
    future: int | None = None
    for used, latest_supported in versions:
        min_received = min(min_received, used)
        min_supported = min(min_supported, latest_supported)
        if used > LATEST_SUPPORTED_VERSION:
            future = used
    return ReceivedVersions(min_received, min_supported, future)


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """All processes of a group. `clients`: the processes, in the order of the leader's Java HashMap. `owners`: for each
    owned partition, all members whose subscriptions list the partition as owned.
    """

    clients: Mapping[ProcessId, ClientMetadata]
    owners: Mapping[TopicPartition, tuple[str, ...]]
    versions: ReceivedVersions
    shutdown_requested: bool


def group_metadata(
    subscriptions: Mapping[str, bytes],
    future_process_id: ProcessId | None,
    kafka_version: KafkaVersion = VERSION_WITHOUT_A_NAME,
) -> GroupMetadata:
    """Decodes the subscriptions and groups them by process. `subscriptions`: the ConsumerProtocolSubscription bytes of
    each member, by member id, in the order in which the leader received them.

    Raises DecodeError with the member's id, and ConfigError for an endpoint that is not host:port. Raises
    IllegalStateError for a process that reports tasks of a named topology together with tasks without a topology name.
    """
    group = _GroupBuilder(future_process_id or DEFAULT_FUTURE_PROCESS_ID, kafka_version)
    for member_id, member in decode_members(subscriptions, kafka_version.rules.largest_collection):
        group.add(member_id, member)
    return group.build()


def named_beside_unnamed() -> IllegalStateError:
    """Returns the error for a client that reports tasks of a named topology together with tasks without a topology
    name.

    Kafka sorts a client's tasks. Kafka's `TaskId.compareTo` cannot compare a task of a named topology with a task
    without a topology name. Kafka Streams 4 has no named topologies any more, but a member may still report tasks of
    named topologies.
    """
    return IllegalStateError(
        "Can't compare a TaskId with a namedTopology to one without",
        "a member reports tasks of a named topology, and there are tasks of a topology without a name",
    )


class _ClientBuilder:
    """Collects the members of one process and builds its `ClientMetadata`."""

    def __init__(self, process_id: ProcessId, first: MemberSubscription, kafka_version: KafkaVersion) -> None:
        self.process_id = process_id
        end_point = first.info.user_end_point
        self.host = None if end_point is None else host_of(end_point, kafka_version)
        self.tags = first.info.client_tags
        self.first_rack = first.subscription.rack
        self.racks: set[str | None] = {self.first_rack}
        self.consumers: list[str] = []
        self.owned_partitions: dict[TopicPartition, str] = {}
        self.offset_sums: dict[TaskId, int] = {}
        self.reported_tasks: dict[str, tuple[TaskId, ...]] = {}
        self.has_names: set[bool] = set()

    def build(self) -> ClientMetadata:
        return ClientMetadata(
            process_id=self.process_id,
            host=self.host,
            tags=self.tags,
            rack=next(iter(self.racks)) if len(self.racks) == 1 else None,
            consumers=_sorted_as_java(self.consumers),
            owned_partitions=self.owned_partitions,
            offset_sums=self.offset_sums,
            reported_tasks=self.reported_tasks,
            first_rack=self.first_rack,
        )


class _GroupBuilder:
    def __init__(self, future_process_id: ProcessId, kafka_version: KafkaVersion) -> None:
        self.future_process_id = future_process_id
        self.kafka_version = kafka_version
        self.clients: dict[ProcessId, _ClientBuilder] = {}
        self.claims: list[dict[TopicPartition, str]] = []
        """One mapping for each member that owns partitions: from each owned partition to the id of the member.
        """
        self.versions: list[tuple[int, int]] = []
        self.shutdown_requested = False

    def add(self, member_id: str, member: MemberSubscription) -> None:
        subscription, info = member
        owned_partitions, offset_sums = subscription.owned_partitions, info.task_offset_sums
        if info.error_code == _SHUTDOWN_REQUESTED:
            self.shutdown_requested = True
        version = info.version
        self.versions.append((version, info.latest_supported_version))
        process_id = self.future_process_id if version > LATEST_SUPPORTED_VERSION else info.process_id
        client = self.clients.get(process_id)
        if client is None:
            client = self.clients[process_id] = _ClientBuilder(process_id, member, self.kafka_version)
        client.racks.add(subscription.rack)
        client.consumers.append(member_id)
        if offset_sums:
            client.reported_tasks[member_id] = tuple(offset_sums)
            has_names = client.has_names
            has_names.update([name is not None for name in set(map(_TOPOLOGY_NAME, offset_sums))])
            if len(has_names) > 1:
                raise named_beside_unnamed()
            client.offset_sums.update(offset_sums)
        if owned_partitions:
            claimed = dict.fromkeys(owned_partitions, member_id)
            client.owned_partitions.update(claimed)
            self.claims.append(claimed)

    def build(self) -> GroupMetadata:
        order: Iterable[ProcessId] = hash_set_order(self.clients, process_hash)
        return GroupMetadata(
            clients={process_id: self.clients[process_id].build() for process_id in order},
            owners=_owners(self.claims),
            versions=received_versions(versions for versions, _ in groupby(self.versions)),
            shutdown_requested=self.shutdown_requested,
        )


def _owners(claims: Sequence[Mapping[TopicPartition, str]]) -> dict[TopicPartition, tuple[str, ...]]:
    """Returns, for each partition of `claims`, all members that claim to own it, in the order of `claims`."""
    owners: dict[TopicPartition, tuple[str, ...]] = {}
    for claimed in claims:
        owners.update(dict.fromkeys(claimed, (next(iter(claimed.values())),)))
    if len(owners) == sum(map(len, claims)):
        return owners
    owners.clear()
    for claimed in claims:
        for partition, member_id in claimed.items():
            owners[partition] = (*owners.get(partition, ()), member_id)
    return owners


def _sorted_as_java(consumers: Sequence[str]) -> tuple[str, ...]:
    if len(consumers) < _MANY_CONSUMERS:
        return _sorted(consumers)
    return _remembered_order(tuple(consumers))


def _sorted(consumers: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(consumers, key=None if all(map(str.isascii, consumers)) else utf16_order))


@lru_cache(maxsize=_CLIENTS_KEPT)
def _remembered_order(consumers: tuple[str, ...]) -> tuple[str, ...]:
    """Sorts member ids. The result is cached, because the members of a process with many threads seldom change."""
    return _sorted(consumers)
