"""On which racks the partitions of a group's topics are, as the leader finds out for a rack-aware strategy (KIP-925).

The cluster's metadata has the replicas of source topics. Topics whose replicas it does not have, among them repartition
topics, and changelogs are described. Topics that this rebalance creates are described once they exist. A described
topic is of no use when one of its partitions has no replica, or one on a broker without a rack.
Source: `RackAwareTaskAssignor.validateTopicPartitionRack`, `populateTopicsToDescribe`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from assignor.cluster import Cluster, Racks, TopicMetadata

_UNKNOWN: Racks = frozenset()


@dataclass(frozen=True, slots=True)
class TopicRacks:
    """`described`: what describing internal topics answers, those that this rebalance has created included. `fails`:
    topics cannot be described now.
    """

    cluster: Cluster
    described: Mapping[str, TopicMetadata]
    fails: bool = False

    def of(
        self, sources: Iterable[str], internal: Mapping[str, int], changelogs: Iterable[str]
    ) -> dict[str, tuple[Racks, ...]]:
        """Racks of each partition. `internal`: partition counts of internal topics; those of `sources` among them have
        replaced what the metadata says of as many partitions. A topic that cannot be described, and has to be, is
        absent.
        """
        racks: dict[str, tuple[Racks, ...]] = {}
        to_describe = dict.fromkeys(changelogs)
        for topic in dict.fromkeys(sources):
            metadata = self.cluster.topics.get(topic)
            known = () if metadata is None else self.cluster.racks(metadata)
            replaced = internal.get(topic, 0)
            racks[topic] = (_UNKNOWN,) * replaced + known[replaced:]
            if not racks[topic] or not all(racks[topic]):
                to_describe[topic] = None
        for topic in to_describe:
            described = self._describe(topic)
            if described is None:
                racks.pop(topic, None)
            else:
                both = zip_longest(described, racks.get(topic, ()), fillvalue=_UNKNOWN)
                racks[topic] = tuple([each | known for each, known in both])
        return racks

    def _describe(self, topic: str) -> tuple[Racks, ...] | None:
        metadata = self.described.get(topic) or self.cluster.topics.get(topic)
        if self.fails or metadata is None:
            return None
        racks = self.cluster.racks(metadata)
        return racks if all(each and None not in each for each in racks) else None
