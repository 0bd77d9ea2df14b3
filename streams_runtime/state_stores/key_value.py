"""The key-value store that processors use. It is the outer layer of a store of bytes, and converts objects to bytes.
Source: `MeteredKeyValueStore`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.record_columns import column
from streams_runtime.common.records import K, V
from streams_runtime.logs.base import RecordBatch
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.caching import CachingKeyValueStore
from streams_runtime.state_stores.key_ranges import after, is_inverted, prefix_end
from streams_runtime.state_stores.state_store import KeyValueBytesStore, SerdesStore, StoreContext, ValueAndTimestamp
from streams_runtime.state_stores.value_and_timestamp import EntryAccess, ValueAndTimestampSerde, ValuesWithTimestamps


class KeyValueStore(SerdesStore[KeyValueBytesStore, K, V]):
    """A key-value store of objects. Keys are sorted by their bytes. Ranges include both bounds. If a bound is None, the
    range is open at this end. Raises StreamsRuntimeError if a key is None. Raises the errors of serdes.
    """

    def __init__(self, inner: KeyValueBytesStore, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        super().__init__(inner, key_serde, value_serde)
        self._get, self._put = inner.get, inner.put

    def _bind(self, context: StoreContext) -> None:
        """Makes `get` of a store without a cache call the bytes store directly."""
        layer = self.inner
        self._get = layer.inner.get if isinstance(layer, CachingKeyValueStore) and layer.cache is None else layer.get

    def _read_from_inner(self) -> None:
        self._get = self.inner.get

    def get(self, key: K) -> V | None:
        if key is None:
            raise self._key_is_none()
        stored = self._get(self._serialize_key(key))
        return None if stored is None else self._deserialize_value(stored)

    def put(self, key: K, value: V | None) -> None:
        if key is None:
            raise self._key_is_none()
        self._put(self._serialize_key(key), None if value is None else self._serialize_value(value))

    def put_if_absent(self, key: K, value: V) -> V | None:
        """If the key has no value, puts the value and returns None. If the key has a value, changes nothing and returns
        the present value.

        Raises StreamsRuntimeError if the key or the value is None.
        """
        stored_key = self._serialized_key(key)
        new_value = None if value is None else self._serialize_value(value)
        if new_value is None:
            raise StreamsRuntimeError(f"store {self.name}: put_if_absent needs a value, not None")
        present = self._get(stored_key)
        if present is not None:
            return self._deserialize_value(present)
        self._put(stored_key, new_value)
        return None

    def put_all(self, entries: list[tuple[K, V | None]]) -> None:
        """Puts the entries in the given order. If a key or a value cannot be serialized, no entry is put."""
        self.inner.put_all(
            [
                (self._serialized_key(key), None if value is None else self._serialize_value(value))
                for key, value in entries
            ]
        )

    def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """Returns the value of each key, or None for a key without a value.

        `keys`: a list, tuple, numpy array, pandas Series or Arrow array.
        """
        deserialize = self._deserialize_value
        return [None if each is None else deserialize(each) for each in map(self._get, self._stored_keys(keys))]

    def put_many(self, keys: Iterable[K], values: Iterable[V | None]) -> None:
        """Puts the first value under the first key, the second value under the second key, and so on. A key may occur
        several times. The value None deletes the key.

        If a key or a value cannot be serialized, no entry is put. Raises StreamsRuntimeError if `keys` and `values`
        have different lengths.
        """
        stored_keys, serialize = self._stored_keys(keys), self._serialize_value
        given = self._checked_values(values, len(stored_keys))
        stored_values = [None if value is None else serialize(value) for value in given]
        self.inner.put_all(list(zip(stored_keys, stored_values, strict=True)))

    def delete(self, key: K) -> V | None:
        """Deletes the key. Returns the deleted value."""
        stored_key = self._serialized_key(key)
        present = self._get(stored_key)
        self._put(stored_key, None)
        return None if present is None else self._deserialize_value(present)

    def range(self, start: K | None, end: K | None) -> Iterator[tuple[K, V]]:
        return self._range(start, end, reverse=False)

    def reverse_range(self, start: K | None, end: K | None) -> Iterator[tuple[K, V]]:
        """Returns the entries of the range in descending order, from `end` to `start`."""
        return self._range(start, end, reverse=True)

    def all(self) -> Iterator[tuple[K, V]]:
        return self._deserialized(self.inner.scan(None, None))

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[K, V]]:
        """Returns the entries whose serialized keys begin with `prefix`."""
        return self._deserialized(self.stored_prefix_scan(prefix))

    def stored_prefix_scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Returns the entries of `prefix_scan` as they are stored. See `EntryAccess` for their values."""
        return self.inner.scan(prefix, prefix_end(prefix))

    def approximate_num_entries(self) -> int:
        return self.inner.approximate_num_entries()

    def _range(self, start: K | None, end: K | None, *, reverse: bool) -> Iterator[tuple[K, V]]:
        first, last = self._stored_bound(start), self._stored_bound(end)
        if is_inverted(first, last, self.name):
            return iter(())
        return self._deserialized(self.inner.scan(first, None if last is None else after(last), reverse=reverse))

    def _deserialized(self, entries: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[K, V]]:
        deserialize_key, deserialize_value = self._deserialize_key, self._deserialize_value
        return ((deserialize_key(key), deserialize_value(value)) for key, value in entries)

    def _stored_keys(self, keys: Iterable[K]) -> list[bytes]:
        given = column("keys", keys).as_list()
        if None in given:
            raise self._key_is_none()
        return list(map(self._serialize_key, given))

    def _checked_values(self, values: Iterable[V | None], key_count: int) -> list[V | None]:
        given = column("values", values).as_list()
        if len(given) != key_count:
            raise StreamsRuntimeError(
                f"store {self.name}: put_many was given {key_count} keys and {len(given)} values; it needs a value, or "
                "None to delete, for each key"
            )
        return given

    def _stored_bound(self, key: K | None) -> bytes | None:
        return None if key is None else self._serialize_key(key)


class TimestampedKeyValueStore(KeyValueStore[K, ValueAndTimestamp[V]]):
    """A key-value store with a timestamp for each value. In the store, the 8 bytes before a value are its timestamp. In
    the changelog, the timestamp of a value is the timestamp of its record. A put of a ValueAndTimestamp with the value
    None deletes the key, like a put of None.
    """

    def __init__(self, inner: KeyValueBytesStore, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        self.value_serde = value_serde
        """The serde of the value without its timestamp."""
        serde = ValueAndTimestampSerde(value_serde)
        super().__init__(inner, key_serde, serde)
        self._serialize_value = serde.serializer()

    def entry_access(self) -> EntryAccess:
        """Returns the functions with which operators of the DSL read and write this store. See `EntryAccess`."""
        layer, serde = self.inner, ValueAndTimestampSerde(self.value_serde)
        stored_key_of, key_of = self._serialize_key, self._deserialize_key
        read, write = serde.entry_reader(), serde.entry_writer()
        if isinstance(layer, CachingKeyValueStore) and (cache := layer.cache) is not None:
            return EntryAccess(stored_key_of, cache.get, cache.put, read, write, key_of, cache.set_flush_listener)
        put_bytes = layer.put
        return EntryAccess(
            stored_key_of, self._get, lambda key, stored, _timestamp_ms: put_bytes(key, stored), read, write, key_of
        )

    def flushed_getter(self) -> Callable[[bytes], bytes | None]:
        """Returns a function that reads like `get` of `entry_access`, but ignores unflushed changes in the record
        cache. Changes of the record that is being processed are an exception: the function returns them.
        """
        inner = self.inner
        return inner.get_flushed if isinstance(inner, CachingKeyValueStore) else inner.get

    def restore(self, batch: RecordBatch) -> None:
        self.inner.restore(replace(batch, values=ValuesWithTimestamps(batch.values, batch.timestamps_ms)))
