"""Whether the log has more of a partition than was read.

Rules: as long as the consumer is behind the end that is known, nothing is asked; a partition that has been read up to
there is asked about again, but once only at one and the same time. What cannot be told counts as more.
Source: `Consumer.currentLag` as `PartitionGroup` uses it; Kafka's consumer learns the end with every fetch.
"""

from __future__ import annotations

from collections.abc import Collection

from assignor.types import TopicPartition
from streams_runtime.logs.base import Consumer, Log
from streams_runtime.logs.errors import LogTimeout


class InputLags:
    """The end is that for READ_COMMITTED: no consumer gets stuck before it."""

    __slots__ = ("_asked_at_ms", "_consumer", "_ends", "_log")

    def __init__(self, log: Log, consumer: Consumer) -> None:
        self._log = log
        self._consumer = consumer
        self._ends: dict[TopicPartition, int] = {}
        self._asked_at_ms: dict[TopicPartition, int] = {}

    def behind(self, partitions: Collection[TopicPartition], now_ms: int) -> set[TopicPartition]:
        """Those of the partitions that have, or may have, records that were not read yet."""
        behind: set[TopicPartition] = set()
        ask: dict[TopicPartition, int] = {}
        for partition in partitions:
            position = self._consumer.position(partition)
            if position is None or position < self._ends.get(partition, -1):
                behind.add(partition)
            elif self._asked_at_ms.get(partition) != now_ms:
                ask[partition] = position
        if ask:
            behind |= self._ask(ask, now_ms)
        return behind

    def read_up_to_here(self, partition: TopicPartition) -> None:
        """What was buffered of it is processed: what was known of its end is old."""
        self._asked_at_ms.pop(partition, None)

    def clear(self) -> None:
        self._ends.clear()
        self._asked_at_ms.clear()

    def _ask(self, positions: dict[TopicPartition, int], now_ms: int) -> set[TopicPartition]:
        try:
            ends = self._log.end_offsets(positions)
        except LogTimeout:
            return set(positions)
        self._ends.update(ends)
        for partition in positions:
            self._asked_at_ms[partition] = now_ms
        return {partition for partition, position in positions.items() if position < ends[partition]}
