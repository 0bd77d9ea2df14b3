"""Reads the view of a cluster that the leader of a rebalance needs: topics, racks, changelog ends, committed offsets.

Rules: when topics cannot be listed, the rebalance fails. When offsets cannot be read, it goes on without lags, as
Kafka's leader does. End offsets are high watermarks. A source topic that serves as changelog ends at the application's
committed offset. Source: `InternalTopicManager`, `ClientUtils.fetchEndOffsets`, `fetchCommittedOffsets`,
`StreamsPartitionAssignor.populateClientStatesMap`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping
from typing import TypeVar

from assignor.clients.client_state import COMMITTED_OFFSETS_FAILURE, END_OFFSETS_FAILURE
from assignor.cluster import Cluster, TopicMetadata
from assignor.snapshot import ClusterView, RebalanceSnapshot
from assignor.types import TopicPartition
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.errors import KafkaClientError

T = TypeVar("T")

_logger = logging.getLogger(__name__)


async def cluster_view(
    admin: ClusterAdmin, definition: RebalanceSnapshot, *, offsets_timeout_s: float | None = None
) -> ClusterView:
    """Reads topology and application id of `definition`. `offsets_timeout_s`: None for the client's own time-out.

    Raises KafkaUnavailable, KafkaRefused when topics cannot be listed. Failed look-ups of offsets are in the view's
    `failures`.
    """
    topology = definition.topology
    internal = topology.internal_topics
    as_changelogs = topology.source_topics_as_changelogs
    cluster = await admin.cluster(topology.source_topics | internal)
    ends, committed = await asyncio.gather(
        _or_none(_end_offsets(admin, cluster.topics, topology.changelog_topics), offsets_timeout_s),
        _or_none(
            _committed_offsets(admin, cluster.topics, as_changelogs, definition.application_id), offsets_timeout_s
        ),
    )
    failures = {END_OFFSETS_FAILURE} if ends is None else set()
    return ClusterView(
        Cluster(cluster.brokers, {name: topic for name, topic in cluster.topics.items() if name not in internal}),
        {name: topic for name, topic in cluster.topics.items() if name in internal},
        ends,
        committed or {},
        frozenset(failures | ({COMMITTED_OFFSETS_FAILURE} if committed is None else set())),
    )


async def _or_none(look_up: Awaitable[T], timeout_s: float | None) -> T | None:
    try:
        async with asyncio.timeout(timeout_s):
            return await look_up
    except (KafkaClientError, TimeoutError) as error:
        reason = str(error) or f"no answer within {timeout_s:g} s"
        _logger.warning("a rebalance is placed without lags: %s", reason)
        return None


async def _end_offsets(
    admin: ClusterAdmin, known: Mapping[str, TopicMetadata], topics: Iterable[str]
) -> dict[str, tuple[int, ...]]:
    partitions = _partitions(known, topics)
    offsets = await admin.end_offsets([each for of_topic in partitions.values() for each in of_topic])
    return {topic: tuple(offsets[each] for each in of_topic) for topic, of_topic in partitions.items()}


async def _committed_offsets(
    admin: ClusterAdmin, known: Mapping[str, TopicMetadata], topics: Iterable[str], application_id: str
) -> dict[str, tuple[int | None, ...]]:
    partitions = _partitions(known, topics)
    committed = await admin.committed_offsets(
        application_id, [each for of_topic in partitions.values() for each in of_topic]
    )
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
