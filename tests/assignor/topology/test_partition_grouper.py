"""Partitions into tasks."""

import pytest

from assignor.errors import InputError, UncheckedError
from assignor.topology.cluster import Cluster, TopicMetadata
from assignor.topology.group_topology import GroupTopology, Subtopology
from assignor.topology.partition_grouper import MAX_GROUP_PARTITIONS, counted_sources


def _cluster(**counts: int) -> Cluster:
    return Cluster((), {topic: TopicMetadata(count) for topic, count in counts.items()})


def test_should_fail_when_a_topic_is_not_in_the_cluster() -> None:
    with pytest.raises(UncheckedError, match="Empty partitions for topic b"):
        counted_sources(GroupTopology((Subtopology(0, ("a", "b")),)), _cluster(a=1))


def test_should_refuse_a_group_beyond_all_measure_before_it_takes_memory() -> None:
    topology = GroupTopology(tuple(Subtopology(number, ("a",)) for number in range(3_000)))

    with pytest.raises(InputError, match=r"^input\.topology: the group would have 3000000000 source partitions"):
        counted_sources(topology, _cluster(a=MAX_GROUP_PARTITIONS))
