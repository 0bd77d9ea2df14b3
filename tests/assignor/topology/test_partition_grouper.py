"""Partitions into tasks."""

from __future__ import annotations

import pytest

from assignor.cluster import Cluster, TopicMetadata
from assignor.errors import InputError, UncheckedError
from assignor.topology.group_topology import GroupTopology, Subtopology
from assignor.topology.partition_grouper import MAX_GROUP_PARTITIONS, partition_groups
from assignor.types import TaskId, TopicPartition


def _cluster(**counts: int) -> Cluster:
    return Cluster((), {topic: TopicMetadata(count) for topic, count in counts.items()})


def test_should_have_as_many_tasks_as_the_largest_topic_has_partitions() -> None:
    topology = GroupTopology((Subtopology(0, ("b", "a")), Subtopology(3, ("c",))))

    assert partition_groups(topology, _cluster(a=1, b=2, c=1)) == {
        TaskId(0, 0): (TopicPartition("a", 0), TopicPartition("b", 0)),
        TaskId(0, 1): (TopicPartition("b", 1),),
        TaskId(3, 0): (TopicPartition("c", 0),),
    }


def test_should_walk_tasks_as_javas_hash_map_does() -> None:
    """Buckets of 64: the code of 0_p is 31 * (961 + p), so tasks do not come in the order of their partitions."""
    tasks = list(partition_groups(GroupTopology((Subtopology(0, ("a",)),)), _cluster(a=34)))

    assert [task.partition for task in tasks] == sorted(range(34), key=lambda p: _bucket(31 * (31 * 31 + p), 64))


def test_should_put_every_partition_into_one_task_when_there_are_many() -> None:
    topology = GroupTopology((Subtopology(0, ("a", "b")), Subtopology(1, ("c",))))

    groups = partition_groups(topology, _cluster(a=3_000, b=2_000, c=1_000))

    everything = [partition for partitions in groups.values() for partition in partitions]
    assert len(everything) == len(set(everything)) == 6_000
    assert len(groups) == 4_000


def test_should_fail_when_a_topic_is_not_in_the_cluster() -> None:
    with pytest.raises(UncheckedError, match="Empty partitions for topic b"):
        partition_groups(GroupTopology((Subtopology(0, ("a", "b")),)), _cluster(a=1))


def test_should_refuse_a_group_beyond_all_measure_before_it_takes_memory() -> None:
    topology = GroupTopology(tuple(Subtopology(number, ("a",)) for number in range(3_000)))

    with pytest.raises(InputError, match=r"^input\.topology: the group would have 3000000000 source partitions"):
        partition_groups(topology, _cluster(a=MAX_GROUP_PARTITIONS))


def _bucket(code: int, capacity: int) -> int:
    return (code ^ code >> 16) & (capacity - 1)
