"""The key-value store that processors use: objects in and out, bytes below. Source: `MeteredKeyValueStore`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Generic, TypeVar

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.record_columns import column
from streams_runtime.logs.base import RecordBatch
from streams_runtime.serdes import Serde, serializer_of
from streams_runtime.state_stores.base import KeyValueBytesStore, StoreContext, ValueAndTimestamp, WrappedStateStore
from streams_runtime.state_stores.caching import CachingKeyValueStore
from streams_runtime.state_stores.change_logging import ChangeLoggingKeyValueBytesStore
from streams_runtime.state_stores.key_ranges import after, is_inverted, prefix_end
from streams_runtime.state_stores.value_and_timestamp import TableEntries, ValueAndTimestampSerde, ValuesWithTimestamps

K = TypeVar("K")
V = TypeVar("V")


class SerdesKeyValueStore(WrappedStateStore[KeyValueBytesStore], Generic[K, V]):
    """`KeyValueStore[K, V]`. Raises StreamsRuntimeError for a key that is None. Errors of a serde pass through."""

    __slots__ = ("_from_key", "_get", "_key_of", "_put", "_to_value", "_value_of", "key_serde")

    def __init__(self, inner: KeyValueBytesStore, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        super().__init__(inner)
        self.key_serde = key_serde
        self._from_key = serializer_of(key_serde)
        self._key_of = key_serde.deserialize
        self._to_value = serializer_of(value_serde)
        self._value_of = value_serde.deserialize
        self._get, self._put = inner.get, inner.put

    def open(self, context: StoreContext) -> None:
        super().open(context)
        self._skip_layers()

    def rebind(self, context: StoreContext) -> None:
        super().rebind(context)
        self._skip_layers()

    def _skip_layers(self) -> None:
        """Reads go to the layer that knows: the record cache, or what is below the changelog."""
        layer = self._inner
        if isinstance(layer, CachingKeyValueStore) and layer.cache is None:
            layer = layer.inner
        if isinstance(layer, ChangeLoggingKeyValueBytesStore):
            layer = layer.inner
        self._get = layer.get

    def get(self, key: K) -> V | None:
        if key is None:
            raise self._needs_key()
        stored = self._get(self._from_key(key))
        return None if stored is None else self._value_of(stored)

    def put(self, key: K, value: V | None) -> None:
        if key is None:
            raise self._needs_key()
        self._put(self._from_key(key), None if value is None else self._to_value(value))

    def put_if_absent(self, key: K, value: V) -> V | None:
        """Gives the present value, if there is one, and changes nothing then. Raises StreamsRuntimeError for None."""
        if value is None:
            raise StreamsRuntimeError(f"store {self.name}: put_if_absent needs a value, not None")
        stored_key, to_put = self._stored_key(key), self._to_value(value)
        present = self._get(stored_key)
        if present is not None:
            return self._value_of(present)
        self._put(stored_key, to_put)
        return None

    def put_all(self, entries: list[tuple[K, V | None]]) -> None:
        """In this order. When one of them cannot be serialized, none is put."""
        self._inner.put_all(
            [(self._stored_key(key), None if value is None else self._to_value(value)) for key, value in entries]
        )

    def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """What `get` gives for each of them. `keys`: a list or any other column, as `RecordColumns.keys`."""
        value_of = self._value_of
        return [None if each is None else value_of(each) for each in map(self._get, self._stored_keys(keys))]

    def put_many(self, keys: Iterable[K], values: Iterable[V | None]) -> None:
        """What `put` does with each key and its value, in this order; a key may come again, and None deletes.

        When one of them cannot be serialized, none is put. Raises StreamsRuntimeError for columns of other lengths.
        """
        stored_keys, to_value = self._stored_keys(keys), self._to_value
        put = [None if value is None else to_value(value) for value in self._given_values(values, len(stored_keys))]
        self._inner.put_all(list(zip(stored_keys, put, strict=True)))

    def delete(self, key: K) -> V | None:
        """Gives the value that was there."""
        stored_key = self._stored_key(key)
        present = self._get(stored_key)
        self._put(stored_key, None)
        return None if present is None else self._value_of(present)

    def range(self, start: K | None, end: K | None) -> Iterator[tuple[K, V]]:
        return self._range(start, end, reverse=False)

    def reverse_range(self, start: K | None, end: K | None) -> Iterator[tuple[K, V]]:
        """From `end` down to `start`."""
        return self._range(start, end, reverse=True)

    def all(self) -> Iterator[tuple[K, V]]:
        return self._objects(self._inner.scan(None, None))

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[K, V]]:
        """`prefix`: of the serialized key."""
        return self._objects(self._inner.scan(prefix, prefix_end(prefix)))

    def approximate_num_entries(self) -> int:
        return self._inner.approximate_num_entries()

    def _range(self, start: K | None, end: K | None, *, reverse: bool) -> Iterator[tuple[K, V]]:
        first, last = self._stored_bound(start), self._stored_bound(end)
        if is_inverted(first, last, self.name):
            return iter(())
        return self._objects(self._inner.scan(first, None if last is None else after(last), reverse=reverse))

    def _objects(self, entries: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[K, V]]:
        key_of, value_of = self._key_of, self._value_of
        return ((key_of(key), value_of(value)) for key, value in entries)

    def _stored_key(self, key: K) -> bytes:
        if key is None:
            raise self._needs_key()
        return self._from_key(key)

    def _needs_key(self) -> StreamsRuntimeError:
        return StreamsRuntimeError(f"store {self.name}: key cannot be None")

    def _stored_keys(self, keys: Iterable[K]) -> list[bytes]:
        given = column("keys", keys).as_list()
        if None in given:
            raise self._needs_key()
        return list(map(self._from_key, given))

    def _given_values(self, values: Iterable[V | None], keys: int) -> list[V | None]:
        given = column("values", values).as_list()
        if len(given) != keys:
            raise StreamsRuntimeError(
                f"store {self.name}: put_many was given {keys} keys and {len(given)} values; it needs a value, or None "
                "to delete, for each key"
            )
        return given

    def _stored_bound(self, key: K | None) -> bytes | None:
        return None if key is None else self._from_key(key)


class SerdesTimestampedKeyValueStore(SerdesKeyValueStore[K, ValueAndTimestamp[V]]):
    """`TimestampedKeyValueStore[K, V]`. A ValueAndTimestamp without a value deletes, as None does."""

    __slots__ = ("value_serde",)

    def __init__(self, inner: KeyValueBytesStore, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        self.value_serde = value_serde
        """Of the value alone."""
        super().__init__(inner, key_serde, ValueAndTimestampSerde(value_serde))

    def table_entries(self) -> TableEntries:
        layer, serde = self._inner, ValueAndTimestampSerde(self.value_serde)
        read, write = serde.entry_reader(), serde.entry_writer()
        if isinstance(layer, CachingKeyValueStore) and layer.cache is not None:
            get, put, listen = layer.cache.get, layer.cache.put, layer.set_flush_listener
            return TableEntries(self._from_key, get, put, read, write, self._key_of, listen)
        put_bytes = layer.put
        return TableEntries(
            self._from_key, self._get, lambda key, stored, _: put_bytes(key, stored), read, write, self._key_of
        )

    def flushed_entries(self) -> Callable[[bytes], bytes | None]:
        """As `get` of `table_entries`, without what the record cache holds back of other records than the present
        one.
        """
        inner = self._inner
        return inner.get_flushed if isinstance(inner, CachingKeyValueStore) else inner.get

    def put(self, key: K, value: ValueAndTimestamp[V] | None) -> None:
        super().put(key, None if value is None or value.value is None else value)

    def put_all(self, entries: list[tuple[K, ValueAndTimestamp[V] | None]]) -> None:
        super().put_all([(key, None if value is None or value.value is None else value) for key, value in entries])

    def put_many(self, keys: Iterable[K], values: Iterable[ValueAndTimestamp[V] | None]) -> None:
        super().put_many(keys, [None if value is None or value.value is None else value for value in values])

    def restore(self, batch: RecordBatch) -> None:
        self._inner.restore(replace(batch, values=ValuesWithTimestamps(batch.values, batch.timestamps_ms)))
