"""What a topic takes, so that a record it would refuse is refused where it is sent. Source: `LogValidator`."""

from __future__ import annotations

from typing import NamedTuple

from assignor.types import TopicPartition
from streams_runtime.logs.errors import InvalidRecord, LogError, RecordTooLarge
from streams_runtime.records import Headers


class TopicLimits(NamedTuple):
    partitions: int
    max_message_bytes: int
    compacts: bool


def record_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Bytes of key, value and headers."""
    size = (0 if key is None else len(key)) + (0 if value is None else len(value))
    for name, content in headers:
        size += len(name.encode()) + (0 if content is None else len(content))
    return size


def refusal(
    partition: TopicPartition, key: bytes | None, timestamp_ms: int, size: int, limits: TopicLimits
) -> LogError:
    """Why the record cannot be taken; one of the reasons holds."""
    if timestamp_ms < 0:
        return InvalidRecord(f"record for {partition} has the timestamp {timestamp_ms}; it must not be negative")
    if key is None and limits.compacts:
        return InvalidRecord(f"record for {partition} has no key, and the topic is compacted by key")
    return RecordTooLarge(
        f"record for {partition} has {size} bytes, and its topic takes {limits.max_message_bytes} (max.message.bytes)"
    )
