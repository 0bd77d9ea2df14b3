"""Steps 0 to 2: which mistake is raised when there are several."""

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import DecodeError
from assignor.pipeline import assign
from assignor.pipeline.snapshot import Member, RebalanceSnapshot
from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.topology.group_topology import GroupTopology, Subtopology


@pytest.mark.parametrize("partitions", [0, 73, 2_000_000])
def test_should_name_a_member_that_cannot_be_read_before_topics_that_are_missing_or_too_large(partitions: int) -> None:
    snapshot = RebalanceSnapshot(
        "HighAvailabilityTaskAssignor",
        AssignmentConfigs(),
        "app",
        GroupTopology((Subtopology(0, ("in",)),)),
        Cluster((Broker(1),), {"in": TopicMetadata(partitions)} if partitions else {}),
        {"broken": Member(b"")},
        {},
    )
    with pytest.raises(DecodeError, match="member broken"):
        assign(snapshot, 0)
