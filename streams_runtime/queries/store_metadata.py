"""The locations of stores: the copies on this instance, the hosts of a key, and the metadata as a JSON document.

An instance (`Queryable`) provides its open copies of stores, the group's host maps and its status. A client reads the
document at `/v1/metadata`. From this document, the client computes the partition and the hosts of a key by the same
rules as the instance.

Rules: for input from the default partitioner, the partition is Kafka's murmur2 hash of the key, modulo the store's
number of partitions. If the input was written with another partitioner, the caller has to give the partition. The host
maps assign partitions of source topics to hosts. A host has partition n of a store if it has partition n of one of the
store's source topics.

Source: `StreamsMetadata`, `StreamsMetadataState.keyQueryMetadataForKey`, `QueryableStoreProvider`; KIP-535. Differs
from Kafka: if the topology itself writes the input with a custom partitioner, a query without a partition is an error.
In Kafka, such a query reads a wrong partition of the store.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from assignor.types import HostInfo, TaskId, TopicPartition
from streams_runtime.common.states import GLOBAL_TASK, TaskState, TaskType
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.membership.member_events import PartitionHosts, Partitions
from streams_runtime.queries.problems import QueryCode, QueryProblem
from streams_runtime.state_stores.state_store import StateStore, StoreBuilder, keeps_offset


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """One open copy of a store. `lag`: the number of changelog records that the copy had not yet read at the last
    measurement; None if not known.

    `published`: the snapshot of a thread's copies that contains this copy. A snapshot becomes invalid when the store is
    closed or a newer snapshot is published. So after each read, check that the store is open and that this snapshot is
    still the newest one. Otherwise the read is invalid. If the store object is closed and opened again, it becomes a
    different copy.
    """

    task_id: TaskId
    type: TaskType
    state: TaskState
    store: StateStore
    lag: int | None
    published: object = field(compare=False, repr=False)

    @property
    def is_current(self) -> bool:
        """True for the running active copy."""
        return self.type is TaskType.ACTIVE and self.state is TaskState.RUNNING

    @property
    def reported_lag(self) -> int:
        """The lag that a response with values from this copy contains. It is 0 for the running active copy, and also
        for a copy whose lag is not known.
        """
        return 0 if self.is_current else self.lag or 0

    def isolation_of(self, wanted: IsolationLevel) -> IsolationLevel:
        """Returns the isolation level with which a query reads this copy. If the store does not keep its committed
        state apart, a query reads all of its changes, whatever level the query wants.
        """
        return wanted if keeps_offset(self.store) else IsolationLevel.READ_UNCOMMITTED

    def may_answer(self, max_lag: int | None) -> bool:
        """Returns True if this copy may answer. `max_lag`: the largest accepted lag; None to accept only the running
        active copy.
        """
        return self.is_current or (max_lag is not None and self.lag is not None and self.lag <= max_lag)


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """The data that are needed to compute the partition of a key in a store. `source_topics`: the source topics of the
    store's subtopology. Maps each full topic name to the number of partitions; 0 if the number is not known yet.

    `is_global`: True for a global store. Every instance has all its entries, as one partition with the number -1.
    `own_partitioner`: True if a sink of the topology writes to one of these topics with a custom partitioner.
    `builder`: the builder of the store; None in a client, because a client does not have the topology.
    """

    name: str
    subtopology: int
    source_topics: Mapping[str, int]
    own_partitioner: bool = False
    builder: StoreBuilder | None = None
    is_global: bool = False

    @property
    def partitions(self) -> int:
        """The store's number of partitions. A store has as many partitions as its source topic with the most
        partitions. The result is 0 if the number of partitions of a source topic is not known yet. A wrong number would
        lead to a wrong partition of a key.
        """
        counts = self.source_topics.values()
        return max(counts) if counts and all(counts) else 0


class Queryable(Protocol):
    """The methods of an instance that its query server calls. Any thread may call these methods."""

    @property
    def application_id(self) -> str: ...

    def isolation_level(self, chosen: IsolationLevel | None) -> IsolationLevel:
        """Returns the isolation level of a query. `chosen`: the level that the query gives; None if it gives none."""

    def store_locations(self) -> Mapping[str, StoreLocation]:
        """The location of each store of the topology, by the name of the store."""

    def store_copies(self, store: str) -> list[StoreCopy]:
        """Returns this instance's open copies of the store."""

    def generation_id(self) -> int:
        """Returns the generation of the newest assignment; 0 before the first assignment. If `host_maps` is called
        after this method, `host_maps` returns the maps of this generation or of a newer one.
        """

    def host_maps(self) -> PartitionHosts:
        """Returns the host maps of the newest assignment; empty before the first assignment."""

    def status_document(self) -> Mapping[str, object]:
        """Returns the threads, tasks, lags and restore progress, as a JSON document."""

    def metrics_text(self) -> bytes:
        """Returns the metrics in Prometheus' text format."""


@dataclass(frozen=True, slots=True)
class KeyQueryMetadata:
    """The partition of one key, and the hosts with the copies of this partition. `active`: the host of the active copy;
    None if not known. `standbys`: the hosts of standby copies, sorted by host and port.
    """

    partition: int
    active: HostInfo | None
    standbys: tuple[HostInfo, ...]


def key_query_metadata(
    location: StoreLocation, hosts: PartitionHosts, key: bytes, partition: int | None = None
) -> KeyQueryMetadata:
    """Finds the partition and the hosts of a key. Raises QueryProblem with the code STORE_NOT_READY if the source
    topics are not known yet. Raises QueryProblem with the code INVALID_REQUEST if a needed partition is missing, or if
    the partition is out of range.
    """
    if partition is None and location.own_partitioner:
        raise QueryProblem(
            QueryCode.INVALID_REQUEST,
            f"keys of {location.name!r} are placed by a partitioner of the application's own: say the partition",
        )
    if location.is_global:
        return partition_metadata(location, hosts, GLOBAL_TASK.partition)
    if location.partitions == 0:
        missing = ", ".join(topic for topic, count in location.source_topics.items() if not count)
        raise QueryProblem(QueryCode.STORE_NOT_READY, f"{location.name!r} waits for topics: {missing} not known yet")
    number = partition_of(key, location.partitions) if partition is None else partition
    if not 0 <= number < location.partitions:
        raise QueryProblem(
            QueryCode.INVALID_REQUEST, f"{location.name!r} has partitions 0 to {location.partitions - 1}, not {number}"
        )
    return partition_metadata(location, hosts, number)


def partition_metadata(location: StoreLocation, hosts: PartitionHosts, partition: int) -> KeyQueryMetadata:
    """Returns the hosts that have a copy of this partition of the store. All hosts have the same copy of a global
    store, so the first host counts as the host of the active copy.
    """
    if location.is_global:
        every = sorted({*hosts.active, *hosts.standby})
        return KeyQueryMetadata(partition, every[0] if every else None, tuple(every[1:]))
    wanted = {TopicPartition(topic, partition) for topic in location.source_topics}
    active = _with_any(hosts.active, wanted)
    return KeyQueryMetadata(partition, active[0] if active else None, _with_any(hosts.standby, wanted))


def _with_any(hosts: Mapping[HostInfo, frozenset[TopicPartition]], wanted: set[TopicPartition]) -> tuple[HostInfo, ...]:
    return tuple(sorted(host for host, partitions in hosts.items() if not wanted.isdisjoint(partitions)))


@dataclass(frozen=True, slots=True)
class ApplicationMetadata:
    """The metadata with which a client finds the hosts of a key. `generation_id`: the generation of the newest
    assignment; 0 before the first assignment. `hosts`: the host maps of this generation or of a newer one.
    """

    application_id: str
    generation_id: int
    stores: Mapping[str, StoreLocation]
    hosts: PartitionHosts


def metadata_of(instance: Queryable) -> ApplicationMetadata:
    """Returns the metadata of an instance."""
    # get the generation before the host maps, so that the host maps have this generation or a newer one
    generation_id = instance.generation_id()
    return ApplicationMetadata(instance.application_id, generation_id, instance.store_locations(), instance.host_maps())


def as_document(metadata: ApplicationMetadata) -> dict[str, object]:
    return {
        "application_id": metadata.application_id,
        "generation_id": metadata.generation_id,
        "stores": {
            name: {
                "subtopology": one.subtopology,
                "source_topics": dict(one.source_topics),
                "own_partitioner": one.own_partitioner,
                "global": one.is_global,
            }
            for name, one in metadata.stores.items()
        },
        "active": _hosts_document(metadata.hosts.active),
        "standby": _hosts_document(metadata.hosts.standby),
    }


def from_document(document: Mapping[str, Any]) -> ApplicationMetadata:
    """Reads the JSON document that `as_document` makes. Raises LookupError, TypeError, ValueError or AttributeError for
    any other document.
    """
    return ApplicationMetadata(
        str(document["application_id"]),
        int(document["generation_id"]),
        {
            name: StoreLocation(
                name,
                int(one["subtopology"]),
                dict(one["source_topics"]),
                bool(one["own_partitioner"]),
                is_global=bool(one.get("global")),  # an instance of an earlier release does not send it
            )
            for name, one in document["stores"].items()
        },
        PartitionHosts(_hosts(document["active"]), _hosts(document["standby"])),
    )


def _hosts_document(hosts: Mapping[HostInfo, Partitions]) -> dict[str, list[list[Any]]]:
    return {
        str(host): [[partition.topic, partition.partition] for partition in sorted(partitions)]
        for host, partitions in hosts.items()
    }


def _hosts(document: Mapping[str, Any]) -> dict[HostInfo, Partitions]:
    return {
        HostInfo(host, int(port)): frozenset(TopicPartition(str(topic), int(number)) for topic, number in partitions)
        for text, partitions in document.items()
        for host, _, port in [text.rpartition(":")]
    }
