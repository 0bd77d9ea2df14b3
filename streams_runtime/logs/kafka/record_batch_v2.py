"""Kafka's record batches of version 2: columns from the bytes of one, and the bytes of rows.

Rules: big-endian. The checksum is CRC-32C of everything after it. Records that compression makes no smaller are written
as they are. Records are read and written by `batch_rows` where it is compiled, and else by aiokafka (`library_rows`):
this is the one place that chooses. Source: `DefaultRecordBatch`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from typing import NamedTuple, Protocol

from aiokafka.record.util import calc_crc32c

from streams_runtime.logs.kafka import batch_compression, batch_rows, library_rows
from streams_runtime.logs.kafka.batch_rows import HEADER_BYTES, Columns, Written
from streams_runtime.records import Headers

MAGIC = 2
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CODEC, _APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20
_CRC, _CRC_AT, _CHECKED_FROM = struct.Struct(">I"), 17, 21
_PRODUCER, _PRODUCER_AT = struct.Struct(">qhi"), 43
_LENGTH_FROM = 12
_NO_ID = -1

IS_COMPILED = batch_rows.__file__.endswith(tuple(EXTENSION_SUFFIXES))


class RowWriter(Protocol):
    """`batch_rows` says what it does."""

    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int: ...
    def extend(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
        start: int,
        stop: int,
    ) -> int: ...
    def append(self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> bool: ...
    def finish(self) -> Written: ...


def row_writer(limit: int, most: int) -> RowWriter:
    """For a batch of at most `limit` bytes, of which keys, values and headers are at most `most`."""
    return batch_rows.row_writer(limit, most) if IS_COMPILED else library_rows.row_writer(limit, most)


class BatchHeader(NamedTuple):
    """What stands before the records. `length`: bytes after it. `producer_id`: -1 without one."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def of(cls, batch: memoryview) -> BatchHeader:
        """Raises ValueError for what cannot be a header."""
        if len(batch) < HEADER_BYTES:
            raise ValueError(f"it has {len(batch)} bytes, fewer than a header")
        header = tuple.__new__(cls, _HEADER.unpack_from(batch))
        if header.magic != MAGIC:
            raise ValueError(f"its version is {header.magic}, and this program knows {MAGIC}")
        if header.last_offset_delta < 0 or header.base_offset < 0:
            raise ValueError(f"it begins at {header.base_offset} and ends at {header.next_offset}")
        return header

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1


def check(batch: memoryview, header: BatchHeader) -> None:
    """Raises ValueError when its checksum is wrong."""
    if header.crc != calc_crc32c(batch[_CHECKED_FROM:]):
        raise ValueError("its checksum is wrong")


def decoded(batch: memoryview, header: BatchHeader) -> Columns:
    """Of a checked batch. Raises ValueError that says what is wrong with it."""
    codec = header.attributes & _CODEC
    packed = batch[HEADER_BYTES:]
    body = bytes(packed) if codec == batch_compression.NONE else batch_compression.decompressed(codec, packed)
    append_time_ms = header.max_timestamp_ms if header.attributes & _APPEND_TIME else None
    read = batch_rows.read_rows if IS_COMPILED else library_rows.read_rows
    columns = read(body, header.record_count, header.base_offset, header.base_timestamp_ms, append_time_ms)
    offsets = columns[0]
    if offsets and offsets[-1] >= header.next_offset:
        raise ValueError(f"it has the offset {offsets[-1]}, and ends at {header.next_offset}")
    return columns


def encoded(rows: RowWriter, codec: int, *, is_transactional: bool) -> bytearray:
    """A batch of rows, at least one, that nobody has numbered yet. Nothing can be added to `rows` afterwards."""
    count = rows.count
    batch, first_ms, max_ms = rows.finish()
    attributes = TRANSACTIONAL if is_transactional else 0
    if codec != batch_compression.NONE:
        packed = batch_compression.compressed(codec, bytes(memoryview(batch)[HEADER_BYTES:]))
        if len(packed) < len(batch) - HEADER_BYTES:
            del batch[HEADER_BYTES:]
            batch += packed
            attributes |= codec
    _HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - _LENGTH_FROM,
        _NO_ID,
        MAGIC,
        0,
        attributes,
        count - 1,
        first_ms,
        max_ms,
        _NO_ID,
        _NO_ID,
        _NO_ID,
        count,
    )
    return batch


def number(batch: bytearray, producer_id: int, epoch: int, sequence: int) -> None:
    """Write the producer's numbers and the checksum into the batch."""
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, epoch, sequence)
    _CRC.pack_into(batch, _CRC_AT, calc_crc32c(memoryview(batch)[_CHECKED_FROM:]))
