"""Steps 0 to 2: what a rebalance knows of its tasks before it reads its members."""

from __future__ import annotations

import pytest

from assignor.cluster import Broker, Cluster, TopicMetadata
from assignor.configs import AssignmentConfigs
from assignor.errors import DecodeError
from assignor.group_tasks import gather_members, make_tasks
from assignor.snapshot import Member, RebalanceSnapshot
from assignor.topology.group_topology import GroupTopology, RepartitionTopic, Subtopology
from assignor.types import LATEST_OFFSET, TaskId, TopicPartition
from tests.group_model import member, process_id

BY_KEY = "app-by-key"
TOPOLOGY = GroupTopology(
    (
        Subtopology(0, ("in",), sink_topics=(BY_KEY,), repartition_sink_topics=(BY_KEY,)),
        Subtopology(1, (BY_KEY,), repartition_source_topics=(RepartitionTopic(BY_KEY, 3),)),
    )
)


def snapshot_of(members: dict[str, Member], partitions: int, *existing: str) -> RebalanceSnapshot:
    """`partitions`: of the source topic, 0 where there is none. Other tests use other numbers."""
    return RebalanceSnapshot(
        "HighAvailabilityTaskAssignor",
        AssignmentConfigs(),
        "app",
        TOPOLOGY,
        Cluster((Broker(1),), {"in": TopicMetadata(partitions)} if partitions else {}),
        members,
        {topic: TopicMetadata(3) for topic in existing},
    )


def test_should_know_what_members_report_as_the_tasks_and_partitions_of_the_topology() -> None:
    tasks, owned = [TaskId(0, 70), TaskId(1, 2)], [TopicPartition("in", 70), TopicPartition(BY_KEY, 2)]
    sums = dict.fromkeys(tasks, LATEST_OFFSET)
    members = {f"c{number}": member(process_id(number), owned=owned, offset_sums=sums) for number in (1, 2)}
    snapshot = snapshot_of(members, 71, BY_KEY)

    group = gather_members(snapshot)
    made = make_tasks(snapshot, group.versions, {})

    reported = [task for client in group.clients.values() for task in client.offset_sums]
    assert len(reported) == 4
    assert {*map(id, reported)} == {id(task) for task in made.partitions if task in tasks}
    assert {*map(id, group.owners)} == {id(partition) for partition in made.task_by_partition if partition in owned}


@pytest.mark.parametrize("partitions", [0, 73, 2_000_000])
def test_should_name_a_member_that_cannot_be_read_before_topics_that_are_missing_or_too_large(partitions: int) -> None:
    with pytest.raises(DecodeError, match="member broken"):
        gather_members(snapshot_of({"broken": Member(b"")}, partitions))
