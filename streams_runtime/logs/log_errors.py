"""The errors of a log, by Kafka's names."""

from collections.abc import Mapping

from assignor.errors import AssignorFault, Unavailable
from assignor.types import TopicPartition


class LogError(AssignorFault):
    """Base of all errors of a log."""


class LogTimeout(LogError, Unavailable):
    """The log could not be reached in time, or was busy for too long. A later call may succeed. The attribute
    `retriable` shows a coordinator, which also reads the log, that a later call may succeed.
    """

    retriable = True


class ProducerFenced(LogError):
    """A newer producer has the same transactional id, so this producer can only be aborted and closed."""


class CommitFenced(LogError):
    """Another owner has claimed a partition of the commit meanwhile, so the partition's task has migrated. The fenced
    commit has committed nothing.
    """


class OffsetOutOfRange(LogError):
    """A position lies before the begin offset or after the end offset. `positions`: the positions that are out of
    range, by partition.
    """

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
    """The brokers have refused records that `send` had accepted. All other records are written. The message names the
    first refused record.
    """


class InvalidRecord(LogError):
    """No log accepts the record, because of a wrong type or an impossible timestamp. Another cause of this error is a
    record without a key for a compacted topic. The message names the partition and the fault.
    """


class InvalidTimestamp(InvalidRecord):
    """The record's timestamp is further from the clock than the record's topic allows."""
