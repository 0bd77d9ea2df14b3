"""Reads the data about a Kafka cluster that a rebalance needs: topics, racks, end offsets of changelogs, committed
offsets.

The coordinator finds `kafka_cluster_provider` by the entry point `kafka`. Several threads of the coordinator call the
`KafkaClusterProvider`. The `KafkaClusterProvider` makes all requests in one event loop, which has its own thread. The
definition of a group can contain the address of a cluster. The definition cannot contain settings of TLS and SASL. So
the settings of TLS and SASL come from the properties file that ASSIGNOR_KAFKA_CLIENT_CONFIG names.

Rules: if topics cannot be listed, the rebalance fails. If offsets cannot be read, tasks are placed without lags.
Kafka's own leader of a Kafka Streams group also continues without lags. The end offset of a changelog is its high
watermark. If a source topic serves as a changelog, the application's committed offset is used as the end offset.
Source: `InternalTopicManager`, `ClientUtils.fetchEndOffsets`, `fetchCommittedOffsets`,
`StreamsPartitionAssignor.populateClientStatesMap`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Iterable, Mapping

from assignor.clients.client_state import COMMITTED_OFFSETS_FAILURE, END_OFFSETS_FAILURE
from assignor.errors import InputError
from assignor.pipeline.snapshot import ClusterView, RebalanceSnapshot
from assignor.topology.cluster import Cluster, by_topic, partitions_of
from assignor.topology.internal_topics import CreatedTopic
from kafka_client.errors import KafkaClientError
from kafka_client.event_loop import EventLoopThread, T
from kafka_client.settings.client_settings import ClientSettings, client_settings, read_properties_file

try:
    from kafka_client.admin.cluster_admin import ClusterAdmin
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "aiokafka":
        raise
    raise InputError("the provider 'kafka' needs aiokafka: install 'assignor[kafka]'") from None


CLIENT_CONFIG = "ASSIGNOR_KAFKA_CLIENT_CONFIG"

LONGEST_WAIT_FOR_OFFSETS_S = 15.0
"""The time limit for reading offsets. The coordinator waits longer than this limit for the data about a cluster. So if
offsets cannot be read in time, the coordinator does not postpone the rebalance, and places tasks without lags.
"""

_logger = logging.getLogger(__name__)


def kafka_cluster_provider(bootstrap_servers: str) -> KafkaClusterProvider:
    """Makes the provider of a cluster. `bootstrap_servers`: a list of `host:port`, separated by `,` or `;`. The
    coordinator's setting uses `;`. The provider connects when it is first called. Raises InputError.
    """
    servers = bootstrap_servers.removeprefix("kafka:").replace(";", ",")
    path = os.environ.get(CLIENT_CONFIG)
    properties = read_properties_file(path) if path else {}
    return KafkaClusterProvider(client_settings(servers, properties))


class KafkaClusterProvider:
    """Reads and creates topics for the coordinator. Several threads may call a provider. Each request ends within
    `default.api.timeout.ms`.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._loop = EventLoopThread("kafka-cluster-provider")
        self._admin = ClusterAdmin(settings)

    def view(self, group_id: str, definition: RebalanceSnapshot) -> ClusterView:
        """Returns the state of the cluster for a rebalance. Kafka stores committed offsets under the application id,
        which is in `definition`. `group_id`: the group's id at the coordinator; Kafka does not know this id. Raises
        KafkaClientError.
        """
        return self._loop.run(cluster_view(self._admin, definition, offsets_timeout_s=LONGEST_WAIT_FOR_OFFSETS_S))

    def topics(self, definition: RebalanceSnapshot) -> Mapping[str, int]:
        """Maps each existing topic of the topology to its number of partitions. Raises KafkaClientError."""
        return self._counts(definition.topology.source_topics | definition.topology.internal_topics)

    def all_topics(self) -> Mapping[str, int]:
        """Maps each topic that the coordinator may see to its number of partitions. Raises KafkaClientError."""
        return self._counts(None)

    def _counts(self, names: Iterable[str] | None) -> Mapping[str, int]:
        found = self._loop.run(self._admin.topics(names))
        return {name: topic.partitions for name, topic in found.items()}

    def create_topics(self, topics: Mapping[str, CreatedTopic]) -> None:
        """Creates topics. Raises TopicHasOtherPartitions if a topic exists with another number of partitions. Raises
        another KafkaClientError if a topic cannot be created.
        """
        self._loop.run(self._admin.create_topics(topics))

    def close(self) -> None:
        """Closes the connections and ends the thread. `close` may be called more than once."""
        try:
            self._loop.run(self._admin.close())
        except RuntimeError:
            return  # closed already
        self._loop.close()


async def cluster_view(admin: ClusterAdmin, definition: RebalanceSnapshot, *, offsets_timeout_s: float) -> ClusterView:
    """Reads the data about the cluster that a rebalance of this group needs. The topology and the application id come
    from `definition`.

    Raises KafkaUnavailable or KafkaRefused if topics cannot be listed. The field `failures` of the result names the
    kinds of offsets that could not be read.
    """
    topology = definition.topology
    internal = topology.internal_topics
    cluster = await admin.cluster(topology.source_topics | internal)
    known = cluster.topics
    changelogs = partitions_of(known, topology.changelog_topics)
    tables = partitions_of(known, topology.source_topics_as_changelogs)
    ends, committed = await asyncio.gather(
        _or_none(admin.end_offsets(changelogs), offsets_timeout_s),
        _or_none(admin.committed_offsets(definition.application_id, tables), offsets_timeout_s),
    )
    failed = {END_OFFSETS_FAILURE: ends is None, COMMITTED_OFFSETS_FAILURE: committed is None}
    return ClusterView(
        Cluster(cluster.brokers, {name: topic for name, topic in known.items() if name not in internal}),
        {name: topic for name, topic in known.items() if name in internal},
        None if ends is None else by_topic(changelogs, ends.__getitem__),
        {} if committed is None else by_topic(tables, {each: at.offset for each, at in committed.items()}.get),
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
