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
from typing import NamedTuple

from streams_runtime.common.records import NAME_ERRORS, Headers
from streams_runtime.state_stores.thread_cache import ContextTuple, extra_bytes

_TIME_AND_OFFSET = struct.Struct(">qq")
_INT, _LONG = struct.Struct(">i"), struct.Struct(">q")
_NONE_SIZE, _EQUALS_PRIOR_SIZE = -1, -2


class BufferValue(NamedTuple):
    """A record in a buffer. `context`: the context of the record. `time_ms`: the time of the buffer."""

    context: ContextTuple
    new: bytes | None
    old: bytes | None = None
    prior: bytes | None = None
    time_ms: int = 0


def serialize_buffer_value(given: BufferValue) -> bytes:
    """Returns the bytes of a record in a buffer. They do not contain the raw record."""
    timestamp_ms, headers, partition, offset, _, _ = given.context
    topic, number = ("", -1) if partition is None else partition
    parts = [_TIME_AND_OFFSET.pack(timestamp_ms, offset), _sized(topic.encode()), _INT.pack(number)]
    parts.append(_INT.pack(len(headers)))
    for name, value in headers:
        parts += (_sized(name.encode(errors=NAME_ERRORS)), _sized(value))
    same = given.old is not None and given.old == given.prior
    old = _INT.pack(_EQUALS_PRIOR_SIZE) if same else _sized(given.old)
    return b"".join((*parts, _sized(given.prior), old, _sized(given.new), _LONG.pack(given.time_ms)))


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
    return BufferValue(context, new, old, prior, _LONG.unpack_from(data, at)[0])


def _sized(value: bytes | None) -> bytes:
    return _INT.pack(_NONE_SIZE) if value is None else _INT.pack(len(value)) + value


def _read(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Returns a value with its size, and the index after it."""
    size, at = _INT.unpack_from(data, at)[0], at + _INT.size
    return (None, at) if size < 0 else (data[at : at + size], at + size)
