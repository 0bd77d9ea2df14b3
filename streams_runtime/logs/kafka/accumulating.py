"""Records of a producer that are not acknowledged yet, as Kafka's own batches: filled by one thread, sent by another.

Rules: a batch is closed before it would grow beyond 256 KiB or what its topic takes, and only a single record can be
larger. Records of a partition keep their order; of one partition one batch at a time is on its way, so a batch that has
to be sent again never passes another. What a batch has no sequence number yet can still be dropped without a trace.
Source: `RecordAccumulator`, `ProducerBatch`.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from assignor.types import TopicPartition
from streams_runtime.logs.record_batches import BATCH_BYTES
from streams_runtime.records import Headers

_MAGIC = 2
_NO_HEADERS: list[tuple[str, bytes | None]] = []

# where things are in a batch of version 2, in bytes
_CRC, _CRC_AT, _CHECKED_FROM = struct.Struct(">I"), 17, 21
_PRODUCER, _PRODUCER_AT = struct.Struct(">qhi"), 43


class Batch:
    """`size`: of keys, values and headers, in bytes. `is_numbered`: it may have been sent."""

    __slots__ = ("builder", "count", "is_numbered", "payload", "size")

    def __init__(self, builder: Any, size: int) -> None:
        """With its first record in it."""
        self.builder = builder
        self.count = 1
        self.size = size
        self.is_numbered = False
        self.payload: bytearray | None = None

    def numbered(self, producer_id: int, epoch: int, sequence: int) -> bytes:
        """The bytes to send; the same for every try, until `unnumber`."""
        if not self.is_numbered:
            if self.payload is None:
                self.payload = self.builder.build()  # it compresses in place, so it must not be built twice
            _PRODUCER.pack_into(self.payload, _PRODUCER_AT, producer_id, epoch, sequence)
            _CRC.pack_into(self.payload, _CRC_AT, calc_crc32c(bytes(self.payload[_CHECKED_FROM:])))
            self.is_numbered = True
        assert self.payload is not None, "it was built above"
        return bytes(self.payload)


class PartitionQueue:
    """`full`: closed batches, oldest first; the first may be on its way. `open`: the one that records go into.

    `limit`: what the topic takes as one batch, in bytes.
    """

    __slots__ = ("_codec", "_is_transactional", "_limit", "full", "open", "sequence")

    def __init__(self, limit: int, codec: int, *, is_transactional: bool) -> None:
        self._limit = limit
        self._codec = codec
        self._is_transactional = is_transactional
        self.full: deque[Batch] = deque()
        self.open: Batch | None = None
        self.sequence = 0

    def append(self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers, size: int) -> bool:
        """Whether a batch became full by it."""
        batch = self.open
        given = list(headers) if headers else _NO_HEADERS
        if batch is not None:
            if (
                batch.size + size <= BATCH_BYTES
                and batch.builder.append(batch.count, timestamp_ms, key, value, given) is not None
            ):
                batch.count += 1
                batch.size += size
                return False
            self.close()
        # a record that is larger than the limit is taken as the first of its batch
        builder = DefaultRecordBatchBuilder(_MAGIC, self._codec, self._is_transactional, -1, -1, -1, self._limit)
        builder.append(0, timestamp_ms, key, value, given)
        self.open = Batch(builder, size)
        return batch is not None

    def close(self) -> None:
        if self.open is not None:
            self.full.append(self.open)
            self.open = None

    def renumber(self) -> None:
        """For a new producer id: batches that were numbered get new numbers when they are sent next."""
        self.sequence = 0
        for batch in self.full:
            batch.is_numbered = False


class Accumulator:
    """Batches are closed when 256 KiB are in open ones, of whatever partitions. `lock` guards all of it.

    `bytes`: of what is not acknowledged. `last_offsets`: of what is.

    `lingers`: some record waits for others to be sent with. `has_full`: a batch became full, and nobody was told yet.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
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
        """Whether the sender has to be told: something is full, or this is the first record that waits for others."""
        with self.lock:
            is_full = queue.append(key, value, timestamp_ms, headers, size)
            self.bytes += size
            self.open_bytes += size
            if self.open_bytes >= BATCH_BYTES:
                self._close_open()
                is_full = True
            if is_full:
                self.has_full = True
            elif self.lingers:
                return False
            else:
                self.lingers = True
            return True

    def close_open(self) -> None:
        with self.lock:
            self._close_open()

    def _close_open(self) -> None:
        self.lingers = False
        self.open_bytes = 0
        for queue in self.queues.values():
            queue.close()

    def heads(self) -> dict[TopicPartition, Batch]:
        """Of every partition the batch to send next."""
        with self.lock:
            return {partition: queue.full[0] for partition, queue in self.queues.items() if queue.full}

    def done(self, partition: TopicPartition, batch: Batch, base_offset: int | None) -> None:
        """Acknowledged at that offset; None: it is not known where, or it was given up."""
        with self.lock:
            queue = self.queues[partition]
            if queue.full and queue.full[0] is batch:
                queue.full.popleft()
                self.bytes -= batch.size
            if base_offset is not None and base_offset >= 0:
                self.last_offsets[partition] = base_offset + batch.count - 1

    def drop(self) -> bool:
        """Everything that is not acknowledged; whether some of it may have been sent."""
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
        """Of closed batches."""
        return not any(queue.full for queue in self.queues.values())
