"""Compares the source topics of the topology with the members' subscriptions and with the topics of the last rebalance.
No I/O.

The leader assigns the topics of its own topology, as Kafka's leader does. A topic that is not in this topology is
assigned to no member. If a member gets a topic to which it does not subscribe, it joins again and again. So the leader
reports a warning if members run a different version of the application.

The leader starts a rebalance when a source topic appears, disappears or gains partitions, as Kafka's leader does.
Source: `ConsumerCoordinator`, `onJoinComplete` and its metadata snapshots.
"""

from collections.abc import Collection, Iterable, Mapping

from assignor.errors import DecodeError
from assignor.pipeline.snapshot import RebalanceResult, RebalanceSnapshot
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.types import TopicPartition
from rebalance_analysis.presentation.quantities import listed

PartitionCounts = Mapping[str, int]
"""The number of partitions of each topic, by name."""

_CHANGES_SHOWN = 3
_NAMES_SHOWN = 3


def partitions_after(snapshot: RebalanceSnapshot, result: RebalanceResult, topics: Iterable[str]) -> PartitionCounts:
    """Returns the number of partitions that each given topic has after the rebalance. The rebalance may have created
    some of the topics. A topic that does not exist is left out.
    """
    counts = {name: topic.partitions for name, topic in snapshot.existing_internal_topics.items()}
    counts |= {name: topic.partitions for name, topic in snapshot.cluster.topics.items()}
    counts |= result.internal_topics
    return {topic: counts[topic] for topic in topics if topic in counts}


def change_text(before: PartitionCounts, after: PartitionCounts) -> str | None:
    """Returns a text that names the first three changed partition counts; None if no count changed."""
    changes = [
        f"source topic {topic} appeared"
        if topic not in before
        else f"source topic {topic} is gone"
        if topic not in after
        else f"source topic {topic} went from {before[topic]} to {after[topic]} partitions"
        for topic in sorted(before.keys() | after.keys())
        if before.get(topic) != after.get(topic)
    ]
    if not changes:
        return None
    rest = len(changes) - _CHANGES_SHOWN
    return "; ".join(changes[:_CHANGES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def partitions_without_owner(counts: PartitionCounts, assignments: Iterable[bytes]) -> int:
    """Returns the number of partitions that are assigned to no member. `assignments`: encoded
    ConsumerProtocolAssignments; an assignment that cannot be read is treated as empty.
    """
    wanted = {TopicPartition(topic, number) for topic, partitions in counts.items() for number in range(partitions)}
    for assignment in assignments:
        try:
            wanted.difference_update(decode_assignment(assignment).partitions)
        except DecodeError:
            continue
    return len(wanted)


def mismatch_text(topics: Collection[str], subscribed: Mapping[str, Collection[str]]) -> str:
    """Returns a message for the operator if the members' subscriptions differ from the topology; otherwise an empty
    text.

    `topics`: all topics that the topology reads. `subscribed`: the topics to which each member subscribes, by member
    id.
    """
    sentences = []
    unknown = {topic for each in subscribed.values() for topic in each}.difference(topics)
    if unknown:
        subscribers = [member for member, each in subscribed.items() if not unknown.isdisjoint(each)]
        verb = "subscribe" if len(subscribers) > 1 else "subscribes"
        sentences.append(
            f"{_names(subscribers)} {verb} to {_names(unknown)}, which it does not read and nobody is assigned"
        )
    behind = [member for member, each in subscribed.items() if not set(topics) <= set(each)]
    if behind:
        missing = {topic for member in behind for topic in topics if topic not in subscribed[member]}
        auxiliary = "do" if len(behind) > 1 else "does"
        sentences.append(f"{_names(behind)} {auxiliary} not subscribe to {_names(missing)}, which it reads")
    if not sentences:
        return ""
    return (
        f"not all members run the topology given here: {'; '.join(sentences)}. Run one version on all instances, "
        "and lead with its topology"
    )


def _names(names: Iterable[str]) -> str:
    return listed(sorted(names), _NAMES_SHOWN)
