"""Reads topics, changelog end offsets and committed offsets from a log. The leader of a group needs these data for a
rebalance.

The coordinator finds `log_cluster_provider` through a package entry point. The coordinator calls `log_cluster_provider`
for groups whose definition names a provider. If end offsets cannot be read, the end offsets of the view are None.
If the end offsets are None, the leader assigns the tasks of this rebalance without using lags, as Kafka's leader does.
If topics cannot be listed, `view` raises an error, and the coordinator tries the rebalance again later. Between
rebalances the coordinator reads only the topics.
Source: `InternalTopicManager`, `ClientUtils.fetchEndOffsets`, `fetchCommittedOffsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assignor.pipeline.snapshot import ClusterView, RebalanceSnapshot
from assignor.topology.cluster import Broker, Cluster, TopicMetadata, by_topic, partitions_of
from assignor.topology.internal_topics import CreatedTopic
from streams_runtime.logs.base import Log, NewTopic, TopicDescription
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.logs.opening import open_log

_ONLY_BROKER = 1


def log_cluster_provider(bootstrap_servers: str) -> LogClusterProvider:
    """Raises InputError for an address of an unknown form, and LogError if the log cannot be opened."""
    return LogClusterProvider(open_log(bootstrap_servers))


class LogClusterProvider:
    """Reads the topics and offsets of one log for the coordinator. Several threads may call the provider at the same
    time.
    """

    def __init__(self, log: Log) -> None:
        self._log = log

    def view(self, group_id: str, definition: RebalanceSnapshot) -> ClusterView:
        """Returns the topics and offsets for a rebalance. `group_id`: the coordinator's id of the group. Committed
        offsets are read under the application id, and not under `group_id`.

        Raises LogError, or LogTimeout if a later call may succeed.
        """
        known = self._log.topics()
        topology = definition.topology
        sources = topology.source_topics - topology.internal_topics
        cluster = Cluster((Broker(_ONLY_BROKER),), _metadata(known, sources))
        existing = _metadata(known, topology.internal_topics)
        changelogs = partitions_of(existing, topology.changelog_topics)
        tables = partitions_of({**cluster.topics, **existing}, topology.source_topics_as_changelogs)
        try:
            ends = self._log.end_offsets(changelogs)
            committed = self._log.committed_offsets(definition.application_id, tables)
        except LogTimeout:
            return ClusterView(cluster, existing, changelog_end_offsets=None)
        return ClusterView(
            cluster,
            existing,
            by_topic(changelogs, ends.__getitem__),
            by_topic(tables, {each: at.offset for each, at in committed.items()}.get),
        )

    def topics(self, definition: RebalanceSnapshot) -> dict[str, int]:
        """Returns the partition counts of the topology's topics, without missing topics. Raises the errors of
        `view`.
        """
        known = self._log.topics()
        topology = definition.topology
        wanted = topology.internal_topics | topology.source_topics
        return {topic: known[topic].partitions for topic in sorted(wanted & known.keys())}

    def all_topics(self) -> dict[str, int]:
        """Returns the partition counts of all topics of the log. Raises the errors of `view`."""
        return {name: topic.partitions for name, topic in self._log.topics().items()}

    def create_topics(self, topics: Mapping[str, CreatedTopic]) -> None:
        """Raises LogTimeout. Raises TopicExists if a topic exists with a different number of partitions."""
        self._log.create_topics(
            NewTopic(name, topic.partitions, topic.configs, topic.replication_factor) for name, topic in topics.items()
        )

    def close(self) -> None:
        self._log.close()


def _metadata(known: Mapping[str, TopicDescription], topics: Iterable[str]) -> dict[str, TopicMetadata]:
    return {
        topic: TopicMetadata(
            known[topic].partitions,
            replicas=((_ONLY_BROKER,),) * known[topic].partitions,
            leaders=(_ONLY_BROKER,) * known[topic].partitions,
        )
        for topic in sorted(topics)
        if topic in known
    }
