"""How the records of a batch are compressed, by Kafka's number of the codec.

Rules: levels are those of Kafka's producer where nobody chooses one: lz4's fast compressor, gzip's 6, zstd's 3. lz4
writes blocks that stand alone, as brokers read no others. snappy writes the stream of xerial's library in blocks of 32
KiB and reads raw snappy as well. Source: `Compression`, `Lz4BlockOutputStream`, KIP-57, KIP-390.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from typing import Any

import cramjam

NONE = 0
_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_GZIP_LEVEL, _LZ4_LEVEL, _ZSTD_LEVEL = 6, 0, 3

_XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)  # version, and the lowest version that can read it
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">i")


def compressed(codec: int, plain: bytes | bytearray) -> Any:
    """As something that has bytes. Raises ValueError for a codec that is not known."""
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
    """Raises ValueError, also for a codec that is not known."""
    try:
        if codec == _LZ4:
            return bytes(cramjam.lz4.decompress(packed))
        if codec == _ZSTD:
            return bytes(cramjam.zstd.decompress(packed))
        if codec == _GZIP:
            return gzip.decompress(packed)
        if codec == _SNAPPY:
            return _from_snappy(packed)
    except (cramjam.DecompressionError, OSError, EOFError, zlib.error, struct.error) as error:
        raise ValueError(f"its compressed records are broken: {error}") from error
    raise ValueError(f"its compression has the number {codec}, which is not known")


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
