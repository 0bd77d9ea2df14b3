"""Which host has which partitions, as JSON: `/v1/metadata` of an instance writes it, and a client reads it.

Rule: from this document a client can compute, for every key, the partition and the hosts that the instance itself would
name. Source: `StreamsMetadata`, `KafkaStreams.metadataForAllStreamsClients`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assignor.types import HostInfo, TopicPartition
from streams_runtime.membership.task_holder import PartitionHosts, Partitions
from streams_runtime.queries.copies import Queryable, StoreLocation


@dataclass(frozen=True, slots=True)
class ApplicationMetadata:
    """`generation_id` 0: nothing was assigned yet. `hosts`: of that generation or a newer one."""

    application_id: str
    generation_id: int
    stores: Mapping[str, StoreLocation]
    hosts: PartitionHosts


def metadata_of(instance: Queryable) -> ApplicationMetadata:
    """The metadata that an instance has."""
    generation_id = instance.generation_id()  # first: hosts may be newer, never older
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
    """Raises LookupError, TypeError, ValueError or AttributeError for a document of another form."""
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
        _host(text): frozenset(TopicPartition(str(topic), int(partition)) for topic, partition in partitions)
        for text, partitions in document.items()
    }


def _host(text: str) -> HostInfo:
    host, _, port = text.rpartition(":")
    return HostInfo(host, int(port))
