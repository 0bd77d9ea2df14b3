"""The leader of simulated groups: the real pipeline over a small fixed topology."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from assignor.configs import AssignmentConfigs
from assignor.pipeline import assign
from assignor.pipeline.snapshot import Member, RebalanceResult, RebalanceSnapshot
from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.topology.group_topology import GroupTopology, Subtopology, SubtopologyStore
from coordinator_api.group.outcome import RunRebalance
from tests.simulation.word_count import PARTITIONS, WORDS


@dataclass(frozen=True, slots=True)
class Leader:
    """Of one group, whose one subtopology reads the words into a store. `ends`: those of its changelog now."""

    group_id: str
    configs: AssignmentConfigs
    ends: Callable[[], tuple[int, ...]]

    def lead(self, effect: RunRebalance, now_ms: int) -> RebalanceResult:
        return assign(replace(self.snapshot(effect.members), steering=effect.steering), now_ms)

    def snapshot(self, members: Mapping[str, Member]) -> RebalanceSnapshot:
        topic = TopicMetadata(PARTITIONS, ((1,),) * PARTITIONS, (1,) * PARTITIONS)
        changelog = f"{self.group_id}-counts-changelog"
        stores = (SubtopologyStore("counts", changelog),)
        return RebalanceSnapshot(
            assignor="HighAvailabilityTaskAssignor",
            configs=self.configs,
            application_id=self.group_id,
            topology=GroupTopology((Subtopology(0, (WORDS,), stores=stores),)),
            cluster=Cluster((Broker(1),), {WORDS: topic}),
            members=members,
            existing_internal_topics={changelog: topic},
            changelog_end_offsets={changelog: self.ends()},
        )
