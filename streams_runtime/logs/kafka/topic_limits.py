"""What a topic takes, so that a record it would refuse is refused where it is sent. Source: `LogValidator`."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from assignor.types import TopicPartition
from streams_runtime.logs.errors import InvalidRecord, LogError, RecordTooLarge
from streams_runtime.records import Headers


class TopicLimits(NamedTuple):
    partitions: int
    max_bytes: int
    compacts: bool


class Limits(Protocol):
    """`max_bytes`: of key, value and headers of one record. `compacts`: a record needs a key."""

    @property
    def max_bytes(self) -> int: ...

    @property
    def compacts(self) -> bool: ...


def headers_size(headers: Headers) -> int:
    return sum(len(name.encode()) + (0 if value is None else len(value)) for name, value in headers)


def refusal(partition: TopicPartition, key: bytes | None, timestamp_ms: int, size: int, limits: Limits) -> LogError:
    """Why the record cannot be taken; one of the reasons holds."""
    if timestamp_ms < 0:
        return InvalidRecord(f"record for {partition} has the timestamp {timestamp_ms}; it must not be negative")
    if key is None and limits.compacts:
        return InvalidRecord(f"record for {partition} has no key, and the topic is compacted by key")
    return RecordTooLarge(
        f"record for {partition} has {size} bytes, and its topic takes {limits.max_bytes} (max.message.bytes)"
    )
