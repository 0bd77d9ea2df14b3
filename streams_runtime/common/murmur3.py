"""Computes the 128-bit hash of a value's bytes with Kafka's murmur3.

A foreign-key join compares the hashes of values that two tasks have, and the hashes are part of the records of internal
topics. So the hashes must be Kafka's. `setup.py` compiles this module. Source: `Murmur3.hash128`.
"""

from struct import Struct

_SEED = 104_729
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F
_N1 = 0x52DCE729
_N2 = 0x38495AB5
_F1 = 0xFF51AFD7ED558CCD
_F2 = 0xC4CEB9FE1A85EC53
_MASK = 0xFFFFFFFFFFFFFFFF
_SHORT = 32
# one unpacker for each value of less than this number of blocks is made in advance
_WORDS = [Struct(f"<{2 * blocks}Q").unpack for blocks in range(_SHORT)]
_pack = Struct(">QQ").pack


def murmur3_128(data: bytes) -> bytes:
    """Returns the hash as 16 bytes: the two big-endian numbers that Kafka writes."""
    length = len(data)
    # The last block is incomplete, or empty, and zeros fill it up. A word that is 0 does not change the hash there.
    blocks = length // 16 + 1
    padded = data + bytes(16 * blocks - length)
    words = (_WORDS[blocks] if blocks < _SHORT else Struct(f"<{2 * blocks}Q").unpack)(padded)
    h1 = h2 = _SEED
    for at in range(0, 2 * blocks - 2, 2):
        k1, k2 = words[at], words[at + 1]
        h1 ^= _mixed_first(k1)
        h1 = (_rotated(h1, 27) + h2) & _MASK
        h1 = (h1 * 5 + _N1) & _MASK
        h2 ^= _mixed_second(k2)
        h2 = (_rotated(h2, 31) + h1) & _MASK
        h2 = (h2 * 5 + _N2) & _MASK
    k1, k2 = words[2 * blocks - 2], words[2 * blocks - 1]
    h1 ^= _mixed_first(k1) ^ length
    h2 ^= _mixed_second(k2) ^ length
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
    h = ((h ^ (h >> 33)) * _F1) & _MASK
    h = ((h ^ (h >> 33)) * _F2) & _MASK
    return h ^ (h >> 33)
