"""The errors of a log, by Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping

from assignor.errors import AssignorFault, Unavailable
from assignor.types import TopicPartition


class LogError(AssignorFault):
    """Base of all errors of a log."""


class LogTimeout(LogError, Unavailable):
    """The log could not be reached, or was busy, for too long. Trying again later may work, which `retriable` tells a
    coordinator that looks at the log.
    """

    retriable = True


class ProducerFenced(LogError):
    """A newer producer has this transactional id: its owner has been replaced."""


class CommitFenced(LogError):
    """Another owner has claimed a partition since, so its task has migrated. Nothing was committed."""


class OffsetOutOfRange(LogError):
    """A position lies before the first or after the last record. `positions`: of the partitions concerned."""

    def __init__(self, positions: Mapping[TopicPartition, int]) -> None:
        super().__init__(
            "no such offset: " + ", ".join(f"{p.topic}-{p.partition} at {o}" for p, o in positions.items())
        )
        self.positions = dict(positions)


def check_not_beyond(offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    """Raises OffsetOutOfRange for offsets behind the end offsets."""
    beyond = {partition: offset for partition, offset in offsets.items() if offset > ends[partition]}
    if beyond:
        raise OffsetOutOfRange(beyond)


class UnknownTopicOrPartition(LogError):
    """The topic does not exist, or has fewer partitions."""


class TopicExists(LogError):
    """A topic of this name has another number of partitions."""


class InvalidTopic(LogError):
    """A name, partition count or config that no topic can have."""


class RecordTooLarge(LogError):
    """A single record is larger than its topic allows. The message names partition and size."""


class RecordsRefused(LogError):
    """The brokers have refused records that `send` had taken; all others are written. The message names the first."""


class InvalidRecord(LogError):
    """No log can take the record (a wrong type, no timestamp that there is), or its topic cannot: a key is missing and
    the topic is compacted. The message names the partition and what is wrong.
    """


class InvalidTimestamp(InvalidRecord):
    """Its topic takes no record whose timestamp is so far from the clock."""
