"""The window store that processors use: objects in and out, bytes below. Source: `MeteredWindowStore`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Generic, TypeVar

from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.logs.base import RecordBatch
from streams_runtime.serdes import Serde, serializer_of
from streams_runtime.state_stores.base import ValueAndTimestamp, WindowBytesStore, Windowed, WrappedStateStore
from streams_runtime.state_stores.caching import CachingWindowStore
from streams_runtime.state_stores.change_logging import ChangeLoggingWindowBytesStore
from streams_runtime.state_stores.value_and_timestamp import TableEntries, ValueAndTimestampSerde, ValuesWithTimestamps
from streams_runtime.state_stores.window_keys import SUFFIX_BYTES, suffix_of, window_end_ms, window_key

K = TypeVar("K")
V = TypeVar("V")

_new_tuple = tuple.__new__
"""Half of the time that a call of the class takes."""


class SerdesWindowStore(WrappedStateStore[WindowBytesStore], Generic[K, V]):
    """`WindowStore[K, V]`. Raises StreamsRuntimeError for a key that is None. Errors of a serde pass through.

    Differs from Kafka: a window that starts before 1970 is refused. In Kafka it lands in a wrong segment.
    """

    __slots__ = ("_from_key", "_key_of", "_to_value", "_value_of", "key_serde", "window_size_ms")

    def __init__(
        self, inner: WindowBytesStore, key_serde: Serde[K], value_serde: Serde[V], *, window_size_ms: int
    ) -> None:
        super().__init__(inner)
        self.key_serde = key_serde
        self._from_key = serializer_of(key_serde)
        self._key_of = key_serde.deserialize
        self._to_value = serializer_of(value_serde)
        self._value_of = value_serde.deserialize
        self.window_size_ms = window_size_ms

    def window_of(self, window_key: bytes) -> Windowed[K]:
        """What the bytes of a window key say."""
        start_ms, _ = suffix_of(window_key)
        key = self._key_of(window_key[:-SUFFIX_BYTES])
        return _new_tuple(Windowed, (key, start_ms, window_end_ms(start_ms, self.window_size_ms)))

    def put(self, key: K, value: V | None, window_start_ms: int) -> None:
        if type(window_start_ms) is not int or not 0 <= window_start_ms <= JAVA_LONG_MAX:
            raise StreamsRuntimeError(
                f"store {self.name}: no window can start at {window_start_ms!r} ms; a whole number is needed"
            )
        place = window_key(self._stored_key(key), window_start_ms, 0)
        self._inner.put(place, None if value is None else self._to_value(value), window_start_ms)

    def fetch(self, key: K, start_ms: int) -> V | None:
        place = window_key(self._stored_key(key), max(start_ms, 0), 0)  # no window starts earlier
        stored = self._inner.fetch(place, start_ms)
        return None if stored is None else self._value_of(stored)

    def fetch_range(self, key: K, from_ms: int, to_ms: int) -> Iterator[tuple[int, V]]:
        value_of = self._value_of
        windows = self._inner.fetch_range(self._stored_key(key), from_ms, to_ms)
        return ((start_ms, value_of(value)) for start_ms, value in windows)

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed[K], V]]:
        key_of, value_of, size_ms = self._key_of, self._value_of, self.window_size_ms
        return (
            (Windowed(key_of(key), start_ms, window_end_ms(start_ms, size_ms)), value_of(value))
            for key, start_ms, value in self._inner.fetch_all(from_ms, to_ms)
        )

    def _stored_key(self, key: K) -> bytes:
        if key is None:
            raise StreamsRuntimeError(f"store {self.name}: key cannot be None")
        return self._from_key(key)


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
        inner, serde, from_key = self._inner, ValueAndTimestampSerde(self.value_serde), self._from_key
        read, write = serde.entry_reader(), serde.entry_writer()
        is_cached = isinstance(inner, CachingWindowStore) and inner.cache is not None
        latest_ms, suffix = -1, b""

        def place(key: K, start_ms: int) -> bytes | tuple[bytes, int]:
            """The window key, which is the key of the cache; without a cache also the start."""
            nonlocal latest_ms, suffix
            if start_ms != latest_ms:  # most records are of the window of the record before
                latest_ms, suffix = start_ms, window_key(b"", start_ms, 0)
            placed = from_key(key) + suffix
            return placed if is_cached else (placed, start_ms)

        if isinstance(inner, CachingWindowStore) and inner.cache is not None:
            get, put, listen = inner.cache.get, inner.cache.put, inner.set_flush_listener
            return TableEntries(place, get, put, read, write, self.window_of, listen)
        put_window = inner.put
        fetch = inner.inner.fetch if isinstance(inner, ChangeLoggingWindowBytesStore) else inner.fetch
        return TableEntries(
            place,
            lambda placed: fetch(placed[0], placed[1]),
            lambda placed, stored, _: put_window(placed[0], stored, placed[1]),
            read,
            write,
            self.window_of,
        )

    def put(self, key: K, value: ValueAndTimestamp[V] | None, window_start_ms: int) -> None:
        super().put(key, None if value is None or value.value is None else value, window_start_ms)

    def restore(self, batch: RecordBatch) -> None:
        self._inner.restore(replace(batch, values=ValuesWithTimestamps(batch.values, batch.timestamps_ms)))
