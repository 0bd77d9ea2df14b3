"""The leader of simulated groups: the real pipeline over a small fixed topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from assignor.cluster import Broker, Cluster, TopicMetadata
from assignor.configs import AssignmentConfigs
from assignor.pipeline import assign
from assignor.snapshot import Member, RebalanceResult, RebalanceSnapshot
from assignor.topology.group_topology import GroupTopology, Subtopology, SubtopologyStore
from assignor.types import TaskId
from coordinator_api.group.outcome import RunRebalance
from tests.coordinator_api.group.member_bytes import SOURCE_TOPIC

PARTITIONS = 4
END_OFFSET = 100
TASKS = tuple(TaskId(0, partition) for partition in range(PARTITIONS))
CHANGELOG = "shop-counts-changelog"


def lead(effect: RunRebalance, now_ms: int) -> RebalanceResult:
    return assign(replace(_snapshot(effect.members), steering=effect.steering), now_ms)


def _snapshot(members: Mapping[str, Member]) -> RebalanceSnapshot:
    topic = TopicMetadata(PARTITIONS, ((1,),) * PARTITIONS, (1,) * PARTITIONS)
    return RebalanceSnapshot(
        assignor="HighAvailabilityTaskAssignor",
        configs=AssignmentConfigs(num_standby_replicas=1, acceptable_recovery_lag=0),
        application_id="shop",
        topology=GroupTopology((Subtopology(0, (SOURCE_TOPIC,), stores=(SubtopologyStore("counts", CHANGELOG),)),)),
        cluster=Cluster((Broker(1),), {SOURCE_TOPIC: topic}),
        members=members,
        existing_internal_topics={CHANGELOG: topic},
        changelog_end_offsets={CHANGELOG: (END_OFFSET,) * PARTITIONS},
    )
