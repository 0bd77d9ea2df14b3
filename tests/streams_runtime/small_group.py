"""A group small enough to follow by eye: one subtopology with one store, one standby a task."""

from __future__ import annotations

from assignor.cluster import Broker, Cluster, TopicMetadata
from assignor.configs import AssignmentConfigs
from assignor.snapshot import RebalanceSnapshot
from assignor.topology.builder import TopologyBuilder
from spark_jobs.definition import GroupDefinition

SOURCE = "events"


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
