"""Finds the input partitions with records in the log that the Streams task has not received yet.

`InputLags` stores the last known end offset of each partition. While the consumer is behind this offset, no call is
needed. After the consumer has reached this offset, `InputLags` asks the consumer for the present end offset. If the
consumer does not know the present end offset, `InputLags` asks the log. `InputLags` asks for the end offset of a
partition at most once in ten milliseconds, and also after each new record. If the log does not answer, `InputLags`
assumes that the partition has more records, and asks again at the next check.
Source: `Consumer.currentLag` as `PartitionGroup` uses it (KIP-695).

Differs from Kafka: Kafka uses the end offset of the last fetch, even if that fetch was long ago. `InputLags` asks for
the present end offset, because records may have been written since the last fetch.
"""

from collections.abc import Collection

from assignor.types import TopicPartition
from streams_runtime.logs.base import Consumer, Log
from streams_runtime.logs.log_errors import LogTimeout, UnknownTopicOrPartition

ASK_AGAIN_MS = 10


class InputLags:
    """Compares the consumer's positions with the end offsets of the partitions. Uses the end offsets for
    READ_COMMITTED, because a consumer with READ_UNCOMMITTED can reach these offsets, too.
    """

    def __init__(self, log: Log, consumer: Consumer) -> None:
        self._log = log
        self._consumer = consumer
        self._ends: dict[TopicPartition, int] = {}
        self._asked_at_ms: dict[TopicPartition, int] = {}

    def behind(self, partitions: Collection[TopicPartition], now_ms: int) -> set[TopicPartition]:
        """Returns the partitions with records that the consumer has not read yet. Also returns the partitions that may
        have unread records.
        """
        behind: set[TopicPartition] = set()
        ask: dict[TopicPartition, int] = {}
        for partition in partitions:
            position = self._consumer.position(partition)
            if position is None or position < self._ends.get(partition, -1):
                behind.add(partition)  # without a known position, the partition may have unread records
            elif now_ms - self._asked_at_ms.get(partition, -ASK_AGAIN_MS) >= ASK_AGAIN_MS:
                ask[partition] = position
        if ask:
            behind |= self._ask(ask, now_ms)
        return behind

    def lag(self, partitions: Collection[TopicPartition]) -> int | None:
        """Returns the number of offsets of the partitions that the consumer has not read yet. Returns None if a
        position is not known, or if the log does not say an end offset. Asks the log only for end offsets that the
        consumer does not know; a consumer of a broker nearly always knows them.
        """
        positions = {partition: self._consumer.position(partition) for partition in partitions}
        ends = {partition: self._consumer.known_end(partition) for partition in partitions}
        unknown = [partition for partition, end in ends.items() if end is None]
        try:
            ends.update(self._log.end_offsets(unknown) if unknown else {})
        except (LogTimeout, UnknownTopicOrPartition):
            return None
        unread = 0
        for partition, position in positions.items():
            end = ends[partition]
            if position is None or end is None:
                return None
            unread += max(0, end - position)
        return unread

    def forget_end(self, partition: TopicPartition) -> None:
        """The next call of `behind` will ask for the end offset of this partition. Called after new records of the
        partition were read.
        """
        self._asked_at_ms.pop(partition, None)

    def clear(self) -> None:
        self._ends.clear()
        self._asked_at_ms.clear()

    def _ask(self, positions: dict[TopicPartition, int], now_ms: int) -> set[TopicPartition]:
        ends = {partition: end for partition in positions if (end := self._consumer.known_end(partition)) is not None}
        unknown = positions.keys() - ends.keys()
        unanswered: set[TopicPartition] = set()
        if unknown:
            try:
                ends.update(self._log.end_offsets(unknown))
            except LogTimeout:
                unanswered = unknown
            except UnknownTopicOrPartition:
                # The next rebalance revokes a deleted topic. Until then, it counts as read to its end.
                there = {partition for partition in unknown if self._log.partitions_of(partition.topic)}
                ends.update({partition: positions[partition] for partition in unknown - there})
                ends.update(self._log.end_offsets(there))
        self._ends.update(ends)
        for partition in ends:
            self._asked_at_ms[partition] = now_ms
        return unanswered | {partition for partition, end in ends.items() if positions[partition] < end}
