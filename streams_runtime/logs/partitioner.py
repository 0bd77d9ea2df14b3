"""Computes the partition of a key with Kafka's murmur2, as Kafka's own clients do.

Rule: partition = (murmur2(key bytes) & 0x7fffffff) % partitions. `setup.py` compiles this module. Source:
`Utils.murmur2`, `BuiltInPartitioner`.
"""

from __future__ import annotations

from struct import Struct

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_SHORT = 64
# one unpacker for each key length below 256 bytes is made in advance
_WORDS = [Struct(f"<{words}I").unpack_from for words in range(_SHORT)]


def murmur2(data: bytes) -> int:
    """Returns the 32-bit hash of the bytes as a signed Java int, from -2**31 to 2**31 - 1."""
    length = len(data)
    whole = length & ~3
    h = _SEED ^ length
    words = whole >> 2
    for k in (_WORDS[words] if words < _SHORT else Struct(f"<{words}I").unpack_from)(data):
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ (((k ^ (k >> 24)) * _M) & _MASK)
    if whole != length:
        h = ((h ^ int.from_bytes(data[whole:], "little")) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h & 0x80000000 else h


def positive_hash(key: bytes) -> int:
    """Returns the hash of a key, from 0 up to 2**31 - 1."""
    return murmur2(key) & 0x7FFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    return positive_hash(key) % partitions
