"""Reads changelogs with a consumer, and adapts the number of records that each poll requests.

Rules:
- When the restore of a changelog starts, the changelog is assigned to the consumer. A changelog is paused while the
  reader does not read it.
- If the caller could not apply a batch, the next poll returns the batch again.
- Under exactly-once, the consumer returns only committed records. A restore ends at the high watermark, so the consumer
  has to move its position past transaction markers and aborted records.
- A poll requests as many records as the thread can read and apply in a fraction of a pass. So a pass ends in time even
  if records are large. Another benefit is that only a few records are in memory at the same time.

Source: the `restoreConsumer` of `StoreChangelogReader`, `StreamsConfig.getRestoreConsumerConfigs`. Differs from Kafka:
Kafka limits fetches in bytes, and restores on separate threads.
"""

from collections.abc import Callable, Iterable

from assignor.types import TopicPartition
from streams_runtime.logs.base import Consumer, RecordBatch

_NOTHING: frozenset[TopicPartition] = frozenset()
_FIRST_POLL = 1_000
_SMALLEST_POLL = 10
_POLLS_A_PASS = 4


class RestoreConsumer:
    """The consumer of one changelog reader. `reading`: the partitions that are not paused."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.reading = _NOTHING

    def add(self, starts: Iterable[tuple[TopicPartition, int]]) -> None:
        """Assign these partitions at these offsets, and pause them."""
        starts = tuple(starts)
        new = [partition for partition, _ in starts]
        if new:
            self._consumer.assign(self._consumer.assignment().union(new))
            self._consumer.pause(new)
        for partition, offset in starts:
            self._consumer.seek(partition, offset)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Unassign these partitions. Ignores partitions that are not assigned."""
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
        """Returns the consumer's position in an assigned partition."""
        position = self._consumer.position(partition)
        assert position is not None, f"{partition} was assigned without an offset"
        return position

    def poll(self, timeout_ms: int, max_records: int, take: Callable[[RecordBatch], int]) -> tuple[int, int]:
        """Poll, and call `take` with each batch. `take`: a function that applies records of a batch, and returns the
        number of applied records. Returns the number of read records, and the number of applied records. If `take`
        raises an error for a batch, the next poll returns this batch and all later batches again. Raises the errors of
        `Consumer.poll`.
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


class PollSize:
    """Computes the number of records that each poll requests. `records`: the number of records for the next poll.
    `largest`: the upper limit of `records`. `pass_ms`: the time limit of a pass.
    """

    __slots__ = ("_largest", "_pass_ms", "records")

    def __init__(self, largest: int, pass_ms: int) -> None:
        self._largest = largest
        self._pass_ms = pass_ms
        self.records = min(_FIRST_POLL, largest)

    def adapt(self, asked: int, given: int, took_ms: int) -> None:
        """Compute the number of records for the next poll from the result of the last poll. `asked`: the number of
        records that the last poll requested. `given`: the number of records that the last poll returned.

        `took_ms`: the duration of the last poll, together with the time for applying its records.
        """
        if took_ms * _POLLS_A_PASS > self._pass_ms * 2:
            if given * 2 >= asked:
                # A poll may return more records than it was asked for, because it does not split a transaction.
                self.records = min(self._largest, max(_SMALLEST_POLL, min(asked, given) // 2))
        elif given >= asked and took_ms * _POLLS_A_PASS <= self._pass_ms:
            self.records = min(self._largest, max(self.records, asked * 2))
