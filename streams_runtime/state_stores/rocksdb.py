"""Bytes in RocksDB: one database for each store, in `<task directory>/rocksdb/<store name>`.

Keys are ordered as unsigned bytes. RocksDB writes no log here: what was written since the last `flush` is gone after a
crash, and is restored from the changelog. The task's thread writes, flushes and closes; any thread may read. A read
that loses the race with `close` raises InvalidStateStore. Source: `RocksDBStore`.

Differs from Kafka: values of a plain store are not converted when the store becomes a timestamped one; the files of a
store of any other kind are refused (`StoreOfAnotherKind`), and the task restores the store from its changelog.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rocksdict import DbClosedError, Options, Rdict, WriteBatch

from assignor.access.private_files import make_private_directory
from assignor.operating_system import advice_of, with_advice
from streams_runtime.common.errors import (
    InvalidStateStore,
    ProcessorStateError,
    StoreCorrupted,
    StoreOfAnotherKind,
    StreamsRuntimeError,
)
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.base import RocksDBConfigSetter, StoreContext
from streams_runtime.state_stores.rocksdb_cursors import Cursors, Entry
from streams_runtime.state_stores.rocksdb_options import store_options, write_options
from streams_runtime.state_stores.store_format import StoreFormat, StoreKind, read_format, write_format
from streams_runtime.state_stores.value_and_timestamp import TIMESTAMP_BYTES
from streams_runtime.state_stores.window_keys import are_stored_windows

ROCKSDB_DIRECTORY = "rocksdb"
_RETRY_CLOSE_S = 0.001
_SIGNS_OF_DAMAGE = ("Corruption", "No such file", "does not exist")


KEY_VALUE_FORMAT = StoreFormat(StoreKind.KEY_VALUE)


class _NotOpen:
    """Stands in for a database that is not open: every call fails as it does right after a close."""

    def __getattr__(self, name: str) -> Any:
        raise DbClosedError("not open")


_NOT_OPEN: Any = _NotOpen()


class RocksDBStore:
    """What `WriteBehindStore` needs. Errors of RocksDB become ProcessorStateErrors that name the directory."""

    __slots__ = ("_adopt", "_cursors", "_database", "_directory", "_format", "_name", "_write_options")

    persistent = True

    def __init__(
        self,
        name: str,
        kept_as: StoreFormat = KEY_VALUE_FORMAT,
        adopt: Callable[[RocksDBStore, StoreFormat | None], None] | None = None,
    ) -> None:
        """`kept_as`: the format of the files. `adopt`: called by `open` with this store and the format that its files
        have, when that is not `kept_as`; it makes the content fit. That format is None for files that do not say it.
        """
        self._name = name
        self._format = kept_as
        self._adopt = refuse_windows if adopt is None else adopt
        self._directory = Path()
        # Any: rocksdict's stub lacks methods, and a closed store has a stand-in here
        self._database: Any = _NOT_OPEN
        self._cursors = Cursors(self._failure)
        self._cursors.close()
        self._write_options = write_options()

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_open(self) -> bool:
        return self._database is not _NOT_OPEN

    def open(self, context: StoreContext) -> None:
        if self.is_open:
            return
        self._directory = context.directory / ROCKSDB_DIRECTORY / self._name
        try:
            make_private_directory(self._directory.parent)
            there = read_format(self._directory)
            if there is not None and there.kind != self._format.kind:
                raise self.of_another_kind(f"a {there.kind} store")
            options = self._options(context.rocksdb_config_setter)
            database = Rdict(str(self._directory), options)
        except ProcessorStateError:
            raise
        except Exception as error:  # rocksdict raises plain Exception
            raise self._cannot_open(error) from error
        database.set_write_options(self._write_options)
        self._cursors = Cursors(self._failure)
        self._database = database
        if there != self._format:
            self._take_over(there)

    def of_another_kind(self, what: str) -> StoreOfAnotherKind:
        """The error that says what the files of this store are."""
        return StoreOfAnotherKind(
            f"store {self._name}: the directory {self._directory} holds {what}, not a {self._format.kind} store"
        )

    def tell_format(self, kept: StoreFormat) -> None:
        """Write it beside the files, for the process that opens them next. Raises ProcessorStateError."""
        try:
            write_format(self._directory, kept)
        except OSError as error:
            raise self._failure(error) from error

    def rebind(self, context: StoreContext) -> None:
        """Nothing here depends on the context."""

    @property
    def is_timestamped(self) -> bool:
        return StoreKind(self._format.kind).is_timestamped

    def require_open(self) -> None:
        if not self.is_open:
            raise InvalidStateStore(f"store {self._name} is not open")

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._database.get(key)  # type: ignore[no-any-return]
        except Exception as error:
            raise self._failure(error) from error

    def restore(self, batch: RecordBatch) -> None:
        """Records without a key are skipped, as in Kafka."""
        self.write(batch.keys, batch.values)

    def write(self, keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> None:
        """Write columns of the same length at once. Later entries win, value None deletes, key None is skipped.

        RocksDB takes entries in the order of their keys in half the time, which is more than sorting them takes.
        """
        batch: Any = WriteBatch(raw_mode=True)
        try:
            entries = dict(zip(keys, values, strict=False))
            entries.pop(None, None)
            ordered: list[Any] = sorted(entries)  # the key None is gone
            try:
                # the deque keeps nothing: no Python code runs for each record
                deque(map(batch.put, ordered, map(entries.__getitem__, ordered)), maxlen=0)
            except (KeyError, ValueError):  # rocksdict's answer to a None, which most batches do not have
                batch = _batch_with_deletions(ordered, entries)
            self._database.write(batch, self._write_options)
        except Exception as error:
            raise self._failure(error) from error

    def delete_range(self, start: bytes, before: bytes) -> None:
        """Delete keys from `start` up to, and without, `before`, at the cost of a single write."""
        try:
            self._database.delete_range(start, before, self._write_options)
        except Exception as error:
            raise self._failure(error) from error

    def scan(self, start: bytes | None, before: bytes | None, *, reverse: bool = False) -> Iterator[Entry]:
        """A snapshot of the keys from `start` up to, and without, `before`; down to `start` if `reverse`. None is an
        open end.
        """
        database, entries_of = self._database, _backwards if reverse else _forwards
        return self._cursors.read(lambda: entries_of(database, start, before))

    def approximate_num_entries(self) -> int:
        """RocksDB's estimate, which may count overwritten and deleted keys until compaction removes them."""
        try:
            return max(0, self._database.property_int_value("rocksdb.estimate-num-keys") or 0)
        except Exception as error:
            raise self._failure(error) from error

    def flush(self) -> None:
        try:
            self._database.flush()
        except Exception as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Also ends every iterator. Raises ProcessorStateError when the flush fails; the store is closed even so."""
        database = self._database
        if database is _NOT_OPEN:
            return
        self._database = _NOT_OPEN  # from here on other threads are refused
        self._cursors.close()
        try:
            database.flush()
        except Exception as error:
            raise self._failure(error) from error
        finally:
            _close_when_unused(database)

    def _take_over(self, there: StoreFormat | None) -> None:
        """Make files of another format, or of none that is known, those of this store."""
        try:
            self._adopt(self, there)
            self.flush()  # the content comes before the file that tells its format
            self.tell_format(self._format)
        except BaseException:
            self.close()
            raise

    def _options(self, change: RocksDBConfigSetter | None) -> Options:
        options = store_options()
        if change is not None:
            try:
                change(self._name, options)
            except Exception as error:
                raise ProcessorStateError(
                    f"store {self._name}: rocksdb.config.setter failed: {type(error).__name__}: {error}"
                ) from error
        return options

    def _cannot_open(self, error: Exception) -> ProcessorStateError:
        said = str(error)
        kind = ProcessorStateError
        if (advice := advice_of(said)) is not None:
            what_to_do = f"{advice}; the state is not damaged"
        elif "lock hold" in said or "/LOCK" in said:
            what_to_do = "another owner has it open and has to close it first"
        elif not any(sign in said for sign in _SIGNS_OF_DAMAGE):
            what_to_do = "nothing in this error says that the state is damaged: mend what it names, and start again"
        else:
            kind = StoreCorrupted
            what_to_do = (
                "delete this directory while the application is stopped, with the task's checkpoint file, "
                "and the task restores it from its changelog"
            )
        return kind(f"store {self._name}: RocksDB cannot open {self._directory} ({said}); {what_to_do}")

    def _failure(self, error: Exception) -> Exception:
        if isinstance(error, StreamsRuntimeError):
            return error
        # PyO3 says "borrowed" when an object is used that another thread is closing
        if isinstance(error, DbClosedError) or (isinstance(error, RuntimeError) and "borrowed" in str(error)):
            return InvalidStateStore(f"store {self._name} is not open")
        if isinstance(error, (KeyError, ValueError, TypeError)):
            return StreamsRuntimeError(f"store {self._name} takes keys and values of bytes only ({error})")
        return ProcessorStateError(
            f"store {self._name}: RocksDB failed in {self._directory}: {with_advice(str(error))}"
        )


def refuse_windows(database: RocksDBStore, _there: StoreFormat | None) -> None:
    """For a key-value store whose files do not tell their format. Raises StoreOfAnotherKind for what shows another."""
    first, last = next(database.scan(None, None), None), next(database.scan(None, None, reverse=True), None)
    if first is None or last is None:
        return
    if are_stored_windows(first[0], last[0]):
        raise database.of_another_kind("windows")
    if database.is_timestamped and min(len(first[1]), len(last[1])) < TIMESTAMP_BYTES:
        raise database.of_another_kind("values without timestamps")


# These do not use rocksdict's `items` with bounds in `ReadOptions`: as of 0.3.29 the bounds may be freed while they are
# in use, the lower one is set as the upper one, and an iterator that meets a broken block ends as if it was at the end.


def _forwards(database: Any, start: bytes | None, before: bytes | None) -> Iterator[Entry]:
    entries = database.iter()
    valid, key_of, value_of, step = entries.valid, entries.key, entries.value, entries.next
    if start is None:
        entries.seek_to_first()
    else:
        entries.seek(start)
    while valid():
        key = key_of()
        if before is not None and key >= before:
            return
        yield key, value_of()
        step()
    entries.status()  # raises when this is not the end


def _backwards(database: Any, start: bytes | None, before: bytes | None) -> Iterator[Entry]:
    entries = database.iter()
    valid, key_of, value_of, step = entries.valid, entries.key, entries.value, entries.prev
    if before is None:
        entries.seek_to_last()
    else:
        entries.seek_for_prev(before)
        if valid() and key_of() == before:
            step()
    while valid():
        key = key_of()
        if start is not None and key < start:
            return
        yield key, value_of()
        step()
    entries.status()


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
        except RuntimeError as error:  # a reader is inside right now; it finishes, and no other one can enter
            if "borrowed" not in str(error):
                raise
            time.sleep(_RETRY_CLOSE_S)
