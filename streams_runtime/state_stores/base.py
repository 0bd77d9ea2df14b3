"""State stores in three layers: what a task does with any store, what a processor does with each kind, and what the
layers of a store ask of bytes.

A store for processors takes and gives objects (serdes are inside), writes every change to its changelog, and keeps
bytes in RocksDB or in memory. A standby or a restore only calls `restore`. A task calls from its own thread. Queries
read from other threads at the same time, so reads have to be thread-safe. Source: `StateStore`, `KeyValueStore`,
`TimestampedKeyValueStore`, `WindowStore`, `StoreBuilder`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from assignor.topology.group_topology import ChangelogConfig
from assignor.types import TaskId
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.state_stores.thread_cache import TaskCache

K = TypeVar("K")
V = TypeVar("V")
K_contra = TypeVar("K_contra", contravariant=True)
V_co = TypeVar("V_co", covariant=True)


class ChangeLogger(Protocol):
    """Where a logged store sends its changes, as bytes. `value` None is a deletion."""

    def limits_of(self, store: str) -> RecordLimits:
        """What its changelog takes as one record."""
        ...

    def check_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Raise for a change that its changelog does not take. Nothing is sent. Not needed for what the limits take
        unchecked.
        """
        ...

    def log_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Send a change that was checked."""
        ...


RocksDBConfigSetter = Callable[[str, Any], object]
"""A store's name and the `rocksdict.Options` it is opened with, which the call may change. Source:
`RocksDBConfigSetter.setConfig`.
"""


def nobody_asks(_store: str) -> None:
    """For a store that is used without a task."""


def nothing_is_read_again(_store: str, _reason: str) -> None:
    """For a store that is used without a changelog."""


@dataclass(frozen=True, slots=True)
class StoreContext:
    """What a store gets when it is opened.

    `directory`: of the task; a store keeps its files in `rocksdb/<name>` there. `changes`: None for a store that is
    not logged. `rocksdb_config_setter`: `rocksdb.config.setter`. `expired`: called with its name when a store leaves
    out what was put for a window that has expired. `cache`: None where no changes are held back, as in a standby.
    `read_again`: called with its name, and the reason in words, when a store that is opened may lack what its changelog
    still has. The changelog is read from the beginning then, over the content of the store.
    """

    task_id: TaskId
    directory: Path
    changes: ChangeLogger | None
    clock: RecordClock
    rocksdb_config_setter: RocksDBConfigSetter | None = None
    expired: Callable[[str], None] = nobody_asks
    cache: TaskCache | None = None
    read_again: Callable[[str, str], None] = nothing_is_read_again


class RecordClock(Protocol):
    """Times while a record is processed, in milliseconds since the epoch; -1 before the first record."""

    @property
    def record_timestamp_ms(self) -> int: ...
    @property
    def stream_time_ms(self) -> int: ...


class StateStore(Protocol):
    """What a task does with any store."""

    @property
    def name(self) -> str: ...

    @property
    def persistent(self) -> bool:
        """Whether the content outlives the process; only then is it checkpointed."""
        ...

    @property
    def is_open(self) -> bool: ...

    def open(self, context: StoreContext) -> None:
        """Open or create it. Raises ProcessorStateError; StoreOfAnotherKind for files that have to be deleted first."""
        ...

    def rebind(self, context: StoreContext) -> None:
        """The task was recycled: the store stays open with its content, in a new context."""
        ...

    def restore(self, batch: RecordBatch) -> None:
        """Apply changelog records in bulk without logging them. Later records win, and None deletes."""
        ...

    def flush(self) -> None:
        """Write everything to disk, if the store is persistent."""
        ...

    def close(self) -> None:
        """Flush and close; closing twice is fine."""
        ...


Entries = Iterator[tuple[bytes, bytes]]
"""Keys and values."""


class KeyValueBytesStore(StateStore, Protocol):
    """What serdes, record cache and change logging ask of a key-value store of bytes, on disk or in memory."""

    def get(self, key: bytes) -> bytes | None: ...
    def put(self, key: bytes, value: bytes | None) -> None: ...
    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        """In this order. Puts all of them or, after an error, none."""
        ...

    def scan(self, start: bytes | None, before: bytes | None, *, reverse: bool = False) -> Entries:
        """Keys from `start` up to, and without, `before`; down to `start` if `reverse`. None is an open end."""
        ...

    def approximate_num_entries(self) -> int: ...


class WindowBytesStore(StateStore, Protocol):
    """What serdes, record cache and change logging ask of a window store of bytes, on disk or in memory.

    Window starts are in milliseconds, and not negative in `put`. Ranges include both ends, which may be negative. A
    window is readable while its start is above observed stream time minus retention. Observed stream time is the
    highest start that was put or restored since the store was opened.

    Source: `WindowStore<Bytes, byte[]>`. Differs from Kafka: `put` gives the sequence number it used, so that the
    changelog gets the same one. Kafka counts twice, and the two numbers drift apart when a duplicate is deleted.
    """

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> int | None:
        """`key`: the window key with sequence number 0, which begins at `start_ms`.

        Gives the sequence number to log the change with (0 without duplicates). None: there is nothing to log. The
        value None deletes; in a store with duplicates it does nothing. What is put into a window that the store keeps
        no more is dropped, and the context hears of it: on disk that is a window of a deleted segment.
        """
        ...

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        """`key`: as of `put`. With duplicates: the value with the highest sequence number."""
        ...

    def fetch_range(self, key: bytes, from_ms: int, to_ms: int) -> Iterator[tuple[int, bytes]]:
        """Start and value in order of time. Duplicates are in order of their sequence numbers."""
        ...

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[bytes, int, bytes]]:
        """Key, start and value, in an order that depends on the store."""
        ...


Inner = TypeVar("Inner", bound=StateStore)


class WrappedStateStore(Generic[Inner]):
    """A store around another store. It passes on what a task asks of any store. Source: `WrappedStateStore`."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Inner) -> None:
        self._inner = inner

    @property
    def inner(self) -> Inner:
        return self._inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def persistent(self) -> bool:
        return self._inner.persistent

    @property
    def is_open(self) -> bool:
        return self._inner.is_open

    def open(self, context: StoreContext) -> None:
        self._inner.open(context)

    def rebind(self, context: StoreContext) -> None:
        self._inner.rebind(context)

    def restore(self, batch: RecordBatch) -> None:
        self._inner.restore(batch)

    def flush(self) -> None:
        self._inner.flush()

    def close(self) -> None:
        self._inner.close()


class ValueAndTimestamp(NamedTuple, Generic[V]):
    value: V
    timestamp_ms: int


class ReadOnlyKeyValueStore(Protocol[K, V_co]):
    """Keys are ordered by their bytes. Ranges include both ends; None is an open end."""

    def get(self, key: K) -> V_co | None: ...
    def range(self, start: K | None, end: K | None) -> Iterator[tuple[K, V_co]]: ...
    def reverse_range(self, start: K | None, end: K | None) -> Iterator[tuple[K, V_co]]: ...
    def all(self) -> Iterator[tuple[K, V_co]]: ...
    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[K, V_co]]: ...
    def approximate_num_entries(self) -> int: ...


class KeyValueStore(StateStore, ReadOnlyKeyValueStore[K, V], Protocol[K, V]):
    def put(self, key: K, value: V | None) -> None: ...
    def put_if_absent(self, key: K, value: V) -> V | None: ...
    def put_all(self, entries: list[tuple[K, V | None]]) -> None: ...
    def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """What `get` gives for each of them."""
        ...

    def put_many(self, keys: Iterable[K], values: Iterable[V | None]) -> None:
        """What `put` does with each key and its value, in this order; a key may come again, and None deletes.

        When one of them cannot be serialized, none is put.
        """
        ...

    def delete(self, key: K) -> V | None: ...


class TimestampedKeyValueStore(KeyValueStore[K, ValueAndTimestamp[V]], Protocol[K, V]):
    """Keeps a timestamp with each value: on disk 8 bytes before it, in the changelog the record's timestamp."""


class Windowed(NamedTuple, Generic[K]):
    """A key in the window from `start_ms` up to, and without, `end_ms`."""

    key: K
    start_ms: int
    end_ms: int


class ReadOnlyWindowStore(Protocol[K_contra, V_co]):
    """Times are window starts in milliseconds. Ranges include both ends."""

    def fetch(self, key: K_contra, start_ms: int) -> V_co | None: ...
    def fetch_range(self, key: K_contra, from_ms: int, to_ms: int) -> Iterator[tuple[int, V_co]]: ...


class WindowStore(StateStore, Protocol[K, V]):
    """Windows that are older than stream time minus retention are gone. `put` with None deletes."""

    def put(self, key: K, value: V | None, window_start_ms: int) -> None: ...
    def fetch(self, key: K, start_ms: int) -> V | None: ...
    def fetch_range(self, key: K, from_ms: int, to_ms: int) -> Iterator[tuple[int, V]]: ...
    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed[K], V]]: ...


class StoreBuilder(Protocol):
    """What a topology holds of a store: it makes one store for each task. It can be pickled."""

    @property
    def name(self) -> str: ...

    @property
    def changelog(self) -> ChangelogConfig | None:
        """None: not logged."""
        ...

    def build(self) -> StateStore: ...
