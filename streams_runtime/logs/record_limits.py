"""What a topic takes as one record, so that `send` itself refuses a record that the log would refuse.

Source: `LogValidator`.
"""

from __future__ import annotations

from typing import NamedTuple

from assignor.types import TopicPartition
from streams_runtime.logs.errors import InvalidRecord, RecordTooLarge
from streams_runtime.records import Headers


class RecordLimits(NamedTuple):
    """`max_bytes`: of key, value and headers together. `compacts`: every record needs a key."""

    max_bytes: int
    compacts: bool

    def size_of(
        self, partition: TopicPartition, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers
    ) -> int:
        """Bytes of key, value and headers. Raises InvalidRecord, RecordTooLarge for a record beyond the limits."""
        size = (0 if key is None else len(key)) + (0 if value is None else len(value))
        if headers:
            size += sum(len(name.encode()) + (0 if text is None else len(text)) for name, text in headers)
        if timestamp_ms < 0:
            raise InvalidRecord(f"record for {partition} has the timestamp {timestamp_ms}; it must not be negative")
        if key is None and self.compacts:
            raise InvalidRecord(f"record for {partition} has no key, and the topic is compacted by key")
        if size > self.max_bytes:
            raise RecordTooLarge(
                f"record for {partition} has {size} bytes, and its topic takes {self.max_bytes} (max.message.bytes)"
            )
        return size
