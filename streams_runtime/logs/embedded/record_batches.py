"""Encodes and decodes batches of records, column by column. Decoding a batch takes less than a microsecond for each
record.

Format: little-endian. A batch begins with a header: a CRC-32, the version, the flags, the number of records, the total
size of the keys, and the total size of the values. The CRC-32 covers all bytes after itself. The columns follow in this
order: offset deltas to the first record, timestamps, key lengths, value lengths, keys, values, headers. The offset
deltas are left out if there are no gaps. The headers are left out if no record has headers. The length of a null is -1.
A flag marks a batch whose transaction continues in the next batch of the partition. Releases without this flag ignore
it, and write each batch without it.
Offsets in a batch are relative, so a batch can be encoded before its base offset is known. Keys and values are decoded
with `BytesIO.read`. `map` calls `BytesIO.read` for each entry of a column in C code, without any Python bytecode.

Source: `DefaultRecordBatch` (magic 2). Differs from Kafka: a batch is stored as columns, and is not compressed.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections.abc import Sequence
from io import BytesIO
from typing import NamedTuple

from assignor.types import TopicPartition
from streams_runtime.common.records import NAME_ERRORS, BytesColumn, Headers
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.log_errors import LogError

_VERSION = 1
_SPARSE, _NULL_KEYS, _NULL_VALUES, _HEADERS, _CONTINUES = 1, 2, 4, 8, 16
_CRC = struct.Struct("<I")
_PREAMBLE = struct.Struct("<BBIII")  # version, flags, count, bytes of all keys, bytes of all values
_COUNT = struct.Struct("<I")
_HEADER_SIZES = struct.Struct("<Ii")  # number of bytes of the name; number of bytes of the value, or -1 for null
_FLAGS_AT = _CRC.size + 1
_BODY_START = _CRC.size + _PREAMBLE.size


class EncodedBatch(NamedTuple):
    """Consecutive records as bytes. `payload` does not contain the offset of the first record."""

    record_count: int
    max_timestamp_ms: int
    payload: bytes


def encoded(
    timestamps_ms: Sequence[int],
    keys: BytesColumn,
    values: BytesColumn,
    headers: Sequence[Headers] | None = None,
    offsets: Sequence[int] | None = None,
    *,
    continues: bool = False,
) -> EncodedBatch:
    """Encodes columns of the same length, with at least one record. `offsets`: offsets in rising order, less than 2^32
    apart; None if the offsets have no gaps. `continues`: True if the transaction of the batch continues in the next
    batch of the partition.
    """
    count = len(timestamps_ms)
    flags = _CONTINUES if continues else 0
    parts: list[bytes] = []
    if offsets is not None and offsets[-1] - offsets[0] != count - 1:
        flags |= _SPARSE
        base = offsets[0]
        parts.append(_column_bytes(array("I", [offset - base for offset in offsets])))
    parts.append(_column_bytes(array("q", timestamps_ms)))
    key_lengths, all_keys, null_keys = _joined(keys)
    value_lengths, all_values, null_values = _joined(values)
    parts += (_column_bytes(key_lengths), _column_bytes(value_lengths), all_keys, all_values)
    if null_keys:
        flags |= _NULL_KEYS
    if null_values:
        flags |= _NULL_VALUES
    if headers is not None:
        flags |= _HEADERS
        parts.append(_encoded_headers(headers))
    checked = b"".join((_PREAMBLE.pack(_VERSION, flags, count, len(all_keys), len(all_values)), *parts))
    return EncodedBatch(count, max(timestamps_ms), _CRC.pack(zlib.crc32(checked)) + checked)


def decoded(partition: TopicPartition, base_offset: int, payload: bytes) -> RecordBatch:
    """Decodes a batch. `base_offset`: the offset of the first record. Raises LogError, which names partition and
    offset, if the bytes are damaged.
    """
    try:
        if _CRC.unpack_from(payload)[0] != zlib.crc32(memoryview(payload)[_CRC.size :]):
            raise ValueError("its checksum is wrong")
        version, flags, count, key_bytes, _ = _PREAMBLE.unpack_from(payload, _CRC.size)
        if version != _VERSION:
            raise ValueError(f"its version is {version}, and this program knows {_VERSION}")
    except (ValueError, struct.error) as error:
        raise LogError(f"batch of {partition} at offset {base_offset} cannot be read: {error}") from error
    at = _BODY_START
    offsets: Sequence[int] = range(base_offset, base_offset + count)
    if flags & _SPARSE:
        offsets = [base_offset + delta for delta in _column("I", payload, at, count)]
        at += 4 * count
    timestamps_ms = _column("q", payload, at, count).tolist()
    at += 8 * count
    key_lengths = _column("i", payload, at, count)
    value_lengths = _column("i", payload, at + 4 * count, count)
    at += 8 * count
    reader = BytesIO(payload)  # a memoryview does not copy the bytes
    reader.seek(at)
    keys = _cut(reader, key_lengths, flags & _NULL_KEYS)
    reader.seek(at + key_bytes)
    values = _cut(reader, value_lengths, flags & _NULL_VALUES)
    headers = _decoded_headers(reader, count) if flags & _HEADERS else None
    return RecordBatch(partition, offsets, timestamps_ms, keys, values, headers)


def continues_in_next(payload: bytes) -> bool:
    """Returns True if the transaction of a batch continues in the next batch of the partition. `payload`: bytes that
    `decoded` has checked.
    """
    return bool(payload[_FLAGS_AT] & _CONTINUES)


def _joined(column: BytesColumn) -> tuple[array[int], bytes, bool]:
    """Returns the length of each entry of the column, all bytes of the column, and whether the column has nulls. Most
    columns have no nulls, and a column without nulls is handled in C code only.
    """
    try:
        return array("i", map(len, column)), b"".join(column), False  # type: ignore[arg-type]
    except TypeError:
        lengths = array("i", [-1 if item is None else len(item) for item in column])
        return lengths, b"".join([item for item in column if item is not None]), True


def _cut(reader: BytesIO, lengths: array[int], nulls: int) -> list[bytes | None]:
    read = reader.read
    if nulls:
        return [None if length < 0 else read(length) for length in lengths]
    return list(map(read, lengths))


def _column_bytes(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def _column(kind: str, payload: bytes, start: int, count: int) -> array[int]:
    column = array(kind)
    column.frombytes(memoryview(payload)[start : start + column.itemsize * count])
    if sys.byteorder == "big":
        column.byteswap()
    return column


def _encoded_headers(headers: Sequence[Headers]) -> bytes:
    parts: list[bytes] = []
    for of_record in headers:
        parts.append(_COUNT.pack(len(of_record)))
        for name, value in of_record:
            raw = name.encode(errors=NAME_ERRORS)
            parts += (_HEADER_SIZES.pack(len(raw), -1 if value is None else len(value)), raw, value or b"")
    return b"".join(parts)


def _decoded_headers(reader: BytesIO, count: int) -> list[Headers]:
    read = reader.read
    headers: list[Headers] = []
    for _ in range(count):
        of_record: list[tuple[str, bytes | None]] = []
        for _ in range(_COUNT.unpack(read(_COUNT.size))[0]):
            name_size, value_size = _HEADER_SIZES.unpack(read(_HEADER_SIZES.size))
            name = read(name_size).decode(errors=NAME_ERRORS)
            of_record.append((name, None if value_size < 0 else read(value_size)))
        headers.append(tuple(of_record))
    return headers
