"""Encodes and decodes zigzag varints. Each byte of a varint has seven bits of the number. The lowest bits come first.
Source: `ByteUtils.writeVarint`.
"""

from collections.abc import Callable


def varint(value: int) -> bytes:
    """Encodes a number, which must be 0 or more."""
    rest = value << 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def read_varint(data: bytes, at: int, fault: Callable[[str], Exception], message: str) -> tuple[int, int]:
    """Returns the number, and the index of the first byte after it. `fault`: the class of the error that is raised if
    the number does not end within five bytes.
    """
    rest = shift = 0
    for position in range(at, min(at + 5, len(data))):
        byte = data[position]
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (rest >> 1) ^ -(rest & 1), position + 1
        shift += 7
    raise fault(message)
