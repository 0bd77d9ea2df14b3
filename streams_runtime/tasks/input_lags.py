"""Finds the input partitions of which the log has records that the task has not received yet.

While the consumer is behind the last known end offset of a partition, `InputLags` makes no call. When the consumer has
reached the last known end offset, `InputLags` asks the consumer for the present end offset. If the consumer does not
know the present end offset, `InputLags` asks the log. `InputLags` asks for the end of the same partition again after
ten milliseconds, or as soon as a record of the partition was read. If the log does not answer, the partition counts as
having more records, and the next check asks again.
Source: `Consumer.currentLag` as `PartitionGroup` uses it (KIP-695).

Differs from Kafka: Kafka uses the end that the last fetch returned, however old that end is. `InputLags` asks for the
end again, because records may have been written since the last fetch.
"""

from collections.abc import Collection

from assignor.types import TopicPartition
from streams_runtime.logs.base import Consumer, Log
from streams_runtime.logs.log_errors import LogTimeout

ASK_AGAIN_MS = 10


class InputLags:
    """Compares the consumer's positions with the end offsets of the partitions. The end offsets are those of
    READ_COMMITTED, which a consumer with any isolation level can reach.
    """

    def __init__(self, log: Log, consumer: Consumer) -> None:
        self._log = log
        self._consumer = consumer
        self._ends: dict[TopicPartition, int] = {}
        self._asked_at_ms: dict[TopicPartition, int] = {}

    def behind(self, partitions: Collection[TopicPartition], now_ms: int) -> set[TopicPartition]:
        """Returns the partitions of which the log has, or may have, records that the consumer has not read yet."""
        behind: set[TopicPartition] = set()
        ask: dict[TopicPartition, int] = {}
        for partition in partitions:
            position = self._consumer.position(partition)
            if position is None or position < self._ends.get(partition, -1):
                behind.add(partition)  # if the position is not known, the log may have more records
            elif now_ms - self._asked_at_ms.get(partition, -ASK_AGAIN_MS) >= ASK_AGAIN_MS:
                ask[partition] = position
        if ask:
            behind |= self._ask(ask, now_ms)
        return behind

    def forget_end(self, partition: TopicPartition) -> None:
        """Ask for the end again at the next call of `behind`, because new records of the partition were read."""
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
        self._ends.update(ends)
        for partition in ends:
            self._asked_at_ms[partition] = now_ms
        return unanswered | {partition for partition, end in ends.items() if positions[partition] < end}
