"""Partitions of the topics that the application reads: what the last rebalance knew of them, and whether that changed.

A leader joins again when a topic appears, goes, or has more partitions, as Kafka's does. Source: the metadata snapshots
of `ConsumerCoordinator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assignor.errors import DecodeError
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.snapshot import RebalanceResult, RebalanceSnapshot
from assignor.types import TopicPartition

PartitionCounts = Mapping[str, int]


def known_to(snapshot: RebalanceSnapshot, result: RebalanceResult, topics: Iterable[str]) -> PartitionCounts:
    """After the rebalance, the topics made in it among them."""
    counts = {name: topic.partitions for name, topic in snapshot.existing_internal_topics.items()}
    counts |= {name: topic.partitions for name, topic in snapshot.cluster.topics.items()}
    counts |= result.internal_topics
    return {topic: counts[topic] for topic in topics if topic in counts}


def change_in_words(before: PartitionCounts, after: PartitionCounts) -> str | None:
    """None when nothing changed."""
    changes = [
        f"source topic {topic} appeared"
        if topic not in before
        else f"source topic {topic} is gone"
        if topic not in after
        else f"source topic {topic} went from {before[topic]} to {after[topic]} partitions"
        for topic in sorted(before.keys() | after.keys())
        if before.get(topic) != after.get(topic)
    ]
    return "; ".join(changes[:3]) + (f" and {len(changes) - 3} more" if len(changes) > 3 else "") if changes else None


def without_owner(counts: PartitionCounts, assignments: Iterable[bytes]) -> int:
    """How many partitions nobody is assigned; `assignments` are ConsumerProtocolAssignments."""
    wanted = {TopicPartition(topic, number) for topic, partitions in counts.items() for number in range(partitions)}
    for assignment in assignments:
        try:
            wanted.difference_update(decode_assignment(assignment).partitions)
        except DecodeError:
            continue
    return len(wanted)
