"""The bytes of a record that waits in a buffer, with its context: timestamp, headers, topic, partition and offset.

All numbers are big-endian. The value None has the size -1. The parts are:

    timestamp (8 bytes), offset (8 bytes), topic with its size (4 bytes), partition (4 bytes)
    the number of headers (4 bytes); for each header, its name and its value, each with its size (4 bytes)
    three values of the key with their sizes (4 bytes): the prior value, the old value, and the new value
    the time of the buffer (8 bytes)

A buffer of a stream has only new values, and the time 0. A buffer of a table also has the prior value, which is the
value that was forwarded last, and the old value. If the prior value and the old value are equal, the size of the old
value is -2, and the old value has no bytes.
Source: `BufferValue`, `ProcessorRecordContext.serialize`, `BufferKey`.
"""

import struct
from functools import lru_cache

from assignor.types import TopicPartition
from streams_runtime.common.records import NAME_ERRORS, Headers
from streams_runtime.state_stores.thread_cache import ContextTuple, extra_bytes

_TIME_AND_OFFSET = struct.Struct(">qq")
_INT, _LONG = struct.Struct(">i"), struct.Struct(">q")
_EQUALS_PRIOR_SIZE = -2
_NONE, _EQUALS_PRIOR = _INT.pack(-1), _INT.pack(_EQUALS_PRIOR_SIZE)
_SMALL_SIZES = [_INT.pack(size) for size in range(256)]  # most sizes are small, and a list is faster than `pack`

BufferValue = tuple[ContextTuple, bytes | None, bytes | None, bytes | None, int]
"""The type of a record in a buffer: the context of the record, the new value, the old value, the prior value, and the
time of the buffer. It is a plain tuple, because a buffer of a table makes one for each change.
"""


def serialize_buffer_value(given: BufferValue) -> bytes:
    """Returns the bytes of a record in a buffer. They do not contain the raw record."""
    context, new, old, prior, time_ms = given
    timestamp_ms, headers, partition, offset, _, _ = context
    parts = [_TIME_AND_OFFSET.pack(timestamp_ms, offset), _partition_bytes(partition), _INT.pack(len(headers))]
    for name, value in headers:
        _add_sized(parts, name.encode(errors=NAME_ERRORS))
        _add_sized(parts, value)
    _add_sized(parts, prior)
    if old is not None and old == prior:
        parts.append(_EQUALS_PRIOR)
    else:
        _add_sized(parts, old)
    _add_sized(parts, new)
    parts.append(_LONG.pack(time_ms))
    return b"".join(parts)


@lru_cache(maxsize=1024)
def _partition_bytes(partition: TopicPartition | None) -> bytes:
    topic, number = ("", -1) if partition is None else partition
    return _INT.pack(len(topic.encode())) + topic.encode() + _INT.pack(number)


def deserialize_buffer_value(data: bytes) -> BufferValue:
    timestamp_ms, offset = _TIME_AND_OFFSET.unpack_from(data)
    topic, at = _read(data, _TIME_AND_OFFSET.size)
    number, count = _INT.unpack_from(data, at)[0], _INT.unpack_from(data, at + _INT.size)[0]
    at += 2 * _INT.size
    headers: Headers = ()
    for _ in range(count):
        name, at = _read(data, at)
        value, at = _read(data, at)
        headers = (*headers, ((name or b"").decode(errors=NAME_ERRORS), value))
    partition = ((topic or b"").decode(), number) if number >= 0 else None
    prior, at = _read(data, at)
    if _INT.unpack_from(data, at)[0] == _EQUALS_PRIOR_SIZE:
        old, at = prior, at + _INT.size
    else:
        old, at = _read(data, at)
    new, at = _read(data, at)
    size = len(topic or b"") + extra_bytes(headers, None)
    context: ContextTuple = (timestamp_ms, headers, partition, offset, None, size)
    return context, new, old, prior, _LONG.unpack_from(data, at)[0]


def _add_sized(parts: list[bytes], value: bytes | None) -> None:
    """Adds a value with its size."""
    if value is None:
        parts.append(_NONE)
    else:
        size = len(value)
        parts.append(_SMALL_SIZES[size] if size < len(_SMALL_SIZES) else _INT.pack(size))
        parts.append(value)


def _read(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Returns a value with its size, and the index after it."""
    size, at = _INT.unpack_from(data, at)[0], at + _INT.size
    return (None, at) if size < 0 else (data[at : at + size], at + size)
