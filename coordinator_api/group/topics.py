"""The topics of a group changed on its cluster: a round by itself.

Rules: what counts is what the last round worked with, whether it ended well or not. So a source topic that was missing
starts a round when it appears, a topic that gets more partitions starts one, and a round that failed (an internal topic
with another number of partitions, say) is not run again before any of the topics has changed: no storm of rounds that
fail alike. While a round is prepared or computed nothing is due, the next look compares with what it saw.
Source: `ConsumerCoordinator.rejoinNeededOrPending` with its metadata snapshots. Differs from Kafka: changelogs count,
too, which no consumer there subscribes to.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator_api.group.events import TopicsSeen
from coordinator_api.group.rebalancing import prepare
from coordinator_api.group.states import GroupState, RebalanceReason
from coordinator_api.group.transition import GroupTransition

MAX_TOLD = 5


def topics_seen(step: GroupTransition, event: TopicsSeen) -> None:
    image = step.image
    last = image.last_rebalance
    if image.state is not GroupState.STABLE or last is None or last.generation_id != image.generation_id:
        return
    changes = topic_changes(last.topics, event.topics)
    if changes:
        more = f", and {len(changes) - MAX_TOLD} more" if len(changes) > MAX_TOLD else ""
        prepare(step, RebalanceReason.TOPICS_CHANGED, "; ".join(changes[:MAX_TOLD]) + more)


def topic_changes(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """A sentence for each topic of both with another count, by name. A topic that one of them lacks does not count."""
    return [
        _told(topic, before[topic], now[topic])
        for topic in sorted(before.keys() & now.keys())
        if before[topic] != now[topic]
    ]


def _told(topic: str, before: int, now: int) -> str:
    if not before:
        return f"topic {topic} appeared, partitions {now}"
    if not now:
        return f"topic {topic} is gone"
    return f"partitions of {topic}: {before} -> {now}"
