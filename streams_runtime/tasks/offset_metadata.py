"""The metadata that a task commits with an offset: the partition time, from which the next owner continues.

The form is Kafka's version 2: base64 of one byte 2, the time in eight bytes, and processor metadata, which are numbers
by name: how many there are, then of each the length of the name, the name, and the number. A task keeps there from
which offset on the changelog of each window store is needed. Version 1, which ends after the time, is read as well. Any
other text means that nothing is known. Source: `TopicPartitionMetadata`, `ProcessorMetadata`.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping

UNKNOWN_TIME = -1

_FORM = struct.Struct(">Bq")
_VERSION = 2
_READABLE = (1, 2)
_COUNT = struct.Struct(">i")
_NUMBER = struct.Struct(">q")
_NEEDED_FROM = "changelog-needed-from:"
_MOST_BYTES = 2_500  # brokers take 4,096 bytes of metadata (offset.metadata.max.bytes), and base64 adds a third


def encode_partition_time(partition_time_ms: int, needed_from: Mapping[str, int] | None = None) -> str:
    """`needed_from`: by store, the first offset of its changelog that is needed. What has no room is left out."""
    entries: list[bytes] = []
    for store, offset in (needed_from or {}).items():
        name = f"{_NEEDED_FROM}{store}".encode()
        entry = _COUNT.pack(len(name)) + name + _NUMBER.pack(offset)
        if sum(map(len, entries)) + len(entry) <= _MOST_BYTES:
            entries.append(entry)
    processors = _COUNT.pack(len(entries)) + b"".join(entries) if entries else b""
    return base64.b64encode(_FORM.pack(_VERSION, partition_time_ms) + processors).decode()


def decode_partition_time(metadata: str) -> int:
    """Milliseconds since the epoch; UNKNOWN_TIME for what cannot be read."""
    data = _decoded(metadata)
    return UNKNOWN_TIME if data is None else max(int(_FORM.unpack_from(data)[1]), UNKNOWN_TIME)


def decode_needed_from(metadata: str) -> dict[str, int]:
    """By store, the first offset of its changelog that is needed. Empty for what cannot be read."""
    data = _decoded(metadata)
    if data is None or data[0] != _VERSION or len(data) == _FORM.size:
        return {}
    found: dict[str, int] = {}
    at = _FORM.size + _COUNT.size
    try:
        for _ in range(_COUNT.unpack_from(data, _FORM.size)[0]):
            start = at + _COUNT.size
            end = start + _COUNT.unpack_from(data, at)[0]
            name, at = data[start:end].decode(), end + _NUMBER.size
            if end < start:
                return {}
            number = int(_NUMBER.unpack_from(data, end)[0])
            if name.startswith(_NEEDED_FROM):
                found[name.removeprefix(_NEEDED_FROM)] = number
    except (struct.error, UnicodeDecodeError):
        return {}
    return found


def _decoded(metadata: str) -> bytes | None:
    """At least version and time; None for what cannot be read."""
    try:
        data = base64.b64decode(metadata, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if len(data) >= _FORM.size and data[0] in _READABLE else None
