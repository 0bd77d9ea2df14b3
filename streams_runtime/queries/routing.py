"""Finds the instances that have a key: from the key's bytes to a partition, from the partition to hosts.

Rules: the partition is Kafka's murmur2 of the key over the partitions of the store's subtopology, if the input was
written with the default partitioner; otherwise the caller has to give the partition. A host has a partition of a store
when the host maps give it the partition of that number of any source topic.
Source: `StreamsMetadataState.keyQueryMetadataForKey`. Differs from Kafka: when the topology itself writes the input
with another partitioner, a key without a partition is an error; Kafka would look into the wrong copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assignor.types import HostInfo, TopicPartition
from streams_runtime.membership.task_holder import PartitionHosts
from streams_runtime.partitioner import partition_of
from streams_runtime.queries.copies import StoreLocation
from streams_runtime.queries.problems import QueryCode, QueryProblem


@dataclass(frozen=True, slots=True)
class KeyQueryMetadata:
    """The hosts that have one key. `active` None: none is known. `standbys`: in order of host and port."""

    partition: int
    active: HostInfo | None
    standbys: tuple[HostInfo, ...]


def key_query_metadata(
    location: StoreLocation, hosts: PartitionHosts, key: bytes, partition: int | None = None
) -> KeyQueryMetadata:
    """Raises QueryProblem: STORE_NOT_READY while topics are not known, INVALID_REQUEST for a partition out of range."""
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
            QueryCode.INVALID_REQUEST,
            f"{location.name!r} has partitions 0 to {location.partitions - 1}, not {number}",
        )
    return partition_metadata(location, hosts, number)


def partition_metadata(location: StoreLocation, hosts: PartitionHosts, partition: int) -> KeyQueryMetadata:
    """The hosts that have this partition of the store."""
    wanted = {TopicPartition(topic, partition) for topic in location.source_topics}
    active = _with_any(hosts.active, wanted)
    return KeyQueryMetadata(partition, active[0] if active else None, _with_any(hosts.standby, wanted))


def _with_any(hosts: Mapping[HostInfo, frozenset[TopicPartition]], wanted: set[TopicPartition]) -> tuple[HostInfo, ...]:
    return tuple(sorted(host for host, partitions in hosts.items() if not wanted.isdisjoint(partitions)))
