"""The unacknowledged records of a producer, in Kafka's batch format. One thread fills the producer's batches, and
another thread sends the batches.

Rules: a batch is closed before it would exceed 256 KiB or the limit of its topic. Only a batch of one record can exceed
256 KiB or the limit of its topic. Records of a partition keep their order. If the brokers refuse a batch with several
records, the batch is split into two batches. If the brokers also refuse a new batch, it is split again. Only one batch
of a partition is in flight at a time. So even if a batch has to be sent twice, it is written before later batches. A
batch without a sequence number was never sent, so the brokers do not know the batch, and it can be dropped.
Source: `RecordAccumulator`, `ProducerBatch`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from assignor.types import TopicPartition
from kafka_client.record_batches.batch_rows import BatchRowWriter
from kafka_client.record_batches.record_batch_v2 import BatchHeader, decoded, encoded, number
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import BATCH_BYTES, RawColumns
from streams_runtime.logs.record_limits import AnyRecord


class Batch:
    """A batch of one partition. `rows`: the records of the batch. `is_numbered`: True if the batch has a sequence
    number, and so may have been sent.
    """

    __slots__ = ("_codec", "_is_transactional", "_limit", "_payload", "is_numbered", "rows")

    def __init__(self, limit: int, codec: int, *, is_transactional: bool) -> None:
        self.rows = BatchRowWriter(limit, BATCH_BYTES)
        self.is_numbered = False
        self._limit = limit
        self._codec = codec
        self._is_transactional = is_transactional
        self._payload: bytearray | None = None

    @property
    def count(self) -> int:
        return self.rows.count

    @property
    def size(self) -> int:
        """The total size of keys, values and headers in bytes."""
        return self.rows.size

    def records(self) -> Iterator[AnyRecord]:
        """Returns the records of a batch that was sent."""
        assert self._payload is not None, "it was sent"
        view = memoryview(self._payload)
        _, timestamps_ms, keys, values, headers = decoded(view, BatchHeader.of(view))
        return zip(keys, values, timestamps_ms, headers or [()] * self.count, strict=True)

    def halves(self) -> tuple[Batch, Batch]:
        """Splits a refused batch of several records into two batches."""
        parts = tuple(Batch(self._limit, self._codec, is_transactional=self._is_transactional) for _ in range(2))
        first = self.count // 2
        for place, (key, value, timestamp_ms, headers) in enumerate(self.records()):
            taken = parts[place >= first].rows.append(key, value, timestamp_ms, headers)
            assert taken, "all of them were in one batch"
        return parts[0], parts[1]

    def numbered(self, producer_id: int, epoch: int, sequence: int) -> bytearray:
        """Returns the bytes to send. Every call returns the same bytes until `PartitionQueue.renumber` is called."""
        if self._payload is None:
            self._payload = encoded(self.rows, self._codec, is_transactional=self._is_transactional)
        if not self.is_numbered:
            number(self._payload, producer_id, epoch, sequence)
            self.is_numbered = True
        return self._payload


class PartitionQueue:
    """The batches of one partition. `full`: closed batches, oldest first. The first batch of `full` may be in flight.
    `open`: the batch to which new records are added.

    `limit`: the largest size of a batch that the topic accepts, in bytes.
    """

    __slots__ = ("_codec", "_is_transactional", "_limit", "full", "open", "sequence")

    def __init__(self, limit: int, codec: int, *, is_transactional: bool) -> None:
        self._limit = limit
        self._codec = codec
        self._is_transactional = is_transactional
        self.full: deque[Batch] = deque()
        self.open: Batch | None = None
        self.sequence = 0

    def append(self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> bool:
        """Adds a record. Returns True if a batch became full."""
        if self._opened().rows.append(key, value, timestamp_ms, headers):
            return False
        self.close()
        self._opened().rows.append(key, value, timestamp_ms, headers)  # the first record of a batch is always accepted
        return True

    def extend(self, columns: RawColumns) -> tuple[int, bool]:
        """Adds records. Returns their total size in bytes, and whether a batch became full."""
        keys, values, timestamps_ms, headers = columns
        at, stop = 0, len(timestamps_ms)
        if not len(keys) == len(values) == stop:
            raise ValueError(f"{len(keys)} keys, {len(values)} values and {stop} timestamps are no rows")
        total, is_full = 0, False
        while at < stop:
            batch = self._opened()
            before = batch.size
            at = batch.rows.extend(keys, values, timestamps_ms, headers, at, stop)
            total += batch.size - before
            if at < stop:
                self.close()
                is_full = True
        return total, is_full

    def _opened(self) -> Batch:
        if self.open is None:
            self.open = Batch(self._limit, self._codec, is_transactional=self._is_transactional)
        return self.open

    def close(self) -> None:
        if self.open is not None and self.open.count > 0:
            self.full.append(self.open)
            self.open = None

    def renumber(self) -> None:
        """At the next send, the closed batches get new sequence numbers, because the producer has a new id."""
        self.sequence = 0
        for batch in self.full:
            batch.is_numbered = False


class Accumulator:
    """The batches of all partitions. When the open batches of all partitions together have 256 KiB, all of them are
    closed. `lock` guards all state.

    `bytes`: the size of all unacknowledged records, in bytes. `last_offsets`: the offset of the last acknowledged
    record of each partition. `lingers`: True while a record waits for other records of its batch. A record waits for at
    most `linger.ms`. `has_full`: True from the moment when a batch becomes full until the sender is started.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.bytes = 0
        self.open_bytes = 0
        self.lingers = self.has_full = False
        self.last_offsets: dict[TopicPartition, int] = {}

    def append(
        self,
        queue: PartitionQueue,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers,
        size: int,
    ) -> bool:
        """Adds a record. Returns True if the caller has to notify the sender, because a batch is full or because no
        earlier record was waiting.
        """
        with self.lock:
            return self._appended(size, is_full=queue.append(key, value, timestamp_ms, headers))

    def append_columns(self, queue: PartitionQueue, columns: RawColumns) -> bool:
        """Adds records. Returns True if the caller has to notify the sender (see `append`)."""
        with self.lock:
            total, is_full = queue.extend(columns)
            return self._appended(total, is_full=is_full)

    def _appended(self, size: int, *, is_full: bool) -> bool:
        self.bytes += size
        self.open_bytes += size
        is_first = not self.lingers
        # if a record does not fit into the open batch, this batch becomes full, and the record waits in a new open
        # batch
        self.lingers = True
        if self.open_bytes >= BATCH_BYTES:
            self.close_open()
            is_full = True
        if is_full:
            self.has_full = True
        return is_full or is_first

    def close_open(self) -> None:
        with self.lock:
            self.lingers = False
            self.open_bytes = 0
            for queue in self.queues.values():
                queue.close()

    def heads(self) -> dict[TopicPartition, Batch]:
        """Returns, for each partition, the batch to send next."""
        with self.lock:
            return {partition: queue.full[0] for partition, queue in self.queues.items() if queue.full}

    def done(self, partition: TopicPartition, batch: Batch, base_offset: int | None) -> None:
        """Removes a batch that was acknowledged or given up.

        `base_offset`: the offset of the batch's first record; None if the offset is not known, or if the batch is given
        up.
        """
        with self.lock:
            queue = self.queues[partition]
            if queue.full and queue.full[0] is batch:
                queue.full.popleft()
                self.bytes -= batch.size
            if base_offset is not None and base_offset >= 0:
                self.last_offsets[partition] = base_offset + batch.count - 1

    def split(self, partition: TopicPartition, batch: Batch) -> None:
        """Splits a batch that the brokers have refused because of some of its records. The brokers have written no
        record of the batch.

        Source: `RecordAccumulator.splitAndReenqueue`.
        """
        halves = batch.halves()
        with self.lock:
            queue = self.queues[partition]
            if queue.full and queue.full[0] is batch:
                queue.full.popleft()
                queue.full.extendleft(reversed(halves))

    def drop(self) -> bool:
        """Drops all unacknowledged records. Returns True if some of the dropped records may have been sent."""
        with self.lock:
            may_be_sent = False
            for queue in self.queues.values():
                may_be_sent = may_be_sent or any(batch.is_numbered for batch in queue.full)
                queue.full.clear()
                queue.open = None
            self.bytes = self.open_bytes = 0
            self.lingers = False
            return may_be_sent

    @property
    def is_empty(self) -> bool:
        """True if no closed batch is left."""
        return not any(queue.full for queue in self.queues.values())
