"""Which of the topics asked for are not there yet. Source: `InternalTopicManager`, `CreateTopics`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streams_runtime.logs.base import NewTopic, TopicDescription
from streams_runtime.logs.errors import TopicExists


def topics_to_add(asked: Iterable[NewTopic], existing: Mapping[str, TopicDescription]) -> list[NewTopic]:
    """Raises TopicExists when one, there or asked for twice, has another number of partitions; then none is added."""
    partitions = {name: topic.partitions for name, topic in existing.items()}
    added: list[NewTopic] = []
    for topic in asked:
        there = partitions.setdefault(topic.name, topic.partitions)
        if there != topic.partitions:
            raise TopicExists(f"topic {topic.name} has {there} partitions, not {topic.partitions}")
        if topic.name not in existing and all(other.name != topic.name for other in added):
            added.append(topic)
    return added
