"""Records of a producer that are not acknowledged yet, as Kafka's own batches. One thread fills them, another sends
them.

Rules: a batch is closed before it would exceed 256 KiB or the limit of its topic; only a single record can be larger.
Records of a partition keep their order. Of each partition one batch at a time is on its way, so a batch that is sent
again never overtakes another. A batch without a sequence number was never sent and can be dropped without a trace.
Source: `RecordAccumulator`, `ProducerBatch`.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Sequence
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
        """The bytes to send, the same for every try until `PartitionQueue.renumber`."""
        if not self.is_numbered:
            if self.payload is None:
                self.payload = self.builder.build()  # it compresses in place, so it must not be built twice
            _PRODUCER.pack_into(self.payload, _PRODUCER_AT, producer_id, epoch, sequence)
            _CRC.pack_into(self.payload, _CRC_AT, calc_crc32c(bytes(self.payload[_CHECKED_FROM:])))
            self.is_numbered = True
        assert self.payload is not None, "it was built above"
        return bytes(self.payload)


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

    def append(self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers, size: int) -> bool:
        """True when a batch became full."""
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
        # the first record of a batch is taken even when it is larger than the limit
        builder = DefaultRecordBatchBuilder(_MAGIC, self._codec, self._is_transactional, -1, -1, -1, self._limit)
        builder.append(0, timestamp_ms, key, value, given)
        self.open = Batch(builder, size)
        return batch is not None

    def extend(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], timestamps_ms: Sequence[int]
    ) -> tuple[int, bool]:
        """`append` for each row, without headers. Gives the bytes of all, and whether a batch became full."""
        total = count = size = 0
        is_full, add = False, None
        if (batch := self.open) is not None:
            count, size, add = batch.count, batch.size, batch.builder.append
        for key, value, timestamp_ms in zip(keys, values, timestamps_ms, strict=True):
            of_row = (0 if key is None else len(key)) + (0 if value is None else len(value))
            total += of_row
            size += of_row
            if (
                add is not None
                and size <= BATCH_BYTES
                and add(count, timestamp_ms, key, value, _NO_HEADERS) is not None
            ):
                count += 1
                continue
            if batch is not None:
                batch.count, batch.size = count, size - of_row
            is_full |= self.append(key, value, timestamp_ms, (), of_row)
            batch = self.open
            assert batch is not None, "a row was added to it"
            count, size, add = batch.count, batch.size, batch.builder.append
        if batch is not None:
            batch.count, batch.size = count, size
        return total, is_full

    def close(self) -> None:
        if self.open is not None:
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
    `lingers`: a record waits for others to be sent with it. `has_full`: a batch has become full, and the sender has not
    been told yet.
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
        """True when the sender has to be told: a batch is full, or this is the first record that waits for others."""
        with self.lock:
            return self._appended(size, is_full=queue.append(key, value, timestamp_ms, headers, size))

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
