"""What can go wrong with a log, by Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping

from assignor.errors import AssignorFault
from assignor.types import TopicPartition


class LogError(AssignorFault):
    """Base of all errors of a log."""


class LogTimeout(LogError):
    """The log could not be reached, or was busy, for too long; trying again later may work."""


class ProducerFenced(LogError):
    """A newer producer has this transactional id: its owner has been replaced."""


class CommitFenced(LogError):
    """Another owner has claimed a partition since: its task has migrated. Nothing was committed."""


class OffsetOutOfRange(LogError):
    """A position lies before the first or behind the last record. `positions`: those of the partitions concerned."""

    def __init__(self, positions: Mapping[TopicPartition, int]) -> None:
        super().__init__(
            "no such offset: " + ", ".join(f"{p.topic}-{p.partition} at {o}" for p, o in positions.items())
        )
        self.positions = dict(positions)


class UnknownTopicOrPartition(LogError):
    """There is no such topic, or it has fewer partitions."""


class TopicExists(LogError):
    """A topic of this name has another number of partitions."""


class InvalidTopic(LogError):
    """A name, partition count or config that no topic can have."""


class RecordTooLarge(LogError):
    """A single record is larger than the log takes; the message names partition and size."""


class InvalidRecord(LogError):
    """A record that its topic cannot take: a negative timestamp, or no key where the topic is compacted."""
