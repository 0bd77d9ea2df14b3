"""Which partition a key goes to: Kafka's murmur2, as other clients of the same topics use it.

Rule: partition = (murmur2(key bytes) & 0x7fffffff) % partitions. Source: `Utils.murmur2`, `BuiltInPartitioner`.
"""

from __future__ import annotations

from functools import lru_cache
from struct import unpack_from

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_HOT_KEYS = 100_000


def murmur2(data: bytes) -> int:
    """32-bit hash, from -2**31 up to 2**31 - 1 as Java has it."""
    length = len(data)
    whole = length & ~3
    h = _SEED ^ length
    for k in unpack_from(f"<{whole >> 2}I", data):
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ (((k ^ (k >> 24)) * _M) & _MASK)
    if whole != length:
        h = ((h ^ int.from_bytes(data[whole:], "little")) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h & 0x80000000 else h


@lru_cache(maxsize=_HOT_KEYS)
def positive_hash(key: bytes) -> int:
    """The hash of a key, from 0 up to 2**31 - 1. Hashing in Python is slow and keys repeat, so hot ones are cached."""
    return murmur2(key) & 0x7FFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    return positive_hash(key) % partitions
