"""Stores whose values have a timestamp. Source: `MeteredTimestampedKeyValueStore`, `MeteredTimestampedWindowStore`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from streams_runtime.logs.base import RecordBatch
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.base import KeyValueStore, ValueAndTimestamp
from streams_runtime.state_stores.caching_key_value import CachingKeyValueStore
from streams_runtime.state_stores.key_value import SerdesKeyValueStore
from streams_runtime.state_stores.value_and_timestamp import (
    EntryReader,
    EntryWriter,
    ValuesWithTimestamps,
    entry_reader,
    entry_writer,
    raw_value,
    timestamp_of,
    with_timestamp,
)
from streams_runtime.state_stores.window import SerdesWindowStore
from streams_runtime.state_stores.window_bytes import WindowBytesStore

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class ValueAndTimestampSerde(Generic[V]):
    """As on disk: 8 bytes of timestamp, then the value by its own serde."""

    value_serde: Serde[V]

    def serialize(self, value: ValueAndTimestamp[V], /) -> bytes:
        return with_timestamp(self.value_serde.serialize(value.value), value.timestamp_ms)

    def deserialize(self, data: bytes, /) -> ValueAndTimestamp[V]:
        return ValueAndTimestamp(self.value_serde.deserialize(raw_value(data)), timestamp_of(data))

    def with_inner(self, change: Callable[[Serde[Any]], Serde[Any]]) -> ValueAndTimestampSerde[V]:
        return ValueAndTimestampSerde(change(self.value_serde))


class TableEntries(NamedTuple):
    """How operators of the DSL use a timestamped store: they keep the bytes of a key, and read and write entries as
    timestamp and value. All of it passes the record cache and the changelog as the methods of the store do.

    `get`, `put`: by the bytes of a key; of a window store with the start of the window as last argument.
    """

    key_bytes: Callable[[Any], bytes]
    get: Callable[..., bytes | None]
    put: Callable[..., object]
    read: EntryReader
    write: EntryWriter


class SerdesTimestampedKeyValueStore(SerdesKeyValueStore[K, ValueAndTimestamp[V]]):
    """`TimestampedKeyValueStore[K, V]`. A ValueAndTimestamp without a value deletes, as None does."""

    __slots__ = ("value_serde",)

    def __init__(self, inner: KeyValueStore[bytes, bytes], key_serde: Serde[K], value_serde: Serde[V]) -> None:
        self.value_serde = value_serde
        """Of the value alone."""
        super().__init__(inner, key_serde, ValueAndTimestampSerde(value_serde))

    def table_entries(self) -> TableEntries:
        """Valid until the store is closed or rebound."""
        read, write = entry_reader(self.value_serde), entry_writer(self.value_serde)
        return TableEntries(self._from_key, self._get, self._put, read, write)

    def flushed_entries(self) -> Callable[[bytes], bytes | None]:
        """As `get` of `table_entries`, without what the record cache holds back of other records than the present
        one.
        """
        inner = self._inner
        return inner.get_flushed if isinstance(inner, CachingKeyValueStore) else inner.get

    def put(self, key: K, value: ValueAndTimestamp[V] | None) -> None:
        stored = None if value is None or value.value is None else self._to_value(value)
        self._inner.put(self._stored_key(key), stored)

    def put_all(self, entries: list[tuple[K, ValueAndTimestamp[V] | None]]) -> None:
        super().put_all([(key, None if value is None or value.value is None else value) for key, value in entries])

    def put_many(self, keys: Iterable[K], values: Iterable[ValueAndTimestamp[V] | None]) -> None:
        super().put_many(keys, [None if value is None or value.value is None else value for value in values])

    def restore(self, batch: RecordBatch) -> None:
        self._inner.restore(replace(batch, values=ValuesWithTimestamps(batch.values, batch.timestamps_ms)))


class SerdesTimestampedWindowStore(SerdesWindowStore[K, ValueAndTimestamp[V]]):
    """`WindowStore[K, ValueAndTimestamp[V]]`. A ValueAndTimestamp without a value deletes, as None does."""

    __slots__ = ("value_serde",)

    def __init__(
        self, inner: WindowBytesStore, key_serde: Serde[K], value_serde: Serde[V], *, window_size_ms: int
    ) -> None:
        self.value_serde = value_serde
        """Of the value alone."""
        super().__init__(inner, key_serde, ValueAndTimestampSerde(value_serde), window_size_ms=window_size_ms)

    def table_entries(self) -> TableEntries:
        """Valid until the store is closed or rebound."""
        read, write = entry_reader(self.value_serde), entry_writer(self.value_serde)
        return TableEntries(self._from_key, self._inner.fetch, self._inner.put, read, write)

    def put(self, key: K, value: ValueAndTimestamp[V] | None, window_start_ms: int) -> None:
        super().put(key, None if value is None or value.value is None else value, window_start_ms)

    def restore(self, batch: RecordBatch) -> None:
        self._inner.restore(replace(batch, values=ValuesWithTimestamps(batch.values, batch.timestamps_ms)))
