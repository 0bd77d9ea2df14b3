"""What a fetch has brought of one partition, decoded batch by batch as it is asked for.

Rules: control batches (transaction markers) give no records, nor do batches of aborted transactions under
READ_COMMITTED. The position moves past them, as it moves past gaps of compaction, so a reader reaches the end offset
even when only markers lie before it. The broker lists aborted transactions by producer and first offset; each ends with
its marker. A batch with a wrong checksum is an error and gives no records. Source: `CompletedFetch`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.memory_records import MemoryRecords

from assignor.types import TopicPartition
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.errors import LogError
from streams_runtime.records import Headers

AbortedTransaction = tuple[int, int]
"""Producer id, first offset in the partition."""

_LENGTH = struct.Struct(">qi")  # first offset, bytes after these
_MAGIC_AT = 16
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23


class CompletedFetch:
    """`next_offset`: where to read on after the records given so far; `end_offset`: after all of them."""

    __slots__ = ("_aborted", "_aborting", "_partition", "_records", "end_offset", "next_offset")

    def __init__(
        self,
        partition: TopicPartition,
        records: bytes,
        position: int,
        aborted: Iterable[AbortedTransaction] | None,
    ) -> None:
        """`aborted`: None under READ_UNCOMMITTED."""
        self._partition = partition
        self._records = MemoryRecords(records)
        self._aborted = None if aborted is None else sorted(aborted, key=lambda each: each[1], reverse=True)
        self._aborting: set[int] = set()
        self.next_offset = position
        self.end_offset = max(position, _end_offset(records))

    @property
    def is_read(self) -> bool:
        return not self._records.has_next()

    def read(self) -> RecordBatch | None:
        """The records of the next batch that has any. None when there are no more. Raises LogError."""
        while self._records.has_next():
            batch: Any = self._records.next_batch()
            if batch.next_offset <= self.next_offset:
                self._is_visible(batch)
                continue  # the broker gives whole batches, and this one lies before the position
            if not batch.validate_crc():
                raise LogError(f"batch of {self._partition} at offset {batch.base_offset}: its checksum is wrong")
            found = self._columns(list(batch)) if self._is_visible(batch) else None
            self.next_offset = batch.next_offset
            if found is not None:
                return found
        return None

    def _is_visible(self, batch: Any) -> bool:
        if self._aborted is not None and batch.producer_id is not None:
            while self._aborted and self._aborted[-1][1] <= batch.base_offset:
                self._aborting.add(self._aborted.pop()[0])
            if batch.is_control_batch:
                if self._aborting and ControlRecord.parse(next(iter(batch)).key) == ABORT_MARKER:
                    self._aborting.discard(batch.producer_id)
                return False
            return not (batch.is_transactional and batch.producer_id in self._aborting)
        return not batch.is_control_batch

    def _columns(self, records: list[Any]) -> RecordBatch | None:
        if records and records[0].offset < self.next_offset:
            records = [record for record in records if record.offset >= self.next_offset]
        if not records:
            return None  # compaction left the batch without a record
        first, last = records[0].offset, records[-1].offset
        headers: list[list[tuple[str, bytes | None]]] = [record.headers for record in records]
        some_headers: list[Headers] | None = [tuple(each) for each in headers] if any(headers) else None
        return RecordBatch(
            self._partition,
            range(first, last + 1) if last - first == len(records) - 1 else [record.offset for record in records],
            [record.timestamp for record in records],
            [record.key for record in records],
            [record.value for record in records],
            some_headers,
        )


def _end_offset(records: bytes) -> int:
    """After the last whole batch; -1 when there is none. Source: the fixed part of `DefaultRecordBatch`."""
    at, end = 0, -1
    while len(records) - at >= _LENGTH.size:
        first_offset, length = _LENGTH.unpack_from(records, at)
        if at + _LENGTH.size + length > len(records):
            break
        delta = (
            _LAST_OFFSET_DELTA.unpack_from(records, at + _LAST_OFFSET_DELTA_AT)[0] if records[at + _MAGIC_AT] > 1 else 0
        )
        end = first_offset + delta + 1
        at += _LENGTH.size + length
    return end
