"""On which racks the partitions of a group's topics are, as the leader finds out for a rack-aware strategy (KIP-925).

The cluster's metadata has the replicas of source topics. Topics whose replicas it does not have, among them repartition
topics, and changelogs are described. Topics that this rebalance creates are described once they exist. A described
topic is of no use when one of its partitions has no replica, or one on a broker without a rack.
Source: `RackAwareTaskAssignor.validateTopicPartitionRack`, `populateTopicsToDescribe`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assignor.cluster import Cluster, Racks, TopicMetadata


@dataclass(frozen=True, slots=True)
class TopicRacks:
    """`described`: what describing internal topics answers, those that this rebalance has created included. `fails`:
    topics cannot be described now.
    """

    cluster: Cluster
    described: Mapping[str, TopicMetadata]
    fails: bool = False

    def of(
        self, sources: Iterable[str], internal: Iterable[str], changelogs: Iterable[str]
    ) -> dict[str, tuple[Racks, ...]]:
        """Racks of each partition. `internal`: those of `sources` that are repartition topics. A topic that would have
        to be described, and cannot be, is absent.
        """
        repartition = frozenset(internal)
        racks: dict[str, tuple[Racks, ...]] = {}
        to_describe = dict.fromkeys(changelogs)
        for topic in dict.fromkeys(sources):
            metadata = None if topic in repartition else self.cluster.topics.get(topic)
            racks[topic] = () if metadata is None else self.cluster.racks(metadata)
            if not racks[topic] or not all(racks[topic]):
                to_describe[topic] = None
        for topic in to_describe:
            described = self._describe(topic)
            if described is None:
                racks.pop(topic, None)
            else:
                known = racks.get(topic, ())
                racks[topic] = tuple(
                    [each.union(*known[partition : partition + 1]) for partition, each in enumerate(described)]
                )
        return racks

    def _describe(self, topic: str) -> tuple[Racks, ...] | None:
        metadata = self.described.get(topic) or self.cluster.topics.get(topic)
        if self.fails or metadata is None:
            return None
        racks = self.cluster.racks(metadata)
        return racks if all(each and None not in each for each in racks) else None
