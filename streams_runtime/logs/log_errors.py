"""The errors of a log, by Kafka's names."""

from collections.abc import Mapping

from assignor.errors import AssignorFault, Unavailable
from assignor.types import TopicPartition


class LogError(AssignorFault):
    """Base of all errors of a log."""


class LogTimeout(LogError, Unavailable):
    """The log could not be reached, or was busy, for too long. A later call may succeed. `retriable` shows a
    coordinator that reads the log that a later call may succeed.
    """

    retriable = True


class ProducerFenced(LogError):
    """A newer producer has this transactional id: the owner of this producer has been replaced."""


class CommitFenced(LogError):
    """Another owner has claimed a partition meanwhile, so the partition's task has migrated. The fenced commit has
    committed nothing.
    """


class OffsetOutOfRange(LogError):
    """A position lies before the begin offset or after the end offset. `positions`: by partition, these positions."""

    def __init__(self, positions: Mapping[TopicPartition, int]) -> None:
        super().__init__(
            "no such offset: " + ", ".join(f"{p.topic}-{p.partition} at {o}" for p, o in positions.items())
        )
        self.positions = dict(positions)


def check_not_beyond(offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    """Raises OffsetOutOfRange for offsets above the end offsets."""
    beyond = {partition: offset for partition, offset in offsets.items() if offset > ends[partition]}
    if beyond:
        raise OffsetOutOfRange(beyond)


class UnknownTopicOrPartition(LogError):
    """The topic does not exist, or has no partition with this number."""


class TopicExists(LogError):
    """A topic of this name has another number of partitions."""


class InvalidTopic(LogError):
    """A name, partition count or config that no topic can have."""


class RecordTooLarge(LogError):
    """A record is larger than its topic allows. The message names the partition and the size."""


class RecordsRefused(LogError):
    """The brokers have refused records that `send` had taken; all other records are written. The message names the
    first refused record.
    """


class InvalidRecord(LogError):
    """No log can take the record (a wrong type, an impossible timestamp), or the record's topic cannot take it: the
    topic is compacted, and the record has no key. The message names the partition and the fault.
    """


class InvalidTimestamp(InvalidRecord):
    """The record's timestamp is further from the clock than its topic allows."""
