"""Which repartition topics of a described topology have a fixed count: those whose count on the cluster is another one
than follows from the topics upstream. Source: `Repartitioned.numberOfPartitions`, `RepartitionTopics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from assignor.cluster import Cluster, TopicMetadata
from assignor.configs import AssignmentConfigs
from assignor.errors import KafkaError
from assignor.topology.assembly import assemble
from assignor.topology.definition import TopologyDefinition
from assignor.topology.internal_topics import InternalTopicCatalog
from assignor.topology.repartition_topics import prepare_repartition_topics


@dataclass(frozen=True, slots=True)
class RepartitionCounts:
    """`fixed`: the count by short name, None for one that follows from upstream."""

    fixed: Mapping[str, int | None]
    assumptions: tuple[str, ...]


def repartition_counts(
    definition: TopologyDefinition, application_id: str, partition_counts: Mapping[str, int]
) -> RepartitionCounts:
    """`partition_counts`: topics of the cluster by full name, empty when not known."""
    fixed = dict(definition.repartition_topics)
    existing = {
        topic: partition_counts[name]
        for topic in fixed
        if (name := definition.full_topic(topic, application_id)) in partition_counts
    }
    assumptions: list[str] = []
    for _ in existing:  # one at a time: others may follow from it
        counted = _counted(replace(definition, repartition_topics=fixed), application_id, partition_counts)
        odd = next(
            (t for t, count in existing.items() if counted.get(definition.full_topic(t, application_id)) != count), None
        )
        if odd is None or not counted or fixed[odd] is not None:
            break
        fixed[odd] = existing[odd]
        assumptions.append(
            f"repartition topic {definition.full_topic(odd, application_id)} has {existing[odd]} partitions where "
            f"{counted[definition.full_topic(odd, application_id)]} follow from upstream: taken as a fixed count"
        )
    unknown = [topic for topic in fixed if topic not in existing]
    if unknown:
        names = ", ".join(definition.full_topic(topic, application_id) for topic in unknown)
        assumptions.append(f"repartition topics get as many partitions as there are upstream, no fixed count: {names}")
    return RepartitionCounts(fixed, tuple(assumptions))


def _counted(
    definition: TopologyDefinition, application_id: str, partition_counts: Mapping[str, int]
) -> Mapping[str, int]:
    """What Kafka would create on a cluster without these topics; nothing when it cannot."""
    internal = {definition.full_topic(topic, application_id) for topic in definition.repartition_topics}
    topics = {name: TopicMetadata(count) for name, count in partition_counts.items() if name not in internal}
    try:
        topology = assemble(definition, application_id)
        return prepare_repartition_topics(
            topology, Cluster((), topics), InternalTopicCatalog(), AssignmentConfigs()
        ).ready
    except KafkaError:
        return {}
