"""Stores of bytes in RocksDB. Each store has its own database in `<task directory>/rocksdb/<store name>`.

Keys are ordered as unsigned bytes. Only the task's thread may write, flush and close a store. Any thread may read.
After `close` has begun, every new read raises InvalidStateStore.

`rocksdb_offsets` has the rules of the changelog offset.

Rules of damaged files: RocksDB checks the checksum of each block when it reads the block, and the names and sizes of
all files when it opens them. In addition, `open` reads the whole content of a store with at most VERIFIED_ENTRIES
entries in files of at most VERIFIED_BYTES. So damage of a small store is found when the store is opened, and damage of
a large store is found at the latest when the damaged block is read. `open` and reads raise StoreCorrupted. Reading the
whole content takes a quarter of a second for a million entries.

Source: `RocksDBStore`; KIP-1035.

Differs from Kafka: if a new version of an application replaces a plain store by a timestamped store, the old files are
not converted. Instead, the store raises StoreOfAnotherKind, and the task restores the store from the changelog. Kafka
does not check to which log the files belong, and does not read the content when it opens a store.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from rocksdict import DbClosedError, Options, WriteBatch

from operating_system.private_files import make_private_directory
from operating_system.processes import advice_of, with_advice
from streams_runtime.common.errors import (
    InvalidStateStore,
    ProcessorStateError,
    StoreCorrupted,
    StoreOfAnotherKind,
    StreamsRuntimeError,
)
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.key_ranges import merged
from streams_runtime.state_stores.rocksdb_iterators import Cursors, Entry, damage_of, entries_between
from streams_runtime.state_stores.rocksdb_offsets import (
    OFFSET,
    OFFSETS,
    decoded_offset,
    encoded_offset,
    flush_database,
    open_database,
    origin_of,
    stored_values,
)
from streams_runtime.state_stores.rocksdb_options import store_options
from streams_runtime.state_stores.state_store import RocksDBConfigSetter, StoreContext, StoreOffset
from streams_runtime.state_stores.store_format import StoreFormat, StoreKind, read_format, write_format
from streams_runtime.state_stores.value_and_timestamp import TIMESTAMP_BYTES
from streams_runtime.state_stores.window_keys import are_segmented_window_keys

ROCKSDB_DIRECTORY = "rocksdb"
_logger = logging.getLogger(__name__)
_RETRY_CLOSE_S = 0.001
_SIGNS_OF_DAMAGE = ("Corruption", "No such file", "does not exist")
VERIFIED_BYTES = 64 * 1024 * 1024
VERIFIED_ENTRIES = 1_000_000
"""`open` reads the whole content of a store if its files have at most this size, and at most so many entries. The time
depends on the entries: 64 MiB may be five million small ones, and reading them takes a tenth of the time of a restore.
"""


class KeepOffset(Enum):
    """The argument of `RocksDBStore.write` for a batch that does not change the offset."""

    KEEP = "keep"


NewOffset = StoreOffset | Literal[KeepOffset.KEEP] | None
"""The changelog offset that a batch writes; None to delete the stored offset."""

Ranges = Sequence[tuple[bytes | None, bytes | None]]
"""Ranges of keys, each from its first key to its exclusive end."""

Changes = Mapping[bytes, bytes | None]
_NO_CHANGES: Changes = MappingProxyType({})
KEY_VALUE_FORMAT = StoreFormat(StoreKind.KEY_VALUE)


class _NotOpen:
    """Takes the place of the database while a store is not open. Every method raises the error of a closed database."""

    def __getattr__(self, name: str) -> Any:
        raise DbClosedError("not open")


_NOT_OPEN: Any = _NotOpen()


@dataclass(eq=False, repr=False)
class RocksDBStore:
    """The store in RocksDB to which `TransactionBuffer` writes its changes. Errors of RocksDB become
    ProcessorStateErrors that name the directory.

    `committed_offset`: the offset of the last changelog record in the store; None if it is not known, or if the store
    has no changelog.

    `_format`: the format of the store's files. `_convert`: a function that `open` calls if the format of the files is
    not `_format`. The arguments of `_convert` are this store and the format of the files (None if the format is not
    recorded). `_convert` converts the content, or raises StoreOfAnotherKind. Without `_convert`, `open` only checks the
    content.
    """

    persistent = True
    owner_thread: ClassVar[int] = 0
    """As in a closed `TransactionBuffer`: no thread has entries in memory."""

    name: str
    _format: StoreFormat = KEY_VALUE_FORMAT
    _convert: Callable[[RocksDBStore, StoreFormat | None], None] | None = None

    def __post_init__(self) -> None:
        self._directory = Path()
        # the type is Any, because rocksdict's stub does not have all methods, and because a closed store has
        # `_NOT_OPEN` here
        self._database: Any = _NOT_OPEN
        self._cursors = Cursors(self._failure)
        self._cursors.close()
        self._offsets: Any = None  # the handle of the column family OFFSETS, while the store is open
        self._new_origin: dict[bytes, bytes] = {}  # the part of the origin that the files do not contain
        self.committed_offset: StoreOffset | None = None
        self._damaged: Callable[[str], ProcessorStateError] = StoreCorrupted

    @property
    def is_open(self) -> bool:
        return self._database is not _NOT_OPEN

    def open(self, context: StoreContext) -> None:
        if self.is_open:
            return
        self._directory = context.directory / ROCKSDB_DIRECTORY / self.name
        try:
            make_private_directory(self._directory.parent)
            found = read_format(self._directory)
            if found is not None and found.kind != self._format.kind:
                raise self.wrong_kind(f"a {found.kind} store")
            self._check_that_files_are_complete()
            database = open_database(self._directory, self._options(context.rocksdb_config_setter))
        except ProcessorStateError:
            raise
        except Exception as error:  # rocksdict raises errors of the plain class Exception
            raise self._cannot_open(error) from error
        self._cursors = Cursors(self._failure)
        self._database = database
        self._offsets = database.get_column_family_handle(OFFSETS)
        try:
            with self._failures():
                self._check_content(origin_of(context))
            if found != self._format:
                self._convert_files(found)
        except BaseException:
            with suppress(ProcessorStateError):  # damaged files may also prevent the flush; the first error is raised
                self.close()
            raise
        self._damaged = context.damaged

    def _check_that_files_are_complete(self) -> None:
        """Raises StoreCorrupted if the file is missing that every database has. RocksDB would make an empty database,
        and delete the other files.
        """
        if self._directory.is_dir() and not (self._directory / "CURRENT").exists():
            left = [path.name for path in self._directory.iterdir() if path.suffix in (".sst", ".log")]
            if left:
                raise StoreCorrupted(f"store {self.name}: the file CURRENT is missing in {self._directory}")

    def _check_content(self, origin: Mapping[bytes, bytes]) -> None:
        """Reads the offset. Raises StoreCorrupted if the content is damaged, or if its origin is not `origin`."""
        stored = stored_values(self._database)
        for key, needed in origin.items():
            if stored.get(key, needed) != needed:
                raise StoreCorrupted(
                    f"store {self.name}: the state in {self._directory} is that of {key.decode().replace('-', ' ')} "
                    f"{stored[key].decode()!r}, not of {needed.decode()!r}"
                )
        self._new_origin = {key: value for key, value in origin.items() if key not in stored}
        self.committed_offset = decoded_offset(stored, self._database)
        size = self._database.property_int_value("rocksdb.live-sst-files-size") or 0
        is_small = size <= VERIFIED_BYTES and self.approximate_num_entries() <= VERIFIED_ENTRIES
        if is_small and (damage := damage_of(self._database)) is not None:
            raise damage

    def wrong_kind(self, content: str) -> StoreOfAnotherKind:
        """Returns the error for files of another kind of store. `content`: a text that describes the content of the
        files.
        """
        return StoreOfAnotherKind(
            f"store {self.name}: the directory {self._directory} holds {content}, not a {self._format.kind} store"
        )

    def record_format(self, file_format: StoreFormat) -> None:
        """Writes the format of the files to a file in the same directory. The next process reads this file. Raises
        ProcessorStateError.
        """
        with self._failures():
            write_format(self._directory, file_format)

    def rebind(self, context: StoreContext) -> None:
        """Does nothing, because the store does not depend on the context."""

    def require_open(self) -> None:
        if not self.is_open:
            raise InvalidStateStore(f"store {self.name} is not open")

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._database.get(key)  # type: ignore[no-any-return]
        except Exception as error:
            raise self._failure(error) from error

    def restore(self, batch: RecordBatch) -> None:
        """Writes changelog records to the store. Records without a key are skipped, as in Kafka."""
        self.write(last_values(batch.keys, batch.values), batch.offsets[-1])

    def write(
        self, changes: Changes, offset: NewOffset = KeepOffset.KEEP, deleted_ranges: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """Writes keys and their values in one batch. The value None deletes the key. The batch is sorted, because
        RocksDB writes sorted keys in half the time. The faster write saves more time than the sorting takes.

        `offset`: the new value of `committed_offset`. The offset is written in the same batch, even if it does not
        change, because its value contains the number of the batch's last write.
        `deleted_ranges`: ranges of keys, each from its first key to its exclusive end. The batch deletes these ranges,
        after it has written the keys.
        """
        batch: Any = WriteBatch(raw_mode=True)
        with self._failures():
            for key in sorted(changes):
                value = changes[key]
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
            for start, exclusive_end in deleted_ranges:
                batch.delete_range(start, exclusive_end)
            if offset is KeepOffset.KEEP:
                offset = self.committed_offset
            self._put_offset(batch, offset)
            self._database.write(batch)
        self.committed_offset = offset
        if offset is not None:
            self._new_origin = {}

    def _put_offset(self, batch: Any, offset: StoreOffset | None) -> None:
        if offset is None:
            batch.delete(OFFSET, self._offsets)
            return
        for key, value in self._new_origin.items():
            batch.put(key, value, self._offsets)
        batch.put(OFFSET, encoded_offset(offset, self._database, batch), self._offsets)

    def scan(
        self,
        start: bytes | None,
        exclusive_end: bytes | None,
        *,
        reverse: bool = False,
        changed: Changes = _NO_CHANGES,
    ) -> Iterator[Entry]:
        """Returns a snapshot of the entries from `start` up to, but not including, `exclusive_end`. If a bound is None,
        the range is open at this end.

        The entries are in ascending order, or in descending order if `reverse` is True. `changed`: changes of this
        range that are merged into the entries.
        """
        return self.scan_ranges([(start, exclusive_end)], reverse=reverse, changed=changed)

    def scan_ranges(self, ranges: Ranges, *, reverse: bool = False, changed: Changes = _NO_CHANGES) -> Iterator[Entry]:
        """Like `scan`, but returns the entries of several ranges, in ascending order. All ranges are read from the same
        snapshot, so a query never finds one part of a commit without the other part. `ranges`: disjoint ranges in
        ascending order, each from its first key to its exclusive end. `reverse`: True for the descending order; then
        the ranges are in descending order, too.
        """
        database = self._database
        return self._cursors.read(
            lambda: merged(entries_between(database, ranges, reverse=reverse), changed, reverse=reverse)
        )

    def scan_index(
        self,
        bounds: tuple[bytes, bytes],
        stored_key: Callable[[bytes], bytes],
        reverse: bool,
        changed: tuple[Changes, Changes] = (_NO_CHANGES, _NO_CHANGES),
    ) -> Iterator[Entry]:
        """Returns the entries to which a range of index keys refers, in the order of the index. The index and the
        entries are read from the same snapshot. `bounds`: the first index key, and the exclusive end. `stored_key`:
        returns the key of the entry to which an index key refers. `changed`: the changes of this range of the index,
        and the changes of the whole store.
        """
        database, (in_index, everywhere) = self._database, changed

        def read() -> Iterator[Entry]:
            snapshot = database.snapshot()
            index = merged(entries_between(snapshot, [bounds], reverse=reverse), in_index, reverse=reverse)
            keys = (stored_key(index_key) for index_key, _ in index)
            values = ((key, everywhere[key] if key in everywhere else snapshot[key]) for key in keys)
            return ((key, value) for key, value in values if value is not None)

        return self._cursors.read(read)

    @property
    def is_empty(self) -> bool:
        return next(self.scan(None, None), None) is None

    def approximate_num_entries(self) -> int:
        """Returns RocksDB's estimate, which may count overwritten and deleted keys until compaction removes them."""
        with self._failures():
            return max(0, self._database.property_int_value("rocksdb.estimate-num-keys") or 0)

    def flush(self) -> None:
        with self._failures():
            flush_database(self._database)

    def close(self) -> None:
        """Flushes and closes the store, and ends all iterators. Closes the store even if the flush fails, and then
        raises ProcessorStateError.
        """
        database = self._database
        if database is _NOT_OPEN:
            return
        self._database = _NOT_OPEN  # after this line, reads of other threads raise InvalidStateStore
        self._offsets = None  # a handle of a column family keeps the database open
        self.committed_offset = None
        self._cursors.close()
        try:
            with self._failures():
                flush_database(database)
        finally:
            with self._failures():
                _close_when_unused(database)

    def _refuse_other_kinds(self, _found: StoreFormat | None) -> None:
        """Checks the files of a key-value store that have no recorded format. Reads the first and the last entry.
        Raises StoreOfAnotherKind if the entries are windows, or if a timestamped store has values without timestamps.
        """
        first, last = next(self.scan(None, None), None), next(self.scan(None, None, reverse=True), None)
        if first is None or last is None:
            return
        if are_segmented_window_keys(first[0], last[0]):
            raise self.wrong_kind("windows")
        is_timestamped = self._format.kind == StoreKind.TIMESTAMPED_KEY_VALUE
        if is_timestamped and min(len(first[1]), len(last[1])) < TIMESTAMP_BYTES:
            raise self.wrong_kind("values without timestamps")

    def _convert_files(self, found: StoreFormat | None) -> None:
        """Converts files of a different or unknown format to the format of this store."""
        (self._convert or RocksDBStore._refuse_other_kinds)(self, found)
        self.flush()  # flush first, so that the converted content is durable before its format is recorded
        self.record_format(self._format)

    def forget_offset(self) -> None:
        """Deletes the stored offset durably. The task then restores the store from the beginning of its changelog."""
        if self.committed_offset is not None:
            self.write({}, offset=None)
            self.flush()

    def _options(self, change: RocksDBConfigSetter | None) -> Options:
        options = store_options()
        if change is not None:
            try:
                change(self.name, options)
            except Exception as error:
                raise ProcessorStateError(
                    f"store {self.name}: rocksdb.config.setter failed: {type(error).__name__}: {error}"
                ) from error
        return options

    def _cannot_open(self, error: Exception) -> ProcessorStateError:
        text = str(error)
        kind = ProcessorStateError
        if (advice := advice_of(text)) is not None:
            remedy = f"{advice}; the state is not damaged"
        elif "lock hold" in text or "/LOCK" in text:
            remedy = "another owner has it open and has to close it first"
        elif not any(sign in text for sign in _SIGNS_OF_DAMAGE):
            remedy = "nothing in this error says that the state is damaged: mend what it names, and start again"
        else:
            kind = StoreCorrupted
            remedy = "the files are damaged"
        return kind(f"store {self.name}: RocksDB cannot open {self._directory} ({text}); {remedy}")

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> Exception:
        if isinstance(error, StreamsRuntimeError):
            return error
        # PyO3 raises RuntimeError with "borrowed" if an object is used while another thread closes it.
        if isinstance(error, DbClosedError) or (isinstance(error, RuntimeError) and "borrowed" in str(error)):
            return InvalidStateStore(f"store {self.name} is not open")
        if isinstance(error, (KeyError, ValueError, TypeError)):
            return StreamsRuntimeError(f"store {self.name} takes keys and values of bytes only ({error})")
        if "Corruption" in str(error):
            return self._damaged(f"store {self.name}: the files in {self._directory} are damaged ({error})")
        return ProcessorStateError(f"store {self.name}: RocksDB failed in {self._directory}: {with_advice(str(error))}")


def last_values(keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> Changes:
    """Returns the last value of each key. Leaves out the key None."""
    return {key: value for key, value in zip(keys, values, strict=True) if key is not None}


def _close_when_unused(database: Any) -> None:
    while True:
        try:
            database.close()
            return
        except RuntimeError as error:  # another thread has not finished its read; no thread can begin a new read
            if "borrowed" not in str(error):
                raise
            time.sleep(_RETRY_CLOSE_S)
