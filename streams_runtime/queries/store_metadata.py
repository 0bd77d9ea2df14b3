"""The locations of stores: the copies on this instance, the hosts of a key, and the metadata document in JSON.

An instance gives its open copies of stores, the group's host maps and its status (`Queryable`). From the document of
`/v1/metadata`, a client computes for each key the same partition and hosts as the instance itself.

Rules: the partition is Kafka's murmur2 of the key over the partitions of the store's subtopology, if the input was
written with the default partitioner; otherwise the caller has to give the partition. A host has partition n of a store
if the host maps give the host partition n of any source topic.

Source: `StreamsMetadata`, `StreamsMetadataState.keyQueryMetadataForKey`, `QueryableStoreProvider`; KIP-535. Differs
from Kafka: when the topology itself writes the input with another partitioner, a key without a partition is an error;
Kafka would look into the wrong copy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from assignor.types import HostInfo, TaskId, TopicPartition
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.membership.member_events import PartitionHosts, Partitions
from streams_runtime.queries.problems import QueryCode, QueryProblem
from streams_runtime.state_stores.state_store import StateStore, StoreBuilder


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """One open copy of a store. `lag`: the changelog records by which the copy was behind when last measured; None if
    not known.

    `published`: the snapshot from which this copy was taken. A snapshot is current only until the store is closed or a
    newer snapshot is published. So if a reader finds the same snapshot again after its read, and the store is open,
    the store was not closed and the copy did not change meanwhile. A store that was opened again counts as another
    copy, although it is the same object.
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
        """The lag to report with an answer of this copy: 0 for the running active copy, or if the lag is not known."""
        return 0 if self.is_current else self.lag or 0

    def may_answer(self, max_lag: int | None) -> bool:
        """True if this copy may answer. `max_lag`: the greatest accepted lag; None: only the running active copy may
        answer.
        """
        return self.is_current or (max_lag is not None and self.lag is not None and self.lag <= max_lag)


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """The data that determine the partition of a key in a store. `source_topics`: by full name, the number of
    partitions of each source topic of the store's subtopology; 0 while not known.

    `own_partitioner`: True if a sink of the topology writes to one of these topics with a custom partitioner.
    `builder`: makes the store; None in a client, which does not have the topology.
    """

    name: str
    subtopology: int
    source_topics: Mapping[str, int]
    own_partitioner: bool = False
    builder: StoreBuilder | None = None

    @property
    def partitions(self) -> int:
        """The number of partitions of the store; 0 while a source topic is not known, because the count of the other
        topics alone could give a wrong partition for a key.
        """
        counts = self.source_topics.values()
        return max(counts) if counts and all(counts) else 0


class Queryable(Protocol):
    """The calls of an instance that its query server needs. Any thread may call a `Queryable`."""

    @property
    def application_id(self) -> str: ...

    def store_locations(self) -> Mapping[str, StoreLocation]:
        """Every store of the topology, by name."""

    def store_copies(self, store: str) -> list[StoreCopy]:
        """The copies of this store that are open here now."""

    def generation_id(self) -> int:
        """The generation of the newest assignment; 0 before the first. A later call of `host_maps` returns the maps of
        this generation or a newer one.
        """

    def host_maps(self) -> PartitionHosts:
        """The host maps of the newest assignment; empty before the first assignment."""

    def status_document(self) -> Mapping[str, object]:
        """The threads, tasks, lags and restore progress, as a JSON document."""

    def metrics_text(self) -> bytes:
        """The metrics in Prometheus' text format."""


@dataclass(frozen=True, slots=True)
class KeyQueryMetadata:
    """The hosts that have one key. `active`: None if the host is not known. `standbys`: in order of host and port."""

    partition: int
    active: HostInfo | None
    standbys: tuple[HostInfo, ...]


def key_query_metadata(
    location: StoreLocation, hosts: PartitionHosts, key: bytes, partition: int | None = None
) -> KeyQueryMetadata:
    """Finds the partition and the hosts of a key. Raises QueryProblem: STORE_NOT_READY while topics are not known,
    INVALID_REQUEST if the caller has to give the partition, or for a partition out of range.
    """
    if partition is None and location.own_partitioner:
        raise QueryProblem(
            QueryCode.INVALID_REQUEST,
            f"keys of {location.name!r} are placed by a partitioner of the application's own: say the partition",
        )
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
    """The hosts that have this partition of the store."""
    wanted = {TopicPartition(topic, partition) for topic in location.source_topics}
    active = _with_any(hosts.active, wanted)
    return KeyQueryMetadata(partition, active[0] if active else None, _with_any(hosts.standby, wanted))


def _with_any(hosts: Mapping[HostInfo, frozenset[TopicPartition]], wanted: set[TopicPartition]) -> tuple[HostInfo, ...]:
    return tuple(sorted(host for host, partitions in hosts.items() if not wanted.isdisjoint(partitions)))


@dataclass(frozen=True, slots=True)
class ApplicationMetadata:
    """The metadata that a client needs to find keys. `generation_id`: 0 if nothing was assigned yet. `hosts`: the host
    maps of this generation or a newer generation.
    """

    application_id: str
    generation_id: int
    stores: Mapping[str, StoreLocation]
    hosts: PartitionHosts


def metadata_of(instance: Queryable) -> ApplicationMetadata:
    """The metadata that an instance has."""
    generation_id = instance.generation_id()  # the generation is read first, so that the host maps are never older
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
            }
            for name, one in metadata.stores.items()
        },
        "active": _hosts_document(metadata.hosts.active),
        "standby": _hosts_document(metadata.hosts.standby),
    }


def from_document(document: Mapping[str, Any]) -> ApplicationMetadata:
    """Reads the document of `as_document`. Raises LookupError, TypeError, ValueError or AttributeError for another
    document.
    """
    return ApplicationMetadata(
        str(document["application_id"]),
        int(document["generation_id"]),
        {
            name: StoreLocation(name, int(one["subtopology"]), dict(one["source_topics"]), bool(one["own_partitioner"]))
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
