"""Persistent key-value stores on the simulated disk.

`SimulatedRocksDB` stands where the runtime has RocksDB, below the runtime's own transaction buffer. `SimulatedStore`
is a store of a user's own class: it works in memory, does not keep its offset, and a flush makes all that was written
sure. A crash keeps some of what was written since, never a part without all before it (`Database`). Errors are those of
`RocksDBStore`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from assignor.topology.builder import LOGGED
from assignor.topology.group_topology import ChangelogConfig
from assignor.types import TopicPartition
from streams_runtime.common.errors import InvalidStateStore, ProcessorStateError, StoreCorrupted
from streams_runtime.logs.base import RecordBatch
from streams_runtime.serdes import LongSerde, StringSerde
from streams_runtime.state_stores.change_logging import ChangeLoggingKeyValueBytesStore
from streams_runtime.state_stores.in_memory_stores import InMemoryKeyValueStore
from streams_runtime.state_stores.key_value import SerdesKeyValueStore
from streams_runtime.state_stores.rocksdb import ROCKSDB_DIRECTORY, KeepOffset, RocksDBStore
from streams_runtime.state_stores.state_store import KeyValueBytesStore, StoreContext
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
        for entry in zip(batch.keys, batch.values, strict=True):
            self._opened.add(Batch([entry]))


class SimulatedRocksDB(_StoreOnDisk):
    """`RocksDBStore`, as far as a transaction buffer calls it for a key-value store."""

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
        keys: Iterable[bytes | None],
        values: Iterable[bytes | None],
        offset: int | KeepOffset | None = KeepOffset.KEEP,
        _deleted_ranges: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        batch = Batch(tuple(zip(keys, values, strict=True)), offset)
        assert self._view is not None
        with self._failures("write"):
            self._view.write(self._opened, self._path, batch)
        for key, value in batch.entries:
            if key is not None:
                super().put(key, value)
        if not isinstance(offset, KeepOffset):
            self.committed_offset = offset


def stored_offset(view: DiskView, application_id: str, directory: Path) -> tuple[TopicPartition, int] | None:
    """As that of RocksDB. `directory`: of a closed store, below that of its task."""
    database = view.disk.node(str(directory))
    if not isinstance(database, Database) or database.is_damaged or (offset := database.content().offset) is None:
        return None
    partition = int(directory.parent.parent.name.partition("_")[2])
    return TopicPartition(f"{application_id}-{directory.name}-changelog", partition), offset


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


class CountsStore(SerdesKeyValueStore[str, int]):
    """`on_disk`: what it has on the disk."""

    __slots__ = ("on_disk",)

    def __init__(self, name: str, *, keeps_offset: bool) -> None:
        self.on_disk = SimulatedRocksDB(name) if keeps_offset else SimulatedStore(name)
        bytes_store: KeyValueBytesStore = self.on_disk
        if keeps_offset:
            bytes_store = TransactionBuffer(cast(RocksDBStore, self.on_disk))
        super().__init__(ChangeLoggingKeyValueBytesStore(bytes_store), StringSerde(), LongSerde())
