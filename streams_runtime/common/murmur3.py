"""Computes the 128-bit hash of a value's bytes with Kafka's murmur3.

A foreign-key join compares the hashes of values that two tasks have, and the hashes are part of the records of internal
topics. So the hashes must be Kafka's. `setup.py` compiles this module. Source: `Murmur3.hash128`.
"""

from struct import Struct

_SEED = 104_729
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F
_MASK = 0xFFFFFFFFFFFFFFFF
_BLOCK = 16
_blocks_of = Struct("<QQ").iter_unpack
_pack = Struct(">QQ").pack


def murmur3_128(data: bytes) -> bytes:
    """Returns the hash as 16 bytes: the two big-endian numbers that Kafka writes."""
    length = len(data)
    whole = length & ~(_BLOCK - 1)
    h1 = h2 = _SEED
    for k1, k2 in _blocks_of(data[:whole]):
        h1 ^= _mixed_first(k1)
        h1 = (_rotated(h1, 27) + h2) & _MASK
        h1 = (h1 * 5 + 0x52DCE729) & _MASK
        h2 ^= _mixed_second(k2)
        h2 = (_rotated(h2, 31) + h1) & _MASK
        h2 = (h2 * 5 + 0x38495AB5) & _MASK
    # a missing half of the last block is 0, which changes nothing
    h1 ^= _mixed_first(int.from_bytes(data[whole : whole + 8], "little")) ^ length
    h2 ^= _mixed_second(int.from_bytes(data[whole + 8 :], "little")) ^ length
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1, h2 = _finished(h1), _finished(h2)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return _pack(h1, h2)


def _mixed_first(k: int) -> int:
    k = (k * _C1) & _MASK
    return (_rotated(k, 31) * _C2) & _MASK


def _mixed_second(k: int) -> int:
    k = (k * _C2) & _MASK
    return (_rotated(k, 33) * _C1) & _MASK


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _finished(h: int) -> int:
    h = ((h ^ (h >> 33)) * 0xFF51AFD7ED558CCD) & _MASK
    h = ((h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53) & _MASK
    return h ^ (h >> 33)
