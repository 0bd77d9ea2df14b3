"""The data of one partition in a fetch response. The batches are decoded one by one as the consumer reads them.

Rules: the consumer gets no records from control batches (transaction markers). Under READ_COMMITTED, the consumer also
gets no records from batches of aborted transactions. The position moves past batches without records, as it moves past
gaps of compaction. So a reader can reach the end offset even if the last batches contain only transaction markers. For
each aborted transaction, the broker's answer contains the producer id and the first offset. The transaction ends at its
marker. If a batch cannot be read, for example because its checksum is wrong, each call of `read` raises an error. Only
`seek` can skip a batch that cannot be read. The library aiokafka decodes the message formats that are older than
version 2.

Rules for a consumer with `whole_transactions`: an `UnfinishedTransaction` keeps the records of a transaction until its
end was read. The broker returns no record of an open transaction, and aborted records are hidden. So each kept record
belongs to a committed transaction, whose marker is in the log or was removed by compaction. The transaction ends at the
first of these places:
- At a marker with the producer id of the transaction. A marker of another producer ends nothing: it may abort the
  transaction of a fenced producer while the transaction of its successor goes on.
- Before a visible batch with another producer id, with another producer epoch, or without a transaction. Only one
  producer at a time commits transactions in a changelog, so the earlier transaction has lost its marker. If several
  producers write a topic at the same time, there may be no offset at which all transactions are complete. Then each
  transaction is split where the producer changes, so that a bounded number of records is kept.
- At the high watermark of the next response. The request for this response was sent when the committed record had
  already been returned, so the transaction's marker was below this high watermark. After a change of the leader, the
  high watermark may be lower for a moment. So the highest high watermark counts that this consumer has got.
The last rule also ends a transaction without a marker at the end of the partition. So a reader always reaches the end
offset.
Source: `CompletedFetch`. Differs from Kafka: a restore of Kafka Streams may stop in the middle of a transaction.
"""

import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

from assignor.types import TopicPartition
from kafka_client.record_batches.batch_rows import Columns
from kafka_client.record_batches.record_batch_v2 import CONTROL, TRANSACTIONAL, BatchHeader, check, decoded
from streams_runtime.logs.base import RecordBatch, concatenated
from streams_runtime.logs.log_errors import LogError

AbortedTransaction = tuple[int, int]
"""The producer id of an aborted transaction, and its first offset in the partition."""

_LENGTH = struct.Struct(">qi")  # The first offset, and the number of bytes that follow.
_LEAST_LENGTH = 14  # The length of an empty message of version 0, which is the shortest format.
_CRC, _CRC_AT = struct.Struct(">I"), 12  # The CRC of a message of version 0 or 1.
_MAGIC_AT = 16
_OF_MESSAGES = (0, 1)
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_CONTROL_TYPE = struct.Struct(">hh")  # version, type
_ABORT = 0
_NO_TIMESTAMP = -1
_NO_PRODUCER = (-1, -1)


class UnfinishedTransaction:
    """Keeps the records of the transaction at the position of one partition, until the end of the transaction was read.
    All responses for the partition share this object.

    `batches`: the kept records; empty outside of a transaction. `next_offset`: the offset after all batches that were
    read.
    """

    __slots__ = ("_ends_by", "_high_watermark", "_producer", "batches", "next_offset")

    def __init__(self) -> None:
        self.batches: list[RecordBatch] = []
        self.next_offset = 0
        self._producer = _NO_PRODUCER  # The producer id and the epoch of the kept records.
        self._ends_by: int | None = None
        self._high_watermark = 0

    def is_over_at(self, high_watermark: int) -> bool:
        """Returns True if a response without records and with this high watermark shows that the kept transaction is
        complete.
        """
        return bool(self.batches) and max(self._high_watermark, high_watermark) <= self.next_offset

    def next_response(self, high_watermark: int) -> list[RecordBatch]:
        """Begin to read the next response. Returns the kept records if their transaction is complete."""
        self._high_watermark = max(self._high_watermark, high_watermark)
        if self.batches and self._ends_by is None:
            self._ends_by = self._high_watermark
        return self._complete_at_watermark()

    def add(self, header: BatchHeader | None, records: RecordBatch | None, next_offset: int) -> list[RecordBatch]:
        """Take the next batch. Returns the records whose transaction is complete now.

        `header`: None for a message that is older than version 2. `records`: the visible records of the batch; None if
        there are none. `next_offset`: the offset after the batch.
        """
        self.next_offset = next_offset
        ends = header is not None and header.attributes & CONTROL and header.producer_id == self._producer[0]
        producer = self._producer if records is None else _transactional_producer(header)
        complete = self._complete() if ends or producer != self._producer else []
        if records is not None and producer == _NO_PRODUCER:
            complete.append(records)
        elif records is not None:
            self._producer = producer
            self.batches.append(records)
        return complete + self._complete_at_watermark()

    def _complete_at_watermark(self) -> list[RecordBatch]:
        is_over = self._ends_by is not None and self._ends_by <= self.next_offset
        return self._complete() if is_over else []

    def _complete(self) -> list[RecordBatch]:
        complete, self.batches = self.batches, []
        self._producer, self._ends_by = _NO_PRODUCER, None
        return complete


def _transactional_producer(header: BatchHeader | None) -> tuple[int, int]:
    if header is None or not header.attributes & TRANSACTIONAL:
        return _NO_PRODUCER
    return header.producer_id, header.producer_epoch


class CompletedFetch:
    """The data of one partition in a fetch response. `end_offset`: the offset after all records of the response."""

    __slots__ = (
        "_aborted",
        "_aborting",
        "_at",
        "_high_watermark",
        "_partition",
        "_position",
        "_records",
        "_starts",
        "_transaction",
        "end_offset",
    )

    def __init__(
        self,
        partition: TopicPartition,
        records: bytes,
        position: int,
        aborted: Iterable[AbortedTransaction] | None,
        *,
        high_watermark: int = 0,
        transaction: UnfinishedTransaction | None = None,
    ) -> None:
        """`aborted`: the aborted transactions that the broker listed; None under READ_UNCOMMITTED. `transaction`: the
        transaction at `position`; None if `read` may return a part of a transaction. Only a fetch with a `transaction`
        needs `high_watermark`.
        """
        self._partition = partition
        self._records = memoryview(records)
        self._starts, end_offset = _bounds(records)
        self._at = 0
        # sorted in falling order of the first offset, so that `pop` returns the transaction that begins next
        self._aborted = None if aborted is None else sorted(aborted, key=lambda each: each[1], reverse=True)
        self._aborting: set[int] = set()
        self._position = position
        self._high_watermark = high_watermark
        self._transaction = transaction
        self.end_offset = max(position, end_offset)

    @property
    def is_read(self) -> bool:
        return self._at >= len(self._starts) - 1

    @property
    def next_offset(self) -> int:
        """The offset after the records that `read` has returned."""
        kept = self._transaction
        return kept.batches[0].offsets[0] if kept is not None and kept.batches else self._position

    def read(self, most: int = 1) -> RecordBatch | None:
        """Returns the records of the next batches. Reads batches until the result has `most` or more records, or until
        no batch is left. With a `transaction`, reads also the rest of the last transaction. Returns None if no records
        are left, or only records of an unfinished transaction.

        Raises LogError.
        """
        kept = self._transaction
        found = [] if kept is None or self._at else kept.next_response(self._high_watermark)
        count = sum(map(len, found))
        while (count < most or (kept is not None and kept.batches)) and not self.is_read:
            try:
                batches = self._next()
            except LogError:
                if found:
                    break  # the next call of `read` raises the error
                raise
            for records in batches:
                found.append(records)
                count += len(records)
        return concatenated(found) if found else None

    def _next(self) -> Sequence[RecordBatch]:
        """Reads the next batch, and moves the position past it. Returns the records of the batch from the old position
        on, if there are any. With a `transaction`, returns the records that are complete with this batch. Raises
        LogError.
        """
        batch = self._records[self._starts[self._at] : self._starts[self._at + 1]]
        try:
            next_offset, columns, header = self._columns(batch)
        except ValueError as error:
            offset, _ = _LENGTH.unpack_from(batch)
            raise LogError(f"batch of {self._partition} at offset {offset}: {error}") from error
        self._at += 1
        position = self._position
        if next_offset <= position:
            return ()  # the broker returns whole batches, and this batch lies before the position
        self._position = next_offset
        records = None  # The batch is hidden, or compaction has removed all its records at and after the position.
        if columns is not None and columns[0] and columns[0][-1] >= position:
            records = RecordBatch(self._partition, *columns)
            records = records.part(bisect_left(records.offsets, position), len(records))
        if self._transaction is not None:
            return self._transaction.add(header, records, next_offset)
        return () if records is None else (records,)

    def _columns(self, batch: memoryview) -> tuple[int, Columns | None, BatchHeader | None]:
        """Returns the offset after the batch, the batch's records, and its header. The records are None if the batch is
        hidden from readers or lies before the position. The header is None for a message of version 0 or 1.
        """
        if len(batch) < _LENGTH.size + _LEAST_LENGTH:
            raise ValueError(f"it says that it has {_LENGTH.unpack_from(batch)[1]} bytes more")
        if batch[_MAGIC_AT] in _OF_MESSAGES:
            return *_of_messages(batch), None
        header = BatchHeader.of(batch)
        next_offset = header.next_offset
        while self._aborted and self._aborted[-1][1] <= header.base_offset:
            self._aborting.add(self._aborted.pop()[0])
        is_control = header.attributes & CONTROL
        if next_offset <= self._position and not is_control:
            return next_offset, None, header
        check(batch, header)
        is_aborted = header.attributes & TRANSACTIONAL and header.producer_id in self._aborting
        if is_control:
            if is_aborted and _is_abort(decoded(batch, header)):
                self._aborting.discard(header.producer_id)
            return next_offset, None, header
        return next_offset, None if is_aborted else decoded(batch, header), header


def _is_abort(marker: Columns) -> bool:
    keys = marker[2]
    if not keys or keys[0] is None or len(keys[0]) < _CONTROL_TYPE.size:
        raise ValueError("it is a marker without a type")
    return bool(_CONTROL_TYPE.unpack_from(keys[0])[1] == _ABORT)


def _of_messages(batch: memoryview) -> tuple[int, Columns]:
    """Decodes a message of version 0 or 1, which may be a wrapper that contains several messages."""
    if _CRC.unpack_from(batch, _CRC_AT)[0] != zlib.crc32(batch[_MAGIC_AT:]):
        raise ValueError("its checksum is wrong")
    try:
        messages: Any = MemoryRecords(bytes(batch)).next_batch()
        found: list[Any] = list(messages)
    except CorruptRecordException as error:
        raise ValueError(str(error)) from error
    return messages.next_offset, (
        [each.offset for each in found],
        [_NO_TIMESTAMP if each.timestamp is None else each.timestamp for each in found],
        [each.key for each in found],
        [each.value for each in found],
        None,
    )


def _bounds(records: bytes) -> tuple[Sequence[int], int]:
    """Finds the complete batches in the bytes. Returns two values. The first value is a list of byte positions: the
    start of each batch, and then the end of the last batch. The second value is the offset after the last batch, or -1
    if there is no batch. The search stops after a batch that is too short to be valid. Source: the fixed part of
    `DefaultRecordBatch`.
    """
    starts, end, at = [0], -1, 0
    while len(records) - at >= _LENGTH.size:
        first_offset, length = _LENGTH.unpack_from(records, at)
        after = at + _LENGTH.size + max(0, length)
        if after > len(records):
            break
        starts.append(after)
        if length < _LEAST_LENGTH:
            break
        delta = 0
        if (
            records[at + _MAGIC_AT] not in _OF_MESSAGES
            and after - at >= _LAST_OFFSET_DELTA_AT + _LAST_OFFSET_DELTA.size
        ):
            (delta,) = _LAST_OFFSET_DELTA.unpack_from(records, at + _LAST_OFFSET_DELTA_AT)
        end = max(end, first_offset + delta + 1)
        at = after
    return starts, end
