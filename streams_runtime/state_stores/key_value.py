"""The key-value store that processors use: objects in and out, bytes below. Source: `MeteredKeyValueStore`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.record_columns import column
from streams_runtime.common.records import RecordContext
from streams_runtime.serdes import Serde, serializer_of
from streams_runtime.state_stores.base import KeyValueStore, StoreContext
from streams_runtime.state_stores.caching_key_value import CachingKeyValueStore
from streams_runtime.state_stores.change_logging import ChangeLoggingKeyValueBytesStore
from streams_runtime.state_stores.wrapped import WrappedStateStore

K = TypeVar("K")
V = TypeVar("V")


class SerdesKeyValueStore(WrappedStateStore[KeyValueStore[bytes, bytes]], Generic[K, V]):
    """`KeyValueStore[K, V]`. Raises StreamsRuntimeError for a key that is None. Errors of a serde pass through."""

    __slots__ = ("_from_key", "_get", "_key_of", "_put", "_to_value", "_value_of", "key_serde")

    def __init__(self, inner: KeyValueStore[bytes, bytes], key_serde: Serde[K], value_serde: Serde[V]) -> None:
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
        if isinstance(layer, CachingKeyValueStore) and layer.reads_below:
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
        present = self._inner.put_if_absent(self._stored_key(key), self._to_value(value))
        return None if present is None else self._value_of(present)

    def put_all(self, entries: list[tuple[K, V | None]]) -> None:
        """In this order. When one of them cannot be serialized, none is put."""
        self._inner.put_all(
            [(self._stored_key(key), None if value is None else self._to_value(value)) for key, value in entries]
        )

    def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """What `get` gives for each of them. `keys`: a list or any other column, as `RecordColumns.keys`."""
        value_of = self._value_of
        stored = self._inner.get_many(self._stored_keys(keys))
        return [None if each is None else value_of(each) for each in stored]

    def put_many(self, keys: Iterable[K], values: Iterable[V | None]) -> None:
        """What `put` does with each key and its value, in this order; a key may come again, and None deletes.

        When one of them cannot be serialized, none is put. Raises StreamsRuntimeError for columns of other lengths.
        """
        stored_keys, to_value = self._stored_keys(keys), self._to_value
        put = [None if value is None else to_value(value) for value in self._given_values(values, len(stored_keys))]
        self._inner.put_many(stored_keys, put)

    def delete(self, key: K) -> V | None:
        """Gives the value that was there."""
        present = self._inner.delete(self._stored_key(key))
        return None if present is None else self._value_of(present)

    def range(self, start: K | None, end: K | None) -> Iterator[tuple[K, V]]:
        return self._objects(self._inner.range(self._stored_bound(start), self._stored_bound(end)))

    def reverse_range(self, start: K | None, end: K | None) -> Iterator[tuple[K, V]]:
        """From `end` down to `start`."""
        return self._objects(self._inner.reverse_range(self._stored_bound(start), self._stored_bound(end)))

    def all(self) -> Iterator[tuple[K, V]]:
        return self._objects(self._inner.all())

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[K, V]]:
        """`prefix`: of the serialized key."""
        return self._objects(self._inner.prefix_scan(prefix))

    def approximate_num_entries(self) -> int:
        return self._inner.approximate_num_entries()

    def set_flush_listener(
        self, listener: Callable[[K, V | None, V | None, RecordContext], None], *, sends_old_values: bool
    ) -> bool:
        """As `CachingKeyValueStore.set_flush_listener`; False for a store without a cache."""
        inner = self._inner
        if not isinstance(inner, CachingKeyValueStore):
            return False
        key_of, value_of = self._key_of, self._value_of

        def flushed(key: bytes, new: bytes | None, old: bytes | None, context: RecordContext) -> None:
            listener(
                key_of(key),
                None if new is None else value_of(new),
                None if old is None else value_of(old),
                context,
            )

        return inner.set_flush_listener(flushed, sends_old_values=sends_old_values)

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
