"""What a topic takes as one record, so that `send` itself refuses a record that the log would refuse.

`send` of every producer begins with `RecordLimits.checked`, so a wrong record is refused alone: what was taken before
it is still written. Source: `LogValidator`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from assignor.types import TopicPartition
from streams_runtime.logs.errors import InvalidRecord, RecordTooLarge
from streams_runtime.record_checks import NAME_ERRORS, record_bytes, record_headers, record_timestamp
from streams_runtime.records import Headers


class CheckedRecord(NamedTuple):
    """`size`: bytes of key, value and headers."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers
    size: int


class RecordLimits(NamedTuple):
    """`max_bytes`: of key, value and headers together. `compacts`: every record needs a key."""

    max_bytes: int
    compacts: bool

    def checked(
        self, partition: TopicPartition, key: Any, value: Any, timestamp_ms: Any, headers: Any
    ) -> CheckedRecord:
        """The record as a log takes it. Raises InvalidRecord, RecordTooLarge for one that no log or not this topic
        takes.
        """
        try:
            key, value = record_bytes("key", key), record_bytes("value", value)
            timestamp_ms, headers = record_timestamp(timestamp_ms), record_headers(headers)
        except ValueError as error:
            raise InvalidRecord(f"record for {partition} {error}") from None
        size = (0 if key is None else len(key)) + (0 if value is None else len(value))
        if headers:
            size += sum(len(name.encode(errors=NAME_ERRORS)) + len(octets or b"") for name, octets in headers)
        if key is None and self.compacts:
            raise InvalidRecord(f"record for {partition} has no key, and the topic is compacted by key")
        if size > self.max_bytes:
            raise RecordTooLarge(
                f"record for {partition} has {size} bytes, and its topic takes {self.max_bytes} (max.message.bytes)"
            )
        return CheckedRecord(key, value, timestamp_ms, headers, size)
