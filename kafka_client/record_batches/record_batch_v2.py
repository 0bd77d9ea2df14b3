"""Decodes Kafka's record batches of version 2 to columns, and encodes records to batches.

Rules: numbers in a batch are big-endian. The checksum of a batch is the CRC-32C of all bytes after the checksum.
If compression does not make the records smaller, they are written uncompressed.

The compression levels are the defaults of Kafka's producer: the fast compressor of lz4, level 6 of gzip, and level 3 of
zstd. For lz4, the blocks are independent, because brokers cannot read dependent blocks. For snappy, the records are in
the format of xerial's library, in blocks of 32 KiB. Records in raw snappy can also be read.

Source: `DefaultRecordBatch`; `Compression`, `Lz4BlockOutputStream`, KIP-57, KIP-390.
"""

from __future__ import annotations

import gzip
import struct
import threading
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import cramjam
import google_crc32c
from aiokafka.record.util import calc_crc32c

from kafka_client.record_batches.batch_rows import HEADER_BYTES, BatchRowWriter, Columns, read_rows

MAGIC = 2
_HEADER = struct.Struct(">qiibIhiqqqhii")
_TIMES, _TIMES_AT = struct.Struct(">qq"), 27
_ATTRIBUTES, _ATTRIBUTES_AT = struct.Struct(">h"), 21
_CODEC, TRANSACTIONAL, CONTROL = 0x07, 0x10, 0x20
_CRC, _CRC_AT, _CHECKED_FROM = struct.Struct(">I"), 17, 21
_PRODUCER, _PRODUCER_AT = struct.Struct(">qhi"), 43
_LENGTH_FROM = 12
_checksum: Callable[[bytes], int] = google_crc32c.value if google_crc32c.implementation == "c" else calc_crc32c
"""Computes a CRC-32C. The C version of google_crc32c uses CRC instructions of the processor. For 16 KiB or more, the C
version is ten times as fast as aiokafka's function. The pure-Python version of google_crc32c is two hundred times
slower than the C version. If only the pure-Python version is installed, aiokafka's function is used.
"""
_NO_ID = -1

_UNCOMPRESSED = 0
_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_GZIP_LEVEL, _LZ4_LEVEL, _ZSTD_LEVEL = 6, 0, 3

_MOST_KEPT_BYTES = 8 << 20

# the two numbers are the version of xerial's format, and the lowest version that can read it
_XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">i")


class BatchHeader(NamedTuple):
    """The header of a batch. `length`: the number of bytes after the field `length`. `producer_id`: -1 if the batch has
    no producer id.
    """

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
        """Parses the header of a batch. Raises ValueError if the bytes are not a batch header."""
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
    """Raises ValueError if the batch's checksum is wrong."""
    if header.crc != _checksum(bytes(batch[_CHECKED_FROM:])):
        raise ValueError("its checksum is wrong")


def decoded(batch: memoryview, header: BatchHeader) -> Columns:
    """Returns the records of a checked batch. Raises ValueError for a batch that cannot be read."""
    codec = header.attributes & _CODEC
    if codec == _UNCOMPRESSED:
        plain = bytes(batch)
    else:
        without_codec = bytearray(batch[:HEADER_BYTES])
        _ATTRIBUTES.pack_into(without_codec, _ATTRIBUTES_AT, header.attributes & ~_CODEC)
        plain = bytes(without_codec) + decompressed(codec, batch[HEADER_BYTES:])
    columns = read_rows(plain, header.record_count)
    offsets = columns[0]
    if offsets and offsets[-1] >= header.next_offset:
        raise ValueError(f"it has the offset {offsets[-1]}, and ends at {header.next_offset}")
    return columns


def encoded(rows: BatchRowWriter, codec: int, *, is_transactional: bool) -> bytearray:
    """Returns a batch of the records in `rows`, which must contain at least one record. The batch has no sequence
    numbers and no checksum; the function `number` writes them. After this call, no record can be added to `rows`.
    """
    count = rows.count
    batch = rows.finish()
    first_ms, max_ms = _TIMES.unpack_from(batch, _TIMES_AT)
    attributes = TRANSACTIONAL if is_transactional else 0
    if codec != _UNCOMPRESSED:
        packed = compressed(codec, bytes(memoryview(batch)[HEADER_BYTES:]))
        if len(packed) < len(batch) - HEADER_BYTES:
            del batch[HEADER_BYTES:]
            batch += packed
            attributes |= codec
    no_ids = (_NO_ID,) * 3
    fields = (0, len(batch) - _LENGTH_FROM, _NO_ID, MAGIC, 0, attributes, count - 1, first_ms, max_ms, *no_ids, count)
    _HEADER.pack_into(batch, 0, *fields)
    return batch


def number(batch: bytearray, producer_id: int, epoch: int, sequence: int) -> None:
    """Writes the producer id, the producer epoch, the sequence number and the checksum into the batch."""
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, epoch, sequence)
    _CRC.pack_into(batch, _CRC_AT, _checksum(bytes(memoryview(batch)[_CHECKED_FROM:])))


def compressed(codec: int, plain: bytes | bytearray) -> Any:
    """Returns a bytes-like object with the compressed bytes. Raises ValueError for an unknown codec."""
    if codec == _LZ4:
        compressor = cramjam.lz4.Compressor(level=_LZ4_LEVEL, content_checksum=False, block_linked=False)
        compressor.compress(plain)
        return compressor.finish()
    if codec == _ZSTD:
        return cramjam.zstd.compress(plain, level=_ZSTD_LEVEL)
    if codec == _GZIP:
        return gzip.compress(plain, _GZIP_LEVEL, mtime=0)
    if codec == _SNAPPY:
        return _in_xerial_blocks(plain)
    raise ValueError(f"its compression has the number {codec}, which is not known")


def decompressed(codec: int, packed: memoryview) -> bytes:
    """Decompresses records. Raises ValueError for damaged bytes and for an unknown codec."""
    try:
        if codec == _LZ4:
            return _from_lz4(packed)
        if codec == _ZSTD:
            return bytes(cramjam.zstd.decompress(packed))
        if codec == _GZIP:
            return gzip.decompress(packed)
        if codec == _SNAPPY:
            return _from_snappy(packed)
    except (cramjam.DecompressionError, OSError, EOFError, zlib.error, struct.error) as error:
        raise ValueError(f"its compressed records are broken: {error}") from error
    raise ValueError(f"its compression has the number {codec}, which is not known")


class _Lz4Buffer(threading.local):
    """A thread's buffer for decompression. The buffer is reused, because getting new memory from the kernel takes ten
    times as long as the decompression.
    """

    def __init__(self) -> None:
        self.buffer = bytearray(1 << 20)


_lz4_buffer = _Lz4Buffer()


def _from_lz4(packed: memoryview) -> bytes:
    """Decompresses lz4. Raises DecompressionError."""
    buffer = _lz4_buffer.buffer
    try:
        length = cramjam.lz4.decompress_into(packed, buffer)
    except cramjam.DecompressionError:
        # Either the buffer is too small, or the records are corrupt. For corrupt records, the next line raises the same
        # error.
        plain = bytes(cramjam.lz4.decompress(packed))
        if len(buffer) < len(plain) <= _MOST_KEPT_BYTES:
            _lz4_buffer.buffer = bytearray(min(2 * len(plain), _MOST_KEPT_BYTES))
        return plain
    return bytes(memoryview(buffer)[:length])


def _in_xerial_blocks(plain: bytes | bytearray) -> bytes:
    parts = [_XERIAL]
    view = memoryview(plain)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _from_snappy(packed: memoryview) -> bytes:
    if packed[: len(_XERIAL)] != _XERIAL:
        return bytes(cramjam.snappy.decompress_raw(packed))
    parts: list[bytes] = []
    at = len(_XERIAL)
    while at < len(packed):
        (length,) = _BLOCK_LENGTH.unpack_from(packed, at)
        at += _BLOCK_LENGTH.size
        if not 0 <= length <= len(packed) - at:
            raise ValueError(f"a block of its snappy records has {length} bytes, and there are {len(packed) - at}")
        parts.append(bytes(cramjam.snappy.decompress_raw(packed[at : at + length])))
        at += length
    return b"".join(parts)
