"""Persistent key-value stores on the simulated disk.

`SimulatedRocksDB` stands where the runtime has RocksDB, below the runtime's own transaction buffer. `SimulatedStore`
is a store of a user's own class: it works in memory, does not keep its offset, and a flush makes all that was written
sure. A crash keeps some of what was written since, never a part without all before it (`Database`). Errors are those of
`RocksDBStore`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from assignor.topology.builder import LOGGED
from assignor.topology.group_topology import ChangelogConfig
from assignor.types import TopicPartition
from streams_runtime.common.errors import InvalidStateStore, ProcessorStateError, StoreCorrupted
from streams_runtime.logs.base import RecordBatch
from streams_runtime.serdes import LongSerde, StringSerde
from streams_runtime.state_stores.builders import SerdesStoreBuilder
from streams_runtime.state_stores.change_logging import ChangeLoggingKeyValueBytesStore
from streams_runtime.state_stores.in_memory_stores import InMemoryKeyValueStore
from streams_runtime.state_stores.key_ranges import merged
from streams_runtime.state_stores.key_value import KeyValueStore
from streams_runtime.state_stores.rocksdb import ROCKSDB_DIRECTORY, Changes, KeepOffset, RocksDBStore
from streams_runtime.state_stores.state_store import (
    Entries,
    KeyValueBytesStore,
    StateStore,
    StoreBuilder,
    StoreContext,
)
from streams_runtime.state_stores.transaction_buffer import TransactionBuffer
from tests.simulation.disk import Batch, Database, DiskView, Machine


class _StoreOnDisk(InMemoryKeyValueStore):
    """What both have in common: the content in memory is what the disk has when the store is opened."""

    __slots__ = ("_database", "_path", "_view")

    persistent = True
    has_log = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._database: Database | None = None
        self._view: DiskView | None = None
        self._path = Path()

    @property
    def content(self) -> dict[bytes, bytes]:
        return self._entries

    def open(self, context: StoreContext) -> None:
        if self.is_open:
            return
        self._path = context.directory / ROCKSDB_DIRECTORY / self.name
        self._view = Machine.view_of(context.directory)
        try:
            with self._failures("open"):
                self._database = self._view.open_database(self._path, has_log=self.has_log)
        except ValueError as error:
            raise StoreCorrupted(f"store {self.name}: cannot open {self._path} ({error})") from error
        super().open(context)
        self._entries.update(self._database.content().entries)

    def flush(self) -> None:
        assert self._view is not None
        with self._failures("flush"):
            self._view.flush(self._opened, self._path)

    def close(self) -> None:
        if not self.is_open:
            return
        try:
            self.flush()
        finally:
            self._database = None
            super().close()

    @contextmanager
    def _failures(self, operation: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ProcessorStateError(f"store {self.name}: cannot {operation} {self._path} ({error})") from error

    @property
    def _opened(self) -> Database:
        if self._database is None:
            raise InvalidStateStore(f"store {self.name} is not open")
        return self._database


class SimulatedStore(_StoreOnDisk):
    """`KeyValueBytesStore`."""

    has_log = False

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self._opened.add(Batch([(key, value)]))

    def restore(self, batch: RecordBatch) -> None:
        super().restore(batch)
        for key, value in zip(batch.keys, batch.values, strict=True):
            if key is not None:
                self._opened.add(Batch([(key, value)]))


class SimulatedRocksDB(_StoreOnDisk):
    """`RocksDBStore`, as far as a transaction buffer calls it."""

    committed_offset: int | None = None

    @property
    def is_empty(self) -> bool:
        return not self.content

    def require_open(self) -> None:
        self._require_open()

    def open(self, context: StoreContext) -> None:
        super().open(context)
        self.committed_offset = self._opened.content().offset

    def close(self) -> None:
        self.committed_offset = None
        super().close()

    def write(
        self,
        changes: Changes,
        offset: int | KeepOffset | None = KeepOffset.KEEP,
        deleted_ranges: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        entries = [*changes.items()]
        for start, exclusive_end in deleted_ranges:
            live = {*self.content, *(key for key, _ in entries)}
            entries += [(key, None) for key in sorted(live) if start <= key < exclusive_end]
        batch = Batch(tuple(entries), offset)
        assert self._view is not None
        with self._failures("write"):
            self._view.write(self._opened, self._path, batch)
        for key, value in batch.entries:
            super().put(key, value)
        if not isinstance(offset, KeepOffset):
            self.committed_offset = offset

    def scan(
        self,
        start: bytes | None,
        exclusive_end: bytes | None,
        *,
        reverse: bool = False,
        changed: Mapping[bytes, bytes | None] = MappingProxyType({}),
    ) -> Entries:
        return merged(iter(super().scan(start, exclusive_end, reverse=reverse)), changed, reverse=reverse)

    def scan_ranges(
        self,
        ranges: Iterable[tuple[bytes, bytes]],
        *,
        reverse: bool = False,
        changed: Mapping[bytes, bytes | None] = MappingProxyType({}),
    ) -> Entries:
        found = [entry for start, end in ranges for entry in self.scan(start, end, reverse=reverse)]
        return merged(iter(found), changed, reverse=reverse)


def stored_offset(view: DiskView, application_id: str, directory: Path) -> tuple[TopicPartition, int] | None:
    """As that of RocksDB. `directory`: of a closed store, below that of its task."""
    database = view.disk.node(str(directory))
    if not isinstance(database, Database) or database.is_damaged or (offset := database.content().offset) is None:
        return None
    partition = int(directory.parent.parent.name.partition("_")[2])
    return TopicPartition(f"{application_id}-{directory.name}-changelog", partition), offset


def on_disk(store: Any) -> _StoreOnDisk:
    """The part of a store that is on the simulated disk, below all others."""
    while not isinstance(store, _StoreOnDisk):
        store = store.inner
    return store


@dataclass(frozen=True)
class OnSimulatedDisk:
    """A `StoreBuilder` whose stores are those of `builder`, but for the database below their transaction buffers."""

    builder: SerdesStoreBuilder[Any, Any]

    @property
    def name(self) -> str:
        return self.builder.name

    @property
    def changelog(self) -> ChangelogConfig | None:
        return self.builder.changelog

    def build(self) -> StateStore:
        store: Any = cast(StoreBuilder, self.builder).build()
        buffer = store
        while not isinstance(buffer, TransactionBuffer):
            buffer = buffer.inner
        buffer.inner = cast(RocksDBStore, SimulatedRocksDB(self.name))
        return store  # type: ignore[no-any-return]


@dataclass(frozen=True)
class CountsBuilder:
    """A `StoreBuilder`, as `KeyValueStoreBuilder`: serdes around change logging around bytes. `keeps_offset`: the store
    is on RocksDB and not of a user's own class.
    """

    name: str
    keeps_offset: bool
    changelog: ChangelogConfig | None = LOGGED

    def build(self) -> CountsStore:
        return CountsStore(self.name, keeps_offset=self.keeps_offset)


class CountsStore(KeyValueStore[str, int]):
    def __init__(self, name: str, *, keeps_offset: bool) -> None:
        bytes_store: KeyValueBytesStore = SimulatedStore(name)
        if keeps_offset:
            bytes_store = TransactionBuffer(cast(RocksDBStore, SimulatedRocksDB(name)))
        super().__init__(ChangeLoggingKeyValueBytesStore(bytes_store), StringSerde(), LongSerde())
