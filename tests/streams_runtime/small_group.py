"""Groups whose definition describes their cluster, and one that is small enough to follow by eye.

The small one has one subtopology with one store, and one standby a task.
"""

from dataclasses import dataclass

from assignor.configs import AssignmentConfigs
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.recording import rebalance_input
from assignor.topology.builder import TopologyBuilder
from assignor.topology.cluster import Broker, Cluster, TopicMetadata

SOURCE = "events"


@dataclass(frozen=True, slots=True)
class GroupDefinition:
    """`declared`: a rebalance/1 input without members; they come by joining."""

    group_id: str
    declared: RebalanceSnapshot

    def body(self) -> dict[str, object]:
        """The body of PUT /v1/groups/{group}."""
        document = rebalance_input(self.declared)
        return {name: value for name, value in document.items() if name not in ("members", "leader_process_id")}

    def source_topics(self) -> tuple[str, ...]:
        """What every member subscribes to."""
        subtopologies = self.declared.topology.subtopologies
        return tuple(sorted({topic for subtopology in subtopologies for topic in subtopology.source_topics}))


def small_definition(group_id: str, *, partitions: int = 4, end_offset: int = 0, standbys: int = 1) -> GroupDefinition:
    """`partitions` tasks `0_0`, `0_1`, …; `end_offset`: of each changelog partition."""
    builder = TopologyBuilder()
    builder.add_source("source", SOURCE)
    builder.add_processor("count", "source")
    builder.add_state_store("counts", "count")
    topic = TopicMetadata(partitions, ((1,),) * partitions, (1,) * partitions)
    changelog = f"{group_id}-counts-changelog"
    return GroupDefinition(
        group_id,
        RebalanceSnapshot(
            assignor="HighAvailabilityTaskAssignor",
            configs=AssignmentConfigs(num_standby_replicas=standbys),
            application_id=group_id,
            topology=builder.build(group_id),
            cluster=Cluster((Broker(1),), {SOURCE: topic}),
            members={},
            existing_internal_topics={changelog: topic},
            changelog_end_offsets={changelog: (end_offset,) * partitions},
        ),
    )


def without_source_topic(definition: GroupDefinition) -> dict[str, object]:
    """The definition's body, of a cluster that does not have the source topic."""
    return {**definition.body(), "cluster": {"brokers": [{"id": 1, "rack": None}], "topics": {}}}


def task_names(partitions: int) -> set[str]:
    return {f"0_{partition}" for partition in range(partitions)}
