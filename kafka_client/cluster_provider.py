"""A Kafka cluster for groups of the coordinator, which finds this class by the entry point `kafka`.

The coordinator calls from threads, and one event loop in a thread of its own serves them all. A group's definition may
name nothing but an address, so TLS and SASL come from a properties file that ASSIGNOR_KAFKA_CLIENT_CONFIG names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from assignor.errors import InputError
from assignor.snapshot import ClusterView, RebalanceSnapshot
from assignor.topology.internal_topics import CreatedTopic
from kafka_client.event_loop import EventLoopThread
from kafka_client.settings.client_settings import ClientSettings, client_settings, read_properties_file

try:
    from kafka_client.admin.cluster_admin import ClusterAdmin
    from kafka_client.cluster_view import cluster_view
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "aiokafka":
        raise
    raise InputError("the provider 'kafka' needs aiokafka: install 'assignor[kafka]'") from None

CLIENT_CONFIG = "ASSIGNOR_KAFKA_CLIENT_CONFIG"

LONGEST_WAIT_FOR_OFFSETS_S = 15.0
"""Shorter than the time that the coordinator waits for a cluster. So when offsets cannot be read, the coordinator
places tasks without lags, and does not postpone the rebalance.
"""


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
