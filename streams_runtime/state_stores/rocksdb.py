"""Stores of bytes in RocksDB. Each store has its own database in `<task directory>/rocksdb/<store name>`.

Keys are ordered as unsigned bytes. The stores use RocksDB without its own write-ahead log. A crash loses the changes
after the last `flush`. The next task restores these changes from the changelog. Only the task's thread may write, flush
and close a store. Any thread may read. After `close` has begun, every new read raises InvalidStateStore. Source:
`RocksDBStore`.

Differs from Kafka: if a new version of an application replaces a plain store by a timestamped store, the old files are
not converted. Instead, the store raises StoreOfAnotherKind, and the task restores the store from the changelog.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakSet

from rocksdict import DbClosedError, Options, Rdict, WriteBatch

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
from streams_runtime.state_stores.rocksdb_options import store_options, write_options
from streams_runtime.state_stores.state_store import RocksDBConfigSetter, StoreContext
from streams_runtime.state_stores.store_format import StoreFormat, StoreKind, read_format, write_format
from streams_runtime.state_stores.value_and_timestamp import TIMESTAMP_BYTES
from streams_runtime.state_stores.window_keys import are_segmented_window_keys

ROCKSDB_DIRECTORY = "rocksdb"
_RETRY_CLOSE_S = 0.001
CHUNK = 32
"""Iterators read this number of entries at a time. The number is small because RocksDB's iterator holds the GIL while
it reads.
"""
_SIGNS_OF_DAMAGE = ("Corruption", "No such file", "does not exist")
Entry = tuple[bytes, bytes]

KEY_VALUE_FORMAT = StoreFormat(StoreKind.KEY_VALUE)


class _NotOpen:
    """Takes the place of the database while a store is not open. Every method raises the error of a closed database."""

    def __getattr__(self, name: str) -> Any:
        raise DbClosedError("not open")


_NOT_OPEN: Any = _NotOpen()


class _Cursor:
    __slots__ = ("__weakref__", "items")

    def __init__(self, items: Iterator[Entry]) -> None:
        self.items: Iterator[Entry] | None = items


class Cursors:
    """The open iterators of a store. Each `open` of the store makes a new `Cursors`. Thread-safe.

    Each iterator reads a snapshot of the store, a few entries at a time. Iterators end when the store closes.

    RocksDB keeps its files locked while an iterator exists. When the task closes the store, a query of another thread
    may have an open iterator. So `close` ends all iterators. Source: `RocksDBStore.openIterators`.
    """

    def __init__(self, failure: Callable[[Exception], Exception]) -> None:
        """`failure`: a function that converts an error of the database to the error that is raised."""
        self._failure = failure
        self._lock = Lock()
        self._open: WeakSet[_Cursor] = WeakSet()
        self._closed = False

    def read(self, open_iterator: Callable[[], Iterator[Entry]]) -> Iterator[Entry]:
        """Opens an iterator of RocksDB, and returns an iterator of its entries.

        After `close`, this method and the returned iterators raise InvalidStateStore.
        """
        with self._lock:
            if self._closed:
                raise self._failure(DbClosedError())
            cursor = _Cursor(open_iterator())
            chunk = self._chunk(cursor)
            if cursor.items is not None:
                self._open.add(cursor)
        return self._entries(chunk, cursor)

    def close(self) -> None:
        """Closes all iterators, so that RocksDB unlocks its files. If another thread is reading, `close` waits until
        that thread has read its present chunk.
        """
        with self._lock:
            self._closed = True
            for cursor in self._open:
                cursor.items = None
            self._open.clear()

    def _entries(self, chunk: list[Entry], cursor: _Cursor) -> Iterator[Entry]:
        while chunk:
            for entry in chunk:
                if self._closed:
                    raise self._failure(DbClosedError())
                yield entry
            with self._lock:
                if self._closed:
                    raise self._failure(DbClosedError())
                chunk = self._chunk(cursor)

    def _chunk(self, cursor: _Cursor) -> list[Entry]:
        if cursor.items is None:
            return []
        try:
            chunk = list(islice(cursor.items, CHUNK))
        except Exception as error:
            cursor.items = None
            self._open.discard(cursor)
            # The traceback refers to RocksDB's iterator, and an iterator keeps the database open. So the error is
            # raised without the traceback.
            raise self._failure(error) from error.with_traceback(None)
        if len(chunk) < CHUNK:
            cursor.items = None
            self._open.discard(cursor)
        return chunk


@dataclass(eq=False, repr=False)
class RocksDBStore:
    """The store in RocksDB to which `WriteBehindStore` writes its changes. Errors of RocksDB become
    ProcessorStateErrors that name the directory.

    `_format`: the format of the store's files. `_convert`: a function that `open` calls if the format of the files is
    not `_format`. The arguments of `_convert` are this store and the format of the files (None if the format is not
    recorded). `_convert` converts the content, or raises StoreOfAnotherKind. Without `_convert`, `open` only checks the
    content.
    """

    persistent = True

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
        self._write_options = write_options()

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
            options = self._options(context.rocksdb_config_setter)
            database = Rdict(str(self._directory), options)
        except ProcessorStateError:
            raise
        except Exception as error:  # rocksdict raises errors of the plain class Exception
            raise self._cannot_open(error) from error
        database.set_write_options(self._write_options)
        self._cursors = Cursors(self._failure)
        self._database = database
        if found != self._format:
            self._convert_files(found)

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
        self.write(batch.keys, batch.values)

    def write(self, keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> None:
        """Writes keys and their values in one batch. The two iterables must have the same length.

        If a key occurs several times, its last value is written. The value None deletes the key. The key None is
        skipped. The batch is sorted, because RocksDB writes sorted keys in half the time. The faster write saves more
        time than the sorting takes.
        """
        batch: Any = WriteBatch(raw_mode=True)
        with self._failures():
            entries = dict(zip(keys, values, strict=False))
            entries.pop(None, None)
            # the type is Any, because mypy cannot know that the key None was removed
            ordered: list[Any] = sorted(entries)
            try:
                # a deque with maxlen 0 runs the map in C, and runs no Python code for each entry
                deque(map(batch.put, ordered, map(entries.__getitem__, ordered)), maxlen=0)
            except (KeyError, ValueError):  # rocksdict refuses the value None; only few batches have deletions
                batch = _batch_with_deletions(ordered, entries)
            self._database.write(batch, self._write_options)

    def delete_range(self, start: bytes, exclusive_end: bytes) -> None:
        """Delete the keys from `start` inclusive to `exclusive_end` exclusive, at the cost of a single write."""
        with self._failures():
            self._database.delete_range(start, exclusive_end, self._write_options)

    def scan(self, start: bytes | None, exclusive_end: bytes | None, *, reverse: bool = False) -> Iterator[Entry]:
        """Returns a snapshot of the entries from `start` up to, but not including, `exclusive_end`. If a bound is None,
        the range is open at this end.

        The entries are in ascending order, or in descending order if `reverse` is True.
        """
        database = self._database
        return self._cursors.read(lambda: _entries(database, start, exclusive_end, reverse))

    def approximate_num_entries(self) -> int:
        """Returns RocksDB's estimate, which may count overwritten and deleted keys until compaction removes them."""
        with self._failures():
            return max(0, self._database.property_int_value("rocksdb.estimate-num-keys") or 0)

    def flush(self) -> None:
        with self._failures():
            self._database.flush()

    def close(self) -> None:
        """Flushes and closes the store, and ends all iterators. Closes the store even if the flush fails, and then
        raises ProcessorStateError.
        """
        database = self._database
        if database is _NOT_OPEN:
            return
        self._database = _NOT_OPEN  # after this line, reads of other threads raise InvalidStateStore
        self._cursors.close()
        try:
            with self._failures():
                database.flush()
        finally:
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
        try:
            (self._convert or RocksDBStore._refuse_other_kinds)(self, found)
            self.flush()  # flush first, so that the converted content is durable before its format is recorded
            self.record_format(self._format)
        except BaseException:
            self.close()
            raise

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
            remedy = (
                "delete this directory while the application is stopped, with the task's checkpoint file, "
                "and the task restores it from its changelog"
            )
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
        return ProcessorStateError(f"store {self.name}: RocksDB failed in {self._directory}: {with_advice(str(error))}")


# The iterator below does not use rocksdict's `items` with bounds in `ReadOptions`. In rocksdict 0.3.29 the bounds
# may be freed while they are in use, and the lower bound is set as the upper bound. In rocksdict 0.3.29, an iterator
# that reaches a broken block also ends without an error.


def _entries(database: Any, start: bytes | None, exclusive_end: bytes | None, reverse: bool) -> Iterator[Entry]:
    entries = database.iter()
    valid, key_of, value_of = entries.valid, entries.key, entries.value
    step = entries.prev if reverse else entries.next
    lower, upper = (start, None) if reverse else (None, exclusive_end)  # the bound at which the loop ends
    if reverse and exclusive_end is not None:
        entries.seek_for_prev(exclusive_end)
        if valid() and key_of() == exclusive_end:
            step()
    elif reverse:
        entries.seek_to_last()
    elif start is not None:
        entries.seek(start)
    else:
        entries.seek_to_first()
    while valid():
        key = key_of()
        if (upper is not None and key >= upper) or (lower is not None and key < lower):
            return
        yield key, value_of()
        step()
    entries.status()  # raises the error if the loop ended because of an error


def _batch_with_deletions(ordered: list[Any], entries: dict[Any, bytes | None]) -> Any:
    batch: Any = WriteBatch(raw_mode=True)
    put, delete = batch.put, batch.delete
    for key in ordered:
        value = entries[key]
        if value is None:
            delete(key)
        else:
            put(key, value)
    return batch


def _close_when_unused(database: Any) -> None:
    while True:
        try:
            database.close()
            return
        except RuntimeError as error:  # another thread has not finished its read; no thread can begin a new read
            if "borrowed" not in str(error):
                raise
            time.sleep(_RETRY_CLOSE_S)
