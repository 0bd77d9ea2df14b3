"""What the leader of a rebalance needs of a Kafka cluster: topics, racks, changelog ends, committed offsets.

`cluster_view` reads it. The coordinator finds `KafkaClusterProvider` by the entry point `kafka`. It calls from threads,
and one event loop in a thread of its own serves them all. A group's definition may name nothing but an address, so TLS
and SASL come from a properties file that ASSIGNOR_KAFKA_CLIENT_CONFIG names.

Rules: when topics cannot be listed, the rebalance fails. When offsets cannot be read, it goes on without lags, as
Kafka's leader does. End offsets are high watermarks. A source topic that serves as changelog ends at the application's
committed offset. Source: `InternalTopicManager`, `ClientUtils.fetchEndOffsets`, `fetchCommittedOffsets`,
`StreamsPartitionAssignor.populateClientStatesMap`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Iterable, Mapping
from typing import TypeVar

from assignor.clients.client_state import COMMITTED_OFFSETS_FAILURE, END_OFFSETS_FAILURE
from assignor.errors import InputError
from assignor.pipeline.snapshot import ClusterView, RebalanceSnapshot
from assignor.topology.cluster import Cluster, TopicMetadata
from assignor.topology.internal_topics import CreatedTopic
from assignor.types import TopicPartition
from kafka_client.errors import KafkaClientError
from kafka_client.event_loop import EventLoopThread
from kafka_client.settings.client_settings import ClientSettings, client_settings, read_properties_file

try:
    from kafka_client.admin.cluster_admin import ClusterAdmin
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "aiokafka":
        raise
    raise InputError("the provider 'kafka' needs aiokafka: install 'assignor[kafka]'") from None

T = TypeVar("T")

CLIENT_CONFIG = "ASSIGNOR_KAFKA_CLIENT_CONFIG"

LONGEST_WAIT_FOR_OFFSETS_S = 15.0
"""Shorter than the time that the coordinator waits for a cluster. So when offsets cannot be read, the coordinator
places tasks without lags, and does not postpone the rebalance.
"""

_logger = logging.getLogger(__name__)


def kafka_cluster_provider(bootstrap_servers: str) -> KafkaClusterProvider:
    """`bootstrap_servers`: `host:port,...`, or with `;` between them as in the coordinator's setting.

    Connects with its first call. Raises InputError.
    """
    servers = bootstrap_servers.removeprefix("kafka:").replace(";", ",")
    path = os.environ.get(CLIENT_CONFIG)
    properties = read_properties_file(path) if path else {}
    return KafkaClusterProvider(client_settings(servers, properties))


class KafkaClusterProvider:
    """Safe to call from several threads. Calls end within `default.api.timeout.ms`."""

    def __init__(self, settings: ClientSettings) -> None:
        self._loop = EventLoopThread("kafka-cluster-provider")
        self._admin = ClusterAdmin(settings)

    def view(self, group_id: str, definition: RebalanceSnapshot) -> ClusterView:
        """`group_id` is the coordinator's; offsets are committed under the application id. Raises KafkaClientError."""
        return self._loop.run(cluster_view(self._admin, definition, offsets_timeout_s=LONGEST_WAIT_FOR_OFFSETS_S))

    def topics(self, definition: RebalanceSnapshot) -> Mapping[str, int]:
        """Partitions of the topology's existing topics, by one request. Raises KafkaClientError."""
        names = definition.topology.source_topics | definition.topology.internal_topics
        found = self._loop.run(self._admin.topics(names))
        return {name: topic.partitions for name, topic in found.items()}

    def create_topics(self, topics: Mapping[str, CreatedTopic]) -> None:
        """Raises KafkaClientError; TopicHasOtherPartitions when one exists with another number of partitions."""
        self._loop.run(self._admin.create_topics(topics))

    def close(self) -> None:
        """Safe to call again."""
        try:
            self._loop.run(self._admin.close())
        except RuntimeError:
            return  # closed already
        self._loop.close()


async def cluster_view(admin: ClusterAdmin, definition: RebalanceSnapshot, *, offsets_timeout_s: float) -> ClusterView:
    """Reads topology and application id of `definition`.

    Raises KafkaUnavailable, KafkaRefused when topics cannot be listed. Failed look-ups of offsets are in the view's
    `failures`.
    """
    topology = definition.topology
    internal = topology.internal_topics
    cluster = await admin.cluster(topology.source_topics | internal)
    known = cluster.topics
    ends, committed = await asyncio.gather(
        _or_none(_end_offsets(admin, _partitions(known, topology.changelog_topics)), offsets_timeout_s),
        _or_none(
            _committed_offsets(
                admin, _partitions(known, topology.source_topics_as_changelogs), definition.application_id
            ),
            offsets_timeout_s,
        ),
    )
    failed = {END_OFFSETS_FAILURE: ends is None, COMMITTED_OFFSETS_FAILURE: committed is None}
    return ClusterView(
        Cluster(cluster.brokers, {name: topic for name, topic in known.items() if name not in internal}),
        {name: topic for name, topic in known.items() if name in internal},
        ends,
        committed or {},
        frozenset(name for name, has_failed in failed.items() if has_failed),
    )


async def _or_none(look_up: Awaitable[T], timeout_s: float) -> T | None:
    try:
        async with asyncio.timeout(timeout_s):
            return await look_up
    except (KafkaClientError, TimeoutError) as error:
        reason = str(error) or f"no answer within {timeout_s:g} s"
        _logger.warning("a rebalance is placed without lags: %s", reason)
        return None


async def _end_offsets(
    admin: ClusterAdmin, partitions: Mapping[str, list[TopicPartition]]
) -> dict[str, tuple[int, ...]]:
    offsets = await admin.end_offsets([each for of_topic in partitions.values() for each in of_topic])
    return {topic: tuple(offsets[each] for each in of_topic) for topic, of_topic in partitions.items()}


async def _committed_offsets(
    admin: ClusterAdmin, partitions: Mapping[str, list[TopicPartition]], group: str
) -> dict[str, tuple[int | None, ...]]:
    committed = await admin.committed_offsets(group, [each for of_topic in partitions.values() for each in of_topic])
    return {
        topic: tuple(committed[each].offset if each in committed else None for each in of_topic)
        for topic, of_topic in partitions.items()
    }


def _partitions(known: Mapping[str, TopicMetadata], topics: Iterable[str]) -> dict[str, list[TopicPartition]]:
    return {
        topic: [TopicPartition(topic, partition) for partition in range(known[topic].partitions)]
        for topic in sorted(topics)
        if topic in known
    }
