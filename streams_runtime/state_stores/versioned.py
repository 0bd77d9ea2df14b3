"""The versioned store that processors use, and the protocol of its layers.

The outer layer converts objects to bytes. Below it, a layer sends changes to the changelog. The inner layer is
`rocksdb_versioned`. A changelog record has the key, the value and the timestamp of a version. As in Kafka, a version
that was too old to be put is also logged; a restore leaves it out again.
Source: `MeteredVersionedKeyValueStore`, `ChangeLoggingVersionedKeyValueBytesStore`, `VersionedKeyValueStore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, Protocol

from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import K, V, record_timestamp
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.change_logging import LoggedStore
from streams_runtime.state_stores.state_store import SerdesStore, StateStore
from streams_runtime.state_stores.value_and_timestamp import TIMESTAMP_BYTES, EntryAccess, ValueAndTimestampSerde

NOT_PUT = -(2**63)
"""The result of a put into a versioned store if the version was too old to be put."""

VALID_TO_UNDEFINED = -1
"""The result of a put into a versioned store if the version is the newest version of its key now."""


class VersionedRecord(NamedTuple, Generic[V]):
    """A version of a key in a versioned store. `timestamp_ms`: the time from which on the version is valid.
    `valid_to_ms`: the time at which the next version begins; None if there is no next version, or if it is not known.
    """

    value: V
    timestamp_ms: int
    valid_to_ms: int | None = None


class VersionedBytesStore(StateStore, Protocol):
    """A versioned store of bytes. Two layers of a versioned store implement this protocol: the store in RocksDB, and
    change logging. As in Kafka, a versioned store is never in memory, and has no record cache.

    Each value that `get`, `get_as_of` and `delete` return begins with its timestamp (8 bytes). The value of a put does
    not. Source: `VersionedBytesStore`.
    """

    def get(self, key: bytes) -> bytes | None:
        """Returns the newest version."""

    def get_as_of(self, key: bytes, as_of_ms: int) -> bytes | None:
        """Returns the version that was valid at a time. The newest version never expires. Older versions are not found
        if the time is below stream time minus the history retention.
        """

    def versions(self, key: bytes, from_ms: int, to_ms: int) -> Iterator[VersionedRecord[bytes]]:
        """Returns the versions that were valid between two times, inclusive. The newest version comes first."""

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> int:
        """Puts a version. Returns the time at which the version ends, because a later version begins. Returns
        VALID_TO_UNDEFINED if there is no later version. Returns NOT_PUT if the version was too old; the store then
        calls `StoreContext.expired`.
        """

    def delete(self, key: bytes, timestamp_ms: int) -> bytes | None:
        """Puts a deletion. Returns the version that was valid at this time; None if the deletion was too old."""


class ChangeLoggingVersionedBytesStore(LoggedStore[VersionedBytesStore]):
    """A `VersionedBytesStore` that logs its changes."""

    def __init__(self, inner: VersionedBytesStore) -> None:
        super().__init__(inner)
        self.get, self.get_as_of, self.versions = inner.get, inner.get_as_of, inner.versions

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> int:
        self.check_logged(key, value, timestamp_ms)
        valid_to_ms = self.inner.put(key, value, timestamp_ms)
        self._log_change(self._name, key, value, timestamp_ms)
        return valid_to_ms

    def delete(self, key: bytes, timestamp_ms: int) -> bytes | None:
        self.check_logged(key, None, timestamp_ms)
        deleted = self.inner.delete(key, timestamp_ms)
        self._log_change(self._name, key, None, timestamp_ms)
        return deleted


class VersionedKeyValueStore(SerdesStore[VersionedBytesStore, K, V]):
    """A key-value store that keeps the older values of a key for its history retention (KIP-889). Times are in
    milliseconds. Raises StreamsRuntimeError if a key is None, and for an invalid timestamp. Raises the errors of
    serdes.

    `last_put`: the result of the last put of a table's operator. `EntryAccess.put` has no result, so `TableOperator`
    reads it here.
    """

    def __init__(self, inner: VersionedBytesStore, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        super().__init__(inner, key_serde, value_serde)
        self.value_serde = value_serde
        self._read = ValueAndTimestampSerde(value_serde).entry_reader()
        self.last_put = VALID_TO_UNDEFINED

    def put(self, key: K, value: V | None, timestamp_ms: int) -> int:
        """Puts a version that is valid from `timestamp_ms` on; None deletes the key at this time.

        Returns the time at which the key's next version begins. Returns VALID_TO_UNDEFINED (-1) if the new version is
        the newest one. Returns NOT_PUT (-2^63) if the timestamp is below stream time minus the history retention.
        """
        stored = None if value is None else self._serialize_value(value)
        return self.inner.put(self._serialized_key(key), stored, self._checked_time(timestamp_ms))

    def delete(self, key: K, timestamp_ms: int) -> VersionedRecord[V] | None:
        """Deletes the key at a time. Returns the version that was valid at this time."""
        return self._record(self.inner.delete(self._serialized_key(key), self._checked_time(timestamp_ms)))

    def get(self, key: K, as_of_ms: int | None = None) -> VersionedRecord[V] | None:
        """Returns the newest version of a key, or the version that was valid at the time `as_of_ms`. Returns None if
        the key was deleted or not in the store yet, or if the time is below stream time minus the history retention. As
        in Kafka, the result has no `valid_to_ms`.
        """
        stored_key = self._serialized_key(key)
        return self._record(
            self.inner.get(stored_key) if as_of_ms is None else self.inner.get_as_of(stored_key, as_of_ms)
        )

    def versions(
        self, key: K, from_ms: int | None = None, to_ms: int | None = None, *, ascending: bool = False
    ) -> list[VersionedRecord[V]]:
        """Returns the versions that were valid at some time from `from_ms` to `to_ms`, inclusive. If a bound is None,
        the range is open at this end. The newest version comes first, or last if `ascending` is True.

        Source: `MultiVersionedKeyQuery`.
        """
        first_ms, last_ms = 0 if from_ms is None else from_ms, JAVA_LONG_MAX if to_ms is None else to_ms
        if first_ms > last_ms:
            raise StreamsRuntimeError(f"store {self.name}: from_ms ({first_ms}) is greater than to_ms ({last_ms})")
        found = [
            VersionedRecord(self._deserialize_value(value), timestamp_ms, valid_to_ms)
            for value, timestamp_ms, valid_to_ms in self.inner.versions(self._serialized_key(key), first_ms, last_ms)
        ]
        return found[::-1] if ascending else found

    def entry_access(self) -> EntryAccess:
        """Returns the functions with which operators of the DSL read and write this store. See `EntryAccess`."""
        put_version = self.inner.put

        def put(stored_key: bytes, stored: bytes | None, timestamp_ms: int) -> None:
            value = None if stored is None else stored[TIMESTAMP_BYTES:]
            self.last_put = put_version(stored_key, value, timestamp_ms)

        write = ValueAndTimestampSerde(self.value_serde).entry_writer()
        return EntryAccess(self._serialize_key, self.inner.get, put, self._read, write, self._deserialize_key)

    def flushed_getter(self) -> Callable[[bytes], bytes | None]:
        """See `TimestampedKeyValueStore.flushed_getter`. A versioned store has no record cache."""
        return self.inner.get

    def entry_as_of(self, key: K, as_of_ms: int) -> tuple[int, V] | None:
        """Returns the timestamp and the value of the version that was valid at a time. For operators of the DSL."""
        stored = self.inner.get_as_of(self._serialize_key(key), as_of_ms)
        return None if stored is None else self._read(stored)

    def _record(self, stored: bytes | None) -> VersionedRecord[V] | None:
        if stored is None:
            return None
        timestamp_ms, value = self._read(stored)
        return VersionedRecord(value, timestamp_ms)

    def _checked_time(self, timestamp_ms: int) -> int:
        try:
            return record_timestamp(timestamp_ms)
        except ValueError as error:
            raise StreamsRuntimeError(f"store {self.name}: the version {error}") from None
