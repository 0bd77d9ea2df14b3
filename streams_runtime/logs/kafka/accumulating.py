"""Records of a producer that are not acknowledged yet, as Kafka's own batches. One thread fills them, another sends
them.

Rules: a batch is closed before it would exceed 256 KiB or the limit of its topic; only a single record can be larger.
Records of a partition keep their order. A batch that the brokers refuse is split until each part is taken or is a
single record. Of each partition one batch at a time is on its way, so a batch that is sent
again never overtakes another. A batch without a sequence number was never sent and can be dropped without a trace.
Source: `RecordAccumulator`, `ProducerBatch`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence

from assignor.types import TopicPartition
from kafka_client.record_batches.record_batch_v2 import BatchHeader, decoded, encoded, number, row_writer
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import BATCH_BYTES
from streams_runtime.logs.record_limits import AnyRecord


class Batch:
    """`rows`: what it takes. `is_numbered`: it may have been sent."""

    __slots__ = ("_codec", "_is_transactional", "_limit", "_payload", "is_numbered", "rows")

    def __init__(self, limit: int, codec: int, *, is_transactional: bool) -> None:
        self.rows = row_writer(limit, BATCH_BYTES)
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
        """Of keys, values and headers, in bytes."""
        return self.rows.size

    def records(self) -> Iterator[AnyRecord]:
        """Of a batch that was sent."""
        assert self._payload is not None, "it was sent"
        view = memoryview(self._payload)
        _, timestamps_ms, keys, values, headers = decoded(view, BatchHeader.of(view))
        return zip(keys, values, timestamps_ms, headers or [()] * self.count, strict=True)

    def halves(self) -> tuple[Batch, Batch]:
        """Of a batch that was sent, has several records, and was not taken."""
        parts = tuple(Batch(self._limit, self._codec, is_transactional=self._is_transactional) for _ in range(2))
        first = self.count // 2
        for place, (key, value, timestamp_ms, headers) in enumerate(self.records()):
            taken = parts[place >= first].rows.append(key, value, timestamp_ms, headers)
            assert taken, "all of them were in one batch"
        return parts[0], parts[1]

    def numbered(self, producer_id: int, epoch: int, sequence: int) -> bytearray:
        """The bytes to send, the same for every try until `PartitionQueue.renumber`."""
        if self._payload is None:
            self._payload = encoded(self.rows, self._codec, is_transactional=self._is_transactional)
        if not self.is_numbered:
            number(self._payload, producer_id, epoch, sequence)
            self.is_numbered = True
        return self._payload


class PartitionQueue:
    """`full`: closed batches, oldest first; the first may be on its way. `open`: the batch that takes records.

    `limit`: the most bytes that the topic takes as one batch.
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
        """True when a batch became full."""
        if self._opened().rows.append(key, value, timestamp_ms, headers):
            return False
        self.close()
        self._opened().rows.append(key, value, timestamp_ms, headers)  # the first record of a batch is always taken
        return True

    def extend(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], timestamps_ms: Sequence[int]
    ) -> tuple[int, bool]:
        """`append` for each row, without headers. Gives the bytes of all, and whether a batch became full."""
        at, stop = 0, len(timestamps_ms)
        if not len(keys) == len(values) == stop:
            raise ValueError(f"{len(keys)} keys, {len(values)} values and {stop} timestamps are no rows")
        total, is_full = 0, False
        while at < stop:
            batch = self._opened()
            before = batch.size
            at = batch.rows.extend(keys, values, timestamps_ms, at, stop)
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
        """The producer id is new: batches get new sequence numbers when they are sent next."""
        self.sequence = 0
        for batch in self.full:
            batch.is_numbered = False


class Accumulator:
    """Open batches are closed when they hold 256 KiB together. `lock` guards everything here.

    `bytes`: of records that are not acknowledged. `last_offsets`: of the last acknowledged record of each partition.
    `lingers`: a record waits for others to be sent with it, `linger.ms` at most. `has_full`: a batch has become full,
    and the sender is not started for it yet.
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
        """True when the sender has to be notified: a batch is full, or this is the first record that waits."""
        with self.lock:
            return self._appended(size, is_full=queue.append(key, value, timestamp_ms, headers))

    def append_columns(
        self,
        queue: PartitionQueue,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
    ) -> bool:
        """Rows without headers. True as for `append`."""
        with self.lock:
            total, is_full = queue.extend(keys, values, timestamps_ms)
            return self._appended(total, is_full=is_full)

    def _appended(self, size: int, *, is_full: bool) -> bool:
        self.bytes += size
        self.open_bytes += size
        is_first = not self.lingers
        self.lingers = True  # also after a full batch: the record that did not fit in is in the next one
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
        """The batch to send next, by partition."""
        with self.lock:
            return {partition: queue.full[0] for partition, queue in self.queues.items() if queue.full}

    def done(self, partition: TopicPartition, batch: Batch, base_offset: int | None) -> None:
        """`base_offset`: at which the batch was acknowledged.

        None: the offset is not known, or the batch is given up.
        """
        with self.lock:
            queue = self.queues[partition]
            if queue.full and queue.full[0] is batch:
                queue.full.popleft()
                self.bytes -= batch.size
            if base_offset is not None and base_offset >= 0:
                self.last_offsets[partition] = base_offset + batch.count - 1

    def split(self, partition: TopicPartition, batch: Batch) -> None:
        """The brokers have refused the batch for one or some of its records, and have taken none of it.

        Source: `RecordAccumulator.splitAndReenqueue`.
        """
        halves = batch.halves()
        with self.lock:
            queue = self.queues[partition]
            if queue.full and queue.full[0] is batch:
                queue.full.popleft()
                queue.full.extendleft(reversed(halves))

    def drop(self) -> bool:
        """Drop everything that is not acknowledged. True when some of it may have been sent."""
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
        """Whether no closed batch is left."""
        return not any(queue.full for queue in self.queues.values())
