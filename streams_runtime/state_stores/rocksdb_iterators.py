"""Iterators of the entries of a RocksDB, which end when the store closes."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from threading import Lock
from typing import Any
from weakref import WeakSet

from rocksdict import DbClosedError, ReadOptions

Entry = tuple[bytes, bytes]

CHUNK = 32
"""Iterators read this number of entries at a time. The number is small because RocksDB's iterator holds the GIL while
it reads.
"""


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
            # The traceback refers to RocksDB's iterator, and an iterator keeps the database open. So the error is
            # raised without the traceback.
            raise self._failure(error) from error.with_traceback(None)
        if len(chunk) < CHUNK:
            cursor.items = None
        return chunk


# The iterator below does not use rocksdict's `items` with bounds in `ReadOptions`. In rocksdict 0.3.29 the bounds
# may be freed while they are in use, and the lower bound is set as the upper bound. In rocksdict 0.3.29, an iterator
# that reaches a broken block also ends without an error.


def entries_between(
    database: Any, ranges: Iterable[tuple[bytes | None, bytes | None]], *, reverse: bool = False
) -> Iterator[Entry]:
    """Returns the entries of several ranges from one snapshot. See `RocksDBStore.scan` and `scan_ranges`."""
    entries = database.iter()
    for start, exclusive_end in ranges:
        yield from _entries_of_range(entries, start, exclusive_end, reverse)


def _entries_of_range(entries: Any, start: bytes | None, exclusive_end: bytes | None, reverse: bool) -> Iterator[Entry]:
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


def damage_of(database: Any) -> Exception | None:
    """Reads all blocks, so that RocksDB checks their checksums. Returns the error of a damaged block, or None. The
    error has no traceback, because a traceback would refer to the iterator, and an iterator keeps the database open.
    """
    reading: Any = ReadOptions()  # the type is Any, because rocksdict's stub declares `fill_cache` as an attribute
    reading.fill_cache(False)
    entries = database.iter(reading)
    valid, step = entries.valid, entries.next
    entries.seek_to_first()
    while valid():
        step()
    try:
        entries.status()
    except Exception as error:  # rocksdict raises errors of the plain class Exception
        return error.with_traceback(None)
    return None
