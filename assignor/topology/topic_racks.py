"""Finds the racks of the partitions of a group's topics. A rack-aware strategy needs the racks of partitions (KIP-925).

The cluster's metadata has the replicas of source topics. The leader asks the brokers for descriptions of all other
topics, such as changelogs and repartition topics. If this rebalance creates a topic, the leader asks for its
description after the creation. The description of a topic is used only if every partition has replicas, and the broker
of each replica has a rack. Source: `RackAwareTaskAssignor.validateTopicPartitionRack`, `populateTopicsToDescribe`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from assignor.topology.cluster import Cluster, Racks, TopicMetadata

_UNKNOWN: Racks = frozenset()


@dataclass(frozen=True, slots=True)
class TopicRacks:
    """Finds the racks of topics. `described`: the descriptions of internal topics, including topics that this rebalance
    has created. `fails`: True if the call to describe topics failed.
    """

    cluster: Cluster
    described: Mapping[str, TopicMetadata]
    fails: bool = False

    def of(
        self, sources: Iterable[str], internal: Mapping[str, int], changelogs: Iterable[str]
    ) -> dict[str, tuple[Racks, ...]]:
        """Returns the racks of each partition, by topic. `internal`: the partition count of each internal topic. If a
        source topic is internal with n partitions, the metadata of its first n partitions are ignored. If a topic has
        to be described and has no usable description, the result does not contain the topic.
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

    def for_public_interface(
        self, sources: Iterable[str], internal: Iterable[str], changelogs: Iterable[str]
    ) -> dict[str, tuple[Racks, ...]]:
        """Returns the racks of each partition, by topic, for assignors of the public interface. Assignors of the public
        interface also get partitions for which the racks of some replicas are unknown.

        For a source topic that serves as changelog, `of` uses the description. `for_public_interface` does not use the
        description if the metadata has the racks.
        Source: `RackUtils.annotateTopicPartitionsWithRackInfo`.
        """
        repartition = frozenset(internal)
        racks: dict[str, tuple[Racks, ...]] = {}
        known = dict.fromkeys(sources)
        for topic in {**known, **dict.fromkeys(changelogs)}:
            metadata = self.cluster.topics.get(topic) if topic in known and topic not in repartition else None
            found = None if metadata is None else self.cluster.racks(metadata)
            if found is None or not all(found):
                metadata = self._described(topic)
                found = found if metadata is None else self.cluster.racks(metadata)
            if found is not None:
                racks[topic] = found
        return racks

    def _describe(self, topic: str) -> tuple[Racks, ...] | None:
        metadata = self._described(topic)
        if metadata is None:
            return None
        racks = self.cluster.racks(metadata)
        return racks if all(each and None not in each for each in racks) else None

    def _described(self, topic: str) -> TopicMetadata | None:
        return None if self.fails else self.described.get(topic) or self.cluster.topics.get(topic)
