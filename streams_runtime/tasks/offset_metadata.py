"""What a task writes beside a committed offset: the partition time, so that the next owner's stream time goes on.

The form is Kafka's version 2: base64 of one byte 2, the time in eight bytes, and what processors have to remember,
which here is nothing. What follows the time is not read, and version 1, which ends there, is read too. Anything else
(another program's text, a broken one) means that the time is not known.
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
