"""Topics that are joined need the same number of partitions; repartition topics are made to fit.

A group made of repartition topics alone takes the largest count, or the fixed count when the user gave one. With an
outside topic in the group that topic decides. Source: `CopartitionedTopicsEnforcer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignor.cluster import Cluster
from assignor.errors import IllegalStateError, TopologyError
from assignor.java.order import hash_set_order, string_hash
from assignor.topology.internal_topics import InternalTopic


def enforce_copartitioning(
    group: Sequence[str], repartition_topics: Mapping[str, InternalTopic], cluster: Cluster
) -> dict[str, InternalTopic]:
    """The repartition topics of `group` with the count that the group needs.

    Raises TopologyError when outside topics, or fixed counts, do not agree, and IllegalStateError for a topic that is
    neither a repartition topic nor in the cluster.
    """
    walk = hash_set_order(group, string_hash)
    inside = [repartition_topics[topic] for topic in walk if topic in repartition_topics]
    outside = {topic: _partition_count(topic, cluster) for topic in walk if topic not in repartition_topics}
    if not inside and not outside:
        return {}
    partitions = _same_partitions(outside) if outside else _partitions_among_repartition_topics(inside)
    coerced = {topic.name: topic.with_partitions(partitions) for topic in inside}
    for topic in coerced.values():
        if topic.partitions != partitions:
            raise TopologyError(
                f"Invalid topology: Number of partitions [{topic.partitions}] of repartition topic [{topic.name}] "
                f"doesn't match number of partitions [{partitions}] of the source topic."
            )
    return coerced


def _partition_count(topic: str, cluster: Cluster) -> int:
    count = cluster.partition_count(topic)
    if count is None:
        raise IllegalStateError(f"Topic not found: {topic}")
    return count


def _same_partitions(outside: Mapping[str, int]) -> int:
    if len(set(outside.values())) > 1:
        raise TopologyError(f"Invalid topology: Topics not co-partitioned: [{_as_text(outside)}]")
    return next(iter(outside.values()))


def _partitions_among_repartition_topics(inside: Sequence[InternalTopic]) -> int:
    counts = {topic.name: topic.partitions for topic in inside if topic.partitions is not None}
    fixed = {topic.name: topic.partitions for topic in inside if topic.fixed_partitions}
    if len(set(fixed.values())) > 1:
        raise TopologyError(
            f"Invalid topology: Following topics do not have the same number of partitions: [{_as_text(counts)}]"
        )
    for partitions in fixed.values():
        if partitions is not None:
            return partitions
    if not counts:
        raise IllegalStateError(f"Could not validate the copartitioning of topics: {[topic.name for topic in inside]}")
    return max(counts.values())


def _as_text(counts: Mapping[str, int]) -> str:
    return "{" + ", ".join(f"{topic}={count}" for topic, count in sorted(counts.items())) + "}"
