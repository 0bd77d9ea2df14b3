"""The metadata that a task commits with an offset: the partition time, from which the next owner continues.

The form is Kafka's version 2: base64 of one byte 2, the time in eight bytes, and processor metadata, which here is
empty. Whatever follows the time is not read; version 1, which ends there, is read as well. Any other text means that
the time is not known.
Source: `TopicPartitionMetadata`.
"""

from __future__ import annotations

import base64
import binascii
import struct

UNKNOWN_TIME = -1

_FORM = struct.Struct(">Bq")
_VERSION = 2
_READABLE = (1, 2)


def encode_partition_time(partition_time_ms: int) -> str:
    return base64.b64encode(_FORM.pack(_VERSION, partition_time_ms)).decode()


def decode_partition_time(metadata: str) -> int:
    """Milliseconds since the epoch; UNKNOWN_TIME for what cannot be read."""
    try:
        data = base64.b64decode(metadata, validate=True)
    except (binascii.Error, ValueError):
        return UNKNOWN_TIME
    if len(data) < _FORM.size:
        return UNKNOWN_TIME
    version, time_ms = _FORM.unpack_from(data)
    return max(int(time_ms), UNKNOWN_TIME) if version in _READABLE else UNKNOWN_TIME
