"""Confluent's wire format: a zero byte, four bytes of the schema's id, big-endian, then the data.

Protobuf puts the way to the message's type before its data: the number of steps, then the position among the messages
of the file or of the message around it, all as zig-zag varints; the first message of a file, which is the usual case,
is a single zero byte. Source: `AbstractKafkaSchemaSerDe`, `MessageIndexes`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from streams_runtime.errors import SerializationError

_HEADER = struct.Struct(">bI")
HEADER_BYTES = _HEADER.size
_MOST_STEPS = 100


def header(schema_id: int) -> bytes:
    return _HEADER.pack(0, schema_id)


def schema_id_of(data: bytes) -> int:
    """Raises SerializationError for bytes that are not in this format."""
    if len(data) < HEADER_BYTES:
        raise SerializationError(
            f"{len(data)} bytes are too few for Confluent's wire format, which begins with a zero byte "
            "and four bytes of a schema's id"
        )
    magic, schema_id = _HEADER.unpack_from(data)
    if magic != 0:
        raise SerializationError(
            f"the first byte is 0x{data[0]:02x}, and 0x00 in Confluent's wire format; "
            "the record was written without a schema registry"
        )
    return int(schema_id)


def message_indexes(steps: Sequence[int]) -> bytes:
    if tuple(steps) == (0,):
        return b"\0"
    return _varint(len(steps)) + b"".join(_varint(step) for step in steps)


def read_message_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The steps, and where the message begins. Raises SerializationError."""
    count, at = _read_varint(data, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MOST_STEPS:
        raise SerializationError(f"{count} message indexes are not possible; the data is no Protobuf of a registry")
    steps = []
    for _ in range(count):
        step, at = _read_varint(data, at)
        steps.append(step)
    return tuple(steps), at


def _varint(value: int) -> bytes:
    """Zig-zag, seven bits a byte, lowest first; `value` is not negative."""
    rest = value << 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    rest = shift = 0
    for position in range(at, min(at + 5, len(data))):
        byte = data[position]
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (rest >> 1) ^ -(rest & 1), position + 1
        shift += 7
    raise SerializationError("the message indexes of Protobuf are cut off")
