"""The errors of a log, by Kafka's names."""

from collections.abc import Mapping

from assignor.errors import AssignorFault, Unavailable
from assignor.types import TopicPartition


class LogError(AssignorFault):
    """Base of all errors of a log."""


class LogTimeout(LogError, Unavailable):
    """The log could not be reached in time, or was busy for too long. A later call may succeed. The attribute
    `retriable` tells a coordinator that a later call may succeed.
    """

    retriable = True


class ProducerFenced(LogError):
    """A newer producer has the same transactional id, so this producer can only be aborted and closed."""


class CommitFenced(LogError):
    """Offsets cannot be committed, because another owner has claimed one of the partitions. The Streams task of this
    partition has migrated. Nothing was committed.
    """


class OffsetOutOfRange(LogError):
    """A position lies before the begin offset or after the end offset. `positions`: for each partition, the position
    that is out of range.
    """

    def __init__(self, positions: Mapping[TopicPartition, int]) -> None:
        super().__init__(
            "no such offset: " + ", ".join(f"{p.topic}-{p.partition} at {o}" for p, o in positions.items())
        )
        self.positions = dict(positions)


def check_not_beyond(offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    """Raises OffsetOutOfRange if an offset is higher than the end offset of its partition."""
    beyond = {partition: offset for partition, offset in offsets.items() if offset > ends[partition]}
    if beyond:
        raise OffsetOutOfRange(beyond)


class UnknownTopicOrPartition(LogError):
    """The topic does not exist, or has no partition with this number."""


class TopicExists(LogError):
    """A topic cannot be created, because a topic of this name exists with a different number of partitions. The command
    that creates topics also raises this error for an existing topic with the same number of partitions. With the option
    `--if-not-exists`, the command does not raise this error.
    """


class InvalidTopic(LogError):
    """The name, the partition count or a config of a topic is invalid."""


class RecordTooLarge(LogError):
    """A record is larger than its topic allows. The message names the partition and the size."""


class RecordsRefused(LogError):
    """The brokers have refused records that `send` had accepted. All other records are written. The message names the
    first refused record.
    """


class InvalidRecord(LogError):
    """The record has a wrong type or an impossible timestamp. A record without a key is also invalid if the topic is
    compacted. The message names the partition and the fault.
    """


class InvalidTimestamp(InvalidRecord):
    """The difference between the record's timestamp and the present time is larger than the topic allows."""
