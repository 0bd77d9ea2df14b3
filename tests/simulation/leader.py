"""The leader of simulated groups: the real pipeline over a small fixed topology."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from assignor.configs import AssignmentConfigs
from assignor.pipeline import assign
from assignor.pipeline.snapshot import Member, RebalanceResult, RebalanceSnapshot
from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.topology.group_topology import GroupTopology, Subtopology, SubtopologyStore
from coordinator_api.group.outcome import RunRebalance
from tests.simulation.cluster import PARTITIONS, WORDS


@dataclass(frozen=True, slots=True)
class Leader:
    """Of one group, whose one subtopology reads the words into stores. `ends`: those of each changelog now."""

    group_id: str
    configs: AssignmentConfigs
    ends: Callable[[], Mapping[str, tuple[int, ...]]]

    def lead(self, effect: RunRebalance, now_ms: int) -> RebalanceResult:
        return assign(replace(self.snapshot(effect.members), steering=effect.steering), now_ms)

    def snapshot(self, members: Mapping[str, Member]) -> RebalanceSnapshot:
        topic = TopicMetadata(PARTITIONS, ((1,),) * PARTITIONS, (1,) * PARTITIONS)
        ends = self.ends()
        stores = tuple(SubtopologyStore(changelog, changelog) for changelog in ends)
        return RebalanceSnapshot(
            assignor="HighAvailabilityTaskAssignor",
            configs=self.configs,
            application_id=self.group_id,
            topology=GroupTopology((Subtopology(0, (WORDS,), stores=stores),)),
            cluster=Cluster((Broker(1),), {WORDS: topic}),
            members=members,
            existing_internal_topics=dict.fromkeys(ends, topic),
            changelog_end_offsets=ends,
        )
