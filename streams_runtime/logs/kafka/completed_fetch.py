"""The data of one partition in a fetch response. The batches are decoded one by one as the consumer reads them.

Rules: the consumer gets no records from control batches (transaction markers). Under READ_COMMITTED, the consumer also
gets no records from batches of aborted transactions. The position moves past batches without records, as it moves past
gaps of compaction. So a reader can reach the end offset even if the last batches contain only transaction markers. For
each aborted transaction, the broker's answer contains the producer id and the first offset. The transaction ends at its
marker. If a batch cannot be read, for example because its checksum is wrong, each call of `read` raises an error. Only
`seek` can skip a batch that cannot be read. The library aiokafka decodes the message formats that are older than
version 2.
Source: `CompletedFetch`.
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


class CompletedFetch:
    """The data of one partition in a fetch response. `next_offset`: the offset after the records that `read` has
    returned. `end_offset`: the offset after all records of the response.
    """

    __slots__ = ("_aborted", "_aborting", "_at", "_partition", "_records", "_starts", "end_offset", "next_offset")

    def __init__(
        self, partition: TopicPartition, records: bytes, position: int, aborted: Iterable[AbortedTransaction] | None
    ) -> None:
        """`aborted`: the aborted transactions that the broker listed; None under READ_UNCOMMITTED."""
        self._partition = partition
        self._records = memoryview(records)
        self._starts, end_offset = _bounds(records)
        self._at = 0
        # sorted in falling order of the first offset, so that `pop` returns the transaction that begins next
        self._aborted = None if aborted is None else sorted(aborted, key=lambda each: each[1], reverse=True)
        self._aborting: set[int] = set()
        self.next_offset = position
        self.end_offset = max(position, end_offset)

    @property
    def is_read(self) -> bool:
        return self._at >= len(self._starts) - 1

    def read(self, most: int = 1) -> RecordBatch | None:
        """Returns the records of the next batches. Reads batches until the result has `most` or more records, or until
        no batch is left. Returns None if no records are left.

        Raises LogError.
        """
        found: list[RecordBatch] = []
        count = 0
        while count < most and not self.is_read:
            try:
                records = self._next()
            except LogError:
                if found:
                    break  # the next call of `read` raises the error
                raise
            if records is not None:
                found.append(records)
                count += len(records)
        return concatenated(found) if found else None

    def _next(self) -> RecordBatch | None:
        """Reads the next batch, and moves the position past it. Returns the records of the batch from the old position
        on, or None if there are none. Raises LogError.
        """
        batch = self._records[self._starts[self._at] : self._starts[self._at + 1]]
        try:
            next_offset, columns = self._columns(batch)
        except ValueError as error:
            offset, _ = _LENGTH.unpack_from(batch)
            raise LogError(f"batch of {self._partition} at offset {offset}: {error}") from error
        self._at += 1
        position = self.next_offset
        if next_offset <= position:
            return None  # the broker returns whole batches, and this batch lies before the position
        self.next_offset = next_offset
        if columns is None or not columns[0] or columns[0][-1] < position:
            return None  # The batch is hidden, or compaction has removed all its records at and after the position.
        records = RecordBatch(self._partition, *columns)
        return records.part(bisect_left(records.offsets, position), len(records))

    def _columns(self, batch: memoryview) -> tuple[int, Columns | None]:
        """Returns the offset after the batch, and the batch's records. The records are None if the batch is hidden from
        readers or lies before the position.
        """
        if len(batch) < _LENGTH.size + _LEAST_LENGTH:
            raise ValueError(f"it says that it has {_LENGTH.unpack_from(batch)[1]} bytes more")
        if batch[_MAGIC_AT] in _OF_MESSAGES:
            return _of_messages(batch)
        header = BatchHeader.of(batch)
        next_offset = header.next_offset
        while self._aborted and self._aborted[-1][1] <= header.base_offset:
            self._aborting.add(self._aborted.pop()[0])
        is_control = header.attributes & CONTROL
        if next_offset <= self.next_offset and not is_control:
            return next_offset, None
        check(batch, header)
        is_aborted = header.attributes & TRANSACTIONAL and header.producer_id in self._aborting
        if is_control:
            if is_aborted and _is_abort(decoded(batch, header)):
                self._aborting.discard(header.producer_id)
            return next_offset, None
        return next_offset, None if is_aborted else decoded(batch, header)


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
