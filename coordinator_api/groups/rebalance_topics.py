"""Which topics a round worked with, and how it left them: what a later look at the cluster is compared with."""

from __future__ import annotations

from collections.abc import Mapping

from assignor.snapshot import RebalanceResult, RebalanceSnapshot
from assignor.topology.group_topology import GroupTopology


def topic_counts(topology: GroupTopology, there: Mapping[str, int]) -> dict[str, int]:
    """The partitions of every topic that the topology reads or keeps, 0 for one that is not `there`."""
    names = {topic for each in topology.subtopologies for topic in each.source_topics}
    names |= {topic.name for each in topology.subtopologies for topic in each.repartition_source_topics}
    stores = [store for each in topology.subtopologies for store in each.stores]
    names |= {store.changelog_topic for store in stores if store.changelog_topic is not None}
    return {topic: there.get(topic, 0) for topic in sorted(names)}


def topics_after(snapshot: RebalanceSnapshot, result: RebalanceResult) -> dict[str, int]:
    """As the round left them: those it saw, and those that were created for it."""
    known = {**snapshot.cluster.topics, **snapshot.existing_internal_topics}
    there = {topic: metadata.partitions for topic, metadata in known.items()}
    created = {topic: one.partitions for topic, one in result.created_topics.items()}
    return topic_counts(snapshot.topology, {**there, **created})
