"""The protocols of state stores, and the bases of their layers. Tasks use `StateStore`. Each layer inside a store is a
`KeyValueBytesStore`, a `WindowBytesStore` or a `SessionBytesStore`. `versioned` has the protocol of a versioned layer.

Processors put objects into a store and get objects from it. The store sends each change to its changelog, and keeps its
content as bytes in RocksDB or in memory. Standbys and restores change a store only by `restore`. A task calls its
stores on its stream thread. Queries of other threads read at the same time, so reads have to be thread-safe. Source:
`StateStore`, `StoreBuilder`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeGuard, TypeVar, cast

from assignor.topology.group_topology import ChangelogConfig
from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import ProcessorStateError, StoreCorrupted, StreamsRuntimeError
from streams_runtime.common.records import Headers, K, V
from streams_runtime.logs.base import IsolationLevel, RecordBatch
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.serdes import Serde, serializer_of
from streams_runtime.state_stores.session_keys import SessionRange
from streams_runtime.state_stores.thread_cache import TaskCache


class ChangeLogger(Protocol):
    """Sends the changes of stores to their changelogs, as bytes. A change with the value None is a deletion."""

    def limits_of(self, store: str) -> RecordLimits:
        """Returns the limits for records in the store's changelog."""

    def check_change(
        self, store: str, key: bytes, value: bytes | None, timestamp_ms: int, headers: Headers = ()
    ) -> None:
        """Raises an error if the store's changelog does not accept a change. Sends nothing.

        The check is not needed for a change that `RecordLimits.takes_unchecked` accepts.
        """

    def log_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int, headers: Headers = ()) -> None:
        """Sends a change. The caller must have checked the change with `check_change`."""


RocksDBConfigSetter = Callable[[str, Any], object]
"""The type of a function (store's name, `rocksdict.Options`) that may change RocksDB's options for a store. Source:
`RocksDBConfigSetter.setConfig`.
"""


def ignore_expired(_store: str) -> None:
    """Does nothing. The default of `StoreContext.expired`, for a store without a task."""


def ignore_read_again(_store: str, _reason: str) -> None:
    """Does nothing. The default of `StoreContext.read_again`, for a store without a changelog."""


@dataclass(frozen=True, slots=True)
class StoreContext:
    """The values and callbacks that a store gets from its task when it is opened.

    `directory`: the directory of the task. A store has its files in the subdirectory `rocksdb/<name>`. `changes`: sends
    the changes of the store; None for a store without a changelog. `rocksdb_config_setter`: the config
    `rocksdb.config.setter`. `expired`: a function (store's name) that the store calls when it drops a put into an
    expired window. `cache`: the record caches of the task; None if the store has no record cache, for example in a
    standby. `read_again`: a function (store's name, reason). The store calls `read_again` in `open` if the changelog
    may have entries that the store does not have. After this call, the task reads the changelog from its beginning, and
    the store keeps its content. `damaged`: a function (message) that returns the error that an open store raises when a
    read or a write finds damaged files. `changelog`: the changelog of the store; None if the store has no changelog.
    `log_id`: the id of the log with the changelog; None if it is not known. `topic_id`: the id of the changelog's
    topic; None if it is not known. `transactional`: the config `enable.transactional.statestores`.
    """

    task_id: TaskId
    directory: Path
    changes: ChangeLogger | None
    clock: RecordClock
    rocksdb_config_setter: RocksDBConfigSetter | None = None
    expired: Callable[[str], None] = ignore_expired
    cache: TaskCache | None = None
    read_again: Callable[[str, str], None] = ignore_read_again
    damaged: Callable[[str], ProcessorStateError] = StoreCorrupted
    changelog: TopicPartition | None = None
    log_id: str | None = None
    topic_id: str | None = None
    transactional: bool = True


class RecordClock(Protocol):
    """The times of the record that is being processed, in milliseconds since 1970. Before the first record, the times
    are -1.
    """

    @property
    def record_timestamp_ms(self) -> int: ...
    @property
    def stream_time_ms(self) -> int: ...
    @property
    def current_system_time_ms(self) -> int:
        """The wall-clock time of the task."""


class NoRecords:
    """The `RecordClock` of the stores of a standby, which processes no records."""

    record_timestamp_ms = -1
    stream_time_ms = -1
    current_system_time_ms = -1


class StateStore(Protocol):
    """A store of any kind, with the methods that tasks call."""

    @property
    def name(self) -> str: ...

    @property
    def persistent(self) -> bool:
        """True if the store's content outlives the process. Only persistent stores have offsets in the checkpoint."""

    @property
    def is_open(self) -> bool: ...

    def open(self, context: StoreContext) -> None:
        """Opens or creates the store.

        Raises ProcessorStateError. Raises StoreOfAnotherKind if the files of the store have to be deleted first.
        """

    def rebind(self, context: StoreContext) -> None:
        """Makes the store use a new context. A task calls this method when it is recycled. The store stays open and
        keeps its content.
        """

    def restore(self, batch: RecordBatch) -> None:
        """Writes changelog records to the store without logging them. If a key occurs in several records, the store
        gets the last of these records. The value None deletes the key.
        """

    def flush(self) -> None:
        """Writes all changes to disk if the store is persistent."""

    def close(self) -> None:
        """Flushes and closes the store. Does nothing if the store is closed."""


StoreOffset = int | tuple[int, ...]
"""The offset of the last changelog record in a store. A global store reads several partitions, so it has a tuple with
an offset for each partition of its topic; -1 if the store has no record of the partition.
"""


class OffsetKeepingStore(StateStore, Protocol):
    """A store that keeps the offset of its changelog together with its content. Changes are uncommitted until `commit`;
    `flush` does not write them, and `close` drops them. `restore` writes the offset of the last record of its batch.

    Source: `StateStore.managesOffsets`, `commit`, `committedOffset`, `approximateNumUncommittedBytes`; KIP-1035,
    KIP-892.
    """

    @property
    def committed_offset(self) -> StoreOffset | None:
        """The offset of the last changelog record in the store. None if it is not known, or if the store has no
        changelog.
        """

    @property
    def uncommitted_bytes(self) -> int:
        """The approximate size of the uncommitted changes in memory."""

    @property
    def is_empty(self) -> bool:
        """True if the store has no committed entry."""

    def commit(self, offset: StoreOffset | None) -> None:
        """Writes all uncommitted changes and the offset in one write batch. None deletes the offset. Raises
        ProcessorStateError.
        """


def keeps_offset(store: StateStore) -> TypeGuard[OffsetKeepingStore]:
    """Returns False for a store in memory, and for a store of a user's own class."""
    return bool(getattr(store, "keeps_offset", False))


def offset_keeper(store: OffsetKeepingStore) -> OffsetKeepingStore:
    """Returns the innermost layer that keeps the offset. The layers around it only forward `commit`."""
    inner = getattr(store, "inner", None)
    return offset_keeper(inner) if inner is not None and keeps_offset(inner) else store


class CommitLoggingStore(StateStore, Protocol):
    """A store that collects its changes, and logs each changed key once for each commit."""

    def log_changes(self) -> None:
        """Sends the changes after the last call to the changelog. The task calls this method before a commit, when the
        record caches are flushed.
        """


def logs_at_commit(store: StateStore) -> TypeGuard[CommitLoggingStore]:
    return bool(getattr(store, "logs_at_commit", False))


def read_only(store: StateStore, isolation: IsolationLevel) -> StateStore:
    """Returns a view of a store for queries of other threads. With READ_COMMITTED, the view leaves out the changes that
    the task has not committed. A store without transactions is returned unchanged. Source: `StateStore.readOnly`.
    """
    if isolation is IsolationLevel.READ_COMMITTED and keeps_offset(store) and isinstance(store, SerdesStore):
        return cast("StateStore", store.committed())
    return store


Entries = Iterator[tuple[bytes, bytes]]
"""An iterator over pairs of a key and a value."""


class KeyValueBytesStore(StateStore, Protocol):
    """A key-value store of bytes. Three layers of a key-value store implement this protocol: the store in RocksDB or in
    memory, change logging, and the record cache.
    """

    def get(self, key: bytes) -> bytes | None: ...
    def put(self, key: bytes, value: bytes | None) -> None: ...
    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        """Puts the entries in the given order. After an error, none of the entries is in the store."""

    def scan(self, start: bytes | None, exclusive_end: bytes | None, *, reverse: bool = False) -> Entries:
        """Returns the entries from `start` up to, but not including, `exclusive_end`. The order is descending if
        `reverse` is True. If a bound is None, the range is open at this end.
        """

    def approximate_num_entries(self) -> int: ...


class WindowBytesStore(StateStore, Protocol):
    """A window store of bytes. Three layers of a window store implement this protocol: the store in RocksDB or in
    memory, change logging, and the record cache. Window starts are in milliseconds. In `put`, the start must not be
    negative. Ranges include both bounds, and a bound may be negative. A window can be read if its start is greater than
    observed stream time minus retention. Observed stream time is the highest start of all windows that were put or
    restored after the store was opened.

    Source: `WindowStore<Bytes, byte[]>`. Differs from Kafka: the changelog record has the sequence number of
    the store. In Kafka, the store and the change-logging layer have separate sequence
    numbers, which differ after a put of None.
    """

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> bytes:
        """Puts a value. Returns the key of the changelog record. In a store without duplicates, its sequence number is
        0.

        `key`: the window key for `start_ms`, with sequence number 0. The value None deletes the window. A store with
        duplicates ignores the value None, but uses up a sequence number. A store in memory drops each put into an
        expired window. A store on disk drops a put only if the segment of the window has been deleted. If a put is
        dropped, the store calls `StoreContext.expired`.
        """

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        """Returns the value of a window. If the window has several duplicates, returns the duplicate with the highest
        sequence number. `key`: the window key for `start_ms`, with sequence number 0.
        """

    def fetch_range(
        self, key: bytes, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, bytes]]:
        """Returns the starts and values of a key's windows, sorted by time. Duplicates are sorted by sequence
        number. `reverse`: True for the reverse order.
        """

    def fetch_all(
        self, from_ms: int, to_ms: int, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, int, bytes]]:
        """Returns the keys, starts and values of the windows of all keys from `first` to `last`; None for no bound. The
        order depends on the store. `reverse`: True for the reverse order.
        """


class SessionBytesStore(StateStore, Protocol):
    """A session store of bytes. Three layers of a session store implement this protocol: the store in RocksDB or in
    memory, change logging, and the record cache. `session_keys` describes session keys. A session can be read if its
    end is greater than observed stream time minus retention. Observed stream time is the highest end of all sessions
    that were put or restored after the store was opened.

    Source: `SessionStore<Bytes, byte[]>`.
    """

    def put(self, session_key: bytes, value: bytes | None) -> None:
        """Puts a session. The value None deletes the session. A store in memory drops each put of an expired session. A
        store on disk drops a put only if the segment of the session has been deleted. If a put is dropped, the store
        calls `StoreContext.expired`.
        """

    def remove(self, session_key: bytes) -> None:
        """Deletes a session. Ignores an expired session."""

    def fetch_session(self, session_key: bytes) -> bytes | None: ...

    def find_sessions(self, wanted: SessionRange, *, reverse: bool = False) -> Entries:
        """Returns the session keys and values of the sessions in the range. The sessions of a key are sorted by time.
        The order of the keys depends on the store.
        """

    def find_sessions_by_end(self, earliest_end_ms: int, latest_end_ms: int) -> Entries:
        """Returns the session keys and values of the sessions that end between the bounds, inclusive, sorted by end."""


Inner = TypeVar("Inner", bound=StateStore)


class WrappedStateStore(Generic[Inner]):
    """A store with an inner store, to which it forwards the calls of a task. Source: `WrappedStateStore`."""

    def __init__(self, inner: Inner) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def persistent(self) -> bool:
        return self.inner.persistent

    @property
    def is_open(self) -> bool:
        return self.inner.is_open

    @property
    def keeps_offset(self) -> bool:
        return keeps_offset(self.inner)

    # The next five members may only be used if `keeps_offset` is True.

    @property
    def committed_offset(self) -> StoreOffset | None:
        return self.inner.committed_offset  # type: ignore[attr-defined,no-any-return]

    @property
    def uncommitted_bytes(self) -> int:
        return self.inner.uncommitted_bytes  # type: ignore[attr-defined,no-any-return]

    @property
    def is_empty(self) -> bool:
        return self.inner.is_empty  # type: ignore[attr-defined,no-any-return]

    def commit(self, offset: StoreOffset | None) -> None:
        self.inner.commit(offset)  # type: ignore[attr-defined]

    def committed(self) -> Any:
        """Returns a view of this store for reads that ignore uncommitted changes. A query makes a view and drops it."""
        view = copy(self)
        view.inner = self.inner.committed()  # type: ignore[attr-defined]
        view._read_from_inner()
        return view

    def _read_from_inner(self) -> None:
        """Called after `inner` was replaced. A store that keeps methods of `inner` overrides this method."""

    def open(self, context: StoreContext) -> None:
        self.inner.open(context)
        self._bind(context)

    def rebind(self, context: StoreContext) -> None:
        self.inner.rebind(context)
        self._bind(context)

    def _bind(self, context: StoreContext) -> None:
        """Called after the inner store was opened or rebound. A store that uses the context of its task overrides
        `_bind`.
        """

    def restore(self, batch: RecordBatch) -> None:
        self.inner.restore(batch)

    def flush(self) -> None:
        self.inner.flush()

    def close(self) -> None:
        self.inner.close()


class SerdesStore(WrappedStateStore[Inner], Generic[Inner, K, V]):
    """A store of objects with an inner store of bytes."""

    def __init__(self, inner: Inner, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        super().__init__(inner)
        self.key_serde = key_serde
        self._serialize_key = serializer_of(key_serde)
        self._deserialize_key = key_serde.deserialize
        self._serialize_value: Callable[[V], bytes | None] = serializer_of(value_serde)
        self._deserialize_value = value_serde.deserialize

    def _serialized_key(self, key: K) -> bytes:
        if key is None:
            raise self._key_is_none()
        return self._serialize_key(key)

    def _key_is_none(self) -> StreamsRuntimeError:
        return StreamsRuntimeError(f"store {self.name}: key cannot be None")


class ValueAndTimestamp(NamedTuple, Generic[V]):
    value: V
    timestamp_ms: int


class Windowed(NamedTuple, Generic[K]):
    """A key in a window. A time window includes the time `start_ms` and excludes the time `end_ms`. A session and a
    sliding window include both.
    """

    key: K
    start_ms: int
    end_ms: int


class StoreBuilder(Protocol):
    """Makes a store for each task. A builder is part of the topology, and can be pickled."""

    @property
    def name(self) -> str: ...

    @property
    def changelog(self) -> ChangelogConfig | None:
        """The configs of the changelog; None for a store without a changelog."""

    def build(self) -> StateStore: ...
