"""A persistent key-value store on the simulated disk, where the runtime has RocksDB.

Rules: it works in memory, and a flush makes all that was written sure. A crash keeps some of what was written since,
never a part without all before it (`Database`). Errors are those of `RocksDBStore`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assignor.topology.builder import LOGGED
from assignor.topology.group_topology import ChangelogConfig
from streams_runtime.common.errors import InvalidStateStore, ProcessorStateError, StoreCorrupted
from streams_runtime.logs.base import RecordBatch
from streams_runtime.serdes import LongSerde, StringSerde
from streams_runtime.state_stores.change_logging import ChangeLoggingKeyValueBytesStore
from streams_runtime.state_stores.in_memory_stores import InMemoryKeyValueStore
from streams_runtime.state_stores.key_value import SerdesKeyValueStore
from streams_runtime.state_stores.rocksdb import ROCKSDB_DIRECTORY
from streams_runtime.state_stores.state_store import StoreContext
from tests.simulation.disk import Database, DiskView, Machine


class SimulatedStore(InMemoryKeyValueStore):
    """`KeyValueBytesStore`."""

    __slots__ = ("_database", "_path", "_view")

    persistent = True

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
            self._database = self._view.open_database(self._path)
        except ValueError as error:
            raise StoreCorrupted(f"store {self.name}: cannot open {self._path} ({error})") from error
        except OSError as error:
            raise ProcessorStateError(f"store {self.name}: cannot open {self._path} ({error})") from error
        super().open(context)
        self._entries.update(self._database.flushed)

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self._opened.since.append((key, value))

    def restore(self, batch: RecordBatch) -> None:
        super().restore(batch)
        self._opened.since.extend(zip(batch.keys, batch.values, strict=True))

    def flush(self) -> None:
        assert self._view is not None
        try:
            self._view.flush(self._opened, self._path)
        except OSError as error:
            raise ProcessorStateError(f"store {self.name}: cannot flush {self._path} ({error})") from error

    def close(self) -> None:
        if not self.is_open:
            return
        try:
            self.flush()
        finally:
            self._database = None
            super().close()

    @property
    def _opened(self) -> Database:
        if self._database is None:
            raise InvalidStateStore(f"store {self.name} is not open")
        return self._database


@dataclass(frozen=True)
class CountsBuilder:
    """A `StoreBuilder`, as `KeyValueStoreBuilder`: serdes around change logging around bytes. `inner`: of the bytes."""

    name: str
    changelog: ChangelogConfig | None = LOGGED

    def build(self) -> CountsStore:
        return CountsStore(self.name)


class CountsStore(SerdesKeyValueStore[str, int]):
    """`bytes_store`: what it has on the disk."""

    __slots__ = ("bytes_store",)

    def __init__(self, name: str) -> None:
        self.bytes_store = SimulatedStore(name)
        super().__init__(ChangeLoggingKeyValueBytesStore(self.bytes_store), StringSerde(), LongSerde())
