"""The window store that processors use. It is the outer layer of a store of bytes, and converts objects to bytes.
Source: `MeteredWindowStore`.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import K, V
from streams_runtime.logs.base import RecordBatch
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.caching import CachingWindowStore
from streams_runtime.state_stores.key_ranges import is_inverted
from streams_runtime.state_stores.state_store import SerdesStore, ValueAndTimestamp, WindowBytesStore, Windowed
from streams_runtime.state_stores.value_and_timestamp import EntryAccess, ValueAndTimestampSerde, ValuesWithTimestamps
from streams_runtime.state_stores.window_keys import SUFFIX_BYTES, suffix_of, window_end_ms, window_key

_new_tuple = tuple.__new__
"""Makes a named tuple in half the time of a call of its class."""


class WindowStore(SerdesStore[WindowBytesStore, K, V]):
    """A window store of objects. Times are window starts in milliseconds. Ranges include both bounds. Windows that
    start before stream time minus retention cannot be read. A `put` of None deletes the window. The windows of a key
    are sorted by time. The windows of several keys have the order of the store: on disk by segment, key and time, and
    in memory by time and key. `reverse`: True for the reverse order. Raises StreamsRuntimeError if a key is None.
    Raises the errors of serdes.

    Differs from Kafka: a window that starts before 1970 is refused. Kafka puts a window before 1970 into a wrong
    segment.
    """

    def __init__(
        self, inner: WindowBytesStore, key_serde: Serde[K], value_serde: Serde[V], *, window_size_ms: int
    ) -> None:
        super().__init__(inner, key_serde, value_serde)
        self.window_size_ms = window_size_ms

    def window_of(self, window_key: bytes) -> Windowed[K]:
        """Deserializes a window key."""
        start_ms, _ = suffix_of(window_key)
        key = self._deserialize_key(window_key[:-SUFFIX_BYTES])
        return _new_tuple(Windowed, (key, start_ms, window_end_ms(start_ms, self.window_size_ms)))

    def put(self, key: K, value: V | None, window_start_ms: int) -> None:
        if type(window_start_ms) is not int or not 0 <= window_start_ms <= JAVA_LONG_MAX:
            raise StreamsRuntimeError(
                f"store {self.name}: no window can start at {window_start_ms!r} ms; a whole number is needed"
            )
        stored_key = window_key(self._serialized_key(key), window_start_ms, 0)
        self.inner.put(stored_key, None if value is None else self._serialize_value(value), window_start_ms)

    def fetch(self, key: K, start_ms: int) -> V | None:
        possible_start_ms = min(max(start_ms, 0), JAVA_LONG_MAX)  # the start in every window key is within this range
        stored = self.inner.fetch(window_key(self._serialized_key(key), possible_start_ms, 0), start_ms)
        return None if stored is None else self._deserialize_value(stored)

    def fetch_range(self, key: K, from_ms: int, to_ms: int, *, reverse: bool = False) -> Iterator[tuple[int, V]]:
        """Returns the starts and values of a key's windows. Source: `fetch`, `backwardFetch`."""
        # `map` takes less time than a generator, which counts in joins: most of their reads find no window
        return map(self._value_of, self.inner.fetch_range(self._serialized_key(key), from_ms, to_ms, reverse=reverse))

    def _value_of(self, window: tuple[int, bytes]) -> tuple[int, V]:
        return window[0], self._deserialize_value(window[1])

    def fetch_keys(
        self, first: K | None, last: K | None, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Returns the windows of all keys from `first` to `last`. Keys are compared by their serialized bytes. None: no
        bound. Source: `fetch`, `backwardFetch` with a range of keys.
        """
        from_key, to_key = (None if key is None else self._serialize_key(key) for key in (first, last))
        if is_inverted(from_key, to_key, self.name):
            return iter(())
        return self._windows(self.inner.fetch_all(from_ms, to_ms, from_key, to_key, reverse=reverse))

    def fetch_all(self, from_ms: int, to_ms: int, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]:
        """Returns the windows of all keys. Source: `fetchAll`, `backwardFetchAll`."""
        return self._windows(self.inner.fetch_all(from_ms, to_ms, reverse=reverse))

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]:
        """Returns all windows. Source: `all`, `backwardAll`."""
        return self._windows(self.inner.fetch_all(0, JAVA_LONG_MAX, reverse=reverse))

    def _windows(self, stored: Iterator[tuple[bytes, int, bytes]]) -> Iterator[tuple[Windowed[K], V]]:
        deserialize_key, deserialize_value = self._deserialize_key, self._deserialize_value
        size_ms = self.window_size_ms
        return (
            (Windowed(deserialize_key(key), start_ms, window_end_ms(start_ms, size_ms)), deserialize_value(value))
            for key, start_ms, value in stored
        )


class TimestampedWindowStore(WindowStore[K, ValueAndTimestamp[V]]):
    """A window store with a timestamp for each value. A put of a ValueAndTimestamp with the value None deletes the
    window.
    """

    def __init__(
        self, inner: WindowBytesStore, key_serde: Serde[K], value_serde: Serde[V], *, window_size_ms: int
    ) -> None:
        self.value_serde = value_serde
        """The serde of the value without its timestamp."""
        serde = ValueAndTimestampSerde(value_serde)
        super().__init__(inner, key_serde, serde, window_size_ms=window_size_ms)
        self._serialize_value = serde.serializer()

    def entry_access(self) -> EntryAccess:
        """Returns the functions with which operators of the DSL read and write this store. See `EntryAccess`."""
        inner, serde, serialize_key = self.inner, ValueAndTimestampSerde(self.value_serde), self._serialize_key
        read, write = serde.entry_reader(), serde.entry_writer()
        is_cached = isinstance(inner, CachingWindowStore) and inner.cache is not None
        last_start_ms, suffix = -1, b""

        def stored_key_of(key: K, start_ms: int) -> bytes | tuple[bytes, int]:
            """Returns the window key, which is also the cache key. In a store without a cache, returns the window key
            and the start.
            """
            nonlocal last_start_ms, suffix
            # keep the suffix for the next call, because most records belong to the same window as the previous record
            if start_ms != last_start_ms:
                last_start_ms, suffix = start_ms, window_key(b"", start_ms, 0)
            stored_key = serialize_key(key) + suffix
            return stored_key if is_cached else (stored_key, start_ms)

        if isinstance(inner, CachingWindowStore) and inner.cache is not None:
            get, put, listen = inner.cache.get, inner.cache.put, inner.cache.set_flush_listener
            return EntryAccess(stored_key_of, get, put, read, write, self.window_of, listen)
        put_window, fetch = inner.put, inner.fetch
        return EntryAccess(
            stored_key_of,
            lambda stored_key: fetch(stored_key[0], stored_key[1]),
            lambda stored_key, stored, _timestamp_ms: put_window(stored_key[0], stored, stored_key[1]),
            read,
            write,
            self.window_of,
        )

    def stored_windows(self) -> Callable[[K, int, int], Iterator[tuple[int, bytes]]]:
        """Returns a function (key, lowest start, highest start) for operators of the DSL. It returns the starts and the
        stored bytes of a key's windows, sorted by time. `entry_access` describes who may call the function.
        """
        inner, serialize_key = self.inner, self._serialize_key
        if isinstance(inner, CachingWindowStore) and inner.cache is not None:
            inner.cache.index_by_record_key(SUFFIX_BYTES)
        return lambda key, from_ms, to_ms: inner.fetch_range(serialize_key(key), from_ms, to_ms)

    def restore(self, batch: RecordBatch) -> None:
        self.inner.restore(replace(batch, values=ValuesWithTimestamps(batch.values, batch.timestamps_ms)))
