"""A record as processors see it, and where it came from. Source: `Record`, `RecordMetadata` of the processor API."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

Headers = tuple[tuple[str, bytes | None], ...]
"""Names and values, in order. A name may appear twice."""


class Record(NamedTuple, Generic[Key, Value]):
    """Immutable: `_replace` makes a changed copy. `timestamp_ms`: milliseconds since the epoch, not negative."""

    key: Key
    value: Value
    timestamp_ms: int
    headers: Headers = ()


class RecordMetadata(NamedTuple):
    """The input record that is being processed."""

    topic: str
    partition: int
    offset: int


class RawRecord(NamedTuple):
    """An input record as it was read, before serdes and timestamp extractors: what a dead letter is made of."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class RecordContext(NamedTuple):
    """What a processor works on: timestamp and headers of the record that it was given, and the input record of which
    that one came. None: a punctuation. `raw`: that input record itself; None as well where no handler asks for it.
    Source: `ProcessorRecordContext`.
    """

    timestamp_ms: int
    headers: Headers
    metadata: RecordMetadata | None
    raw: RawRecord | None = None
