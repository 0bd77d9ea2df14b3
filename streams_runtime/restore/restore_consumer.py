"""The consumer that reads changelogs: every changelog that was started is assigned, and paused unless it is to be read.

Rule: records that were given and could not be applied are given again. Source: the `restoreConsumer` of
`StoreChangelogReader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from assignor.types import TopicPartition
from streams_runtime.logs.base import Consumer, RecordBatch

_NOTHING: frozenset[TopicPartition] = frozenset()


class RestoreConsumer:
    """`reading`: the partitions that are not paused."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.reading = _NOTHING

    def add(self, starts: Iterable[tuple[TopicPartition, int]]) -> None:
        """Assign these, paused, each at its offset."""
        starts = tuple(starts)
        new = [partition for partition, _ in starts]
        if new:
            self._consumer.assign(self._consumer.assignment().union(new))
            self._consumer.pause(new)
        for partition, offset in starts:
            self._consumer.seek(partition, offset)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Those that are not assigned are passed over."""
        assigned = self._consumer.assignment()
        gone = assigned.intersection(partitions)
        if gone:
            self.reading -= gone
            self._consumer.assign(assigned - gone)

    def read_only(self, partitions: frozenset[TopicPartition]) -> None:
        if partitions != self.reading:
            self._consumer.pause(self.reading - partitions)
            self._consumer.resume(partitions - self.reading)
            self.reading = partitions

    def pause(self, partition: TopicPartition) -> None:
        self.read_only(self.reading - {partition})

    def position(self, partition: TopicPartition) -> int:
        """Of an assigned partition."""
        position = self._consumer.position(partition)
        assert position is not None, f"{partition} was assigned without an offset"
        return position

    def poll(self, timeout_ms: int, max_records: int, take: Callable[[RecordBatch], int]) -> tuple[int, int]:
        """Hand each batch to `take`, which gives how many it applied; records read and records applied.

        When `take` raises, what it did not take is read again next time. Raises as `Consumer.poll` does.
        """
        batches = self._consumer.poll(timeout_ms, max_records)
        read = applied = taken = 0
        try:
            for batch in batches:
                applied += take(batch)
                taken += 1
                read += len(batch)
        finally:
            for batch in reversed(batches[taken:]):
                self._consumer.seek(batch.partition, batch.offsets[0])
        return read, applied
