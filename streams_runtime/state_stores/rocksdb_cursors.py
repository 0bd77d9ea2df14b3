"""Open iterators of one RocksDB. Each is a snapshot, reads a few entries at a time, and ends when the store closes.

RocksDB keeps its files locked as long as an iterator lives. A query may have one open in another thread while the task
closes the store, so a store knows its cursors and ends them. Source: `RocksDBStore.openIterators`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from threading import Lock
from weakref import WeakSet

from rocksdict import DbClosedError

Entry = tuple[bytes, bytes]

CHUNK = 32
"""The number of entries that are read at a time: RocksDB's iterator holds the GIL while it reads."""


class _Cursor:
    __slots__ = ("__weakref__", "items")

    def __init__(self, items: Iterator[Entry]) -> None:
        self.items: Iterator[Entry] | None = items


class Cursors:
    """The cursors of a store from one `open` to its `close`. Safe from any thread."""

    __slots__ = ("_closed", "_failure", "_lock", "_open")

    def __init__(self, failure: Callable[[Exception], Exception]) -> None:
        """`failure`: turns an error of the database into the error to raise."""
        self._failure = failure
        self._lock = Lock()
        self._open: WeakSet[_Cursor] = WeakSet()
        self._closed = False

    def read(self, open_iterator: Callable[[], Iterator[Entry]]) -> Iterator[Entry]:
        """Open an iterator of RocksDB at once, and return its entries.

        After a close, this call raises InvalidStateStore, and so does the next entry of an iterator that is open.
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
        """Close all iterators, which frees RocksDB's files. Waits for a thread that is reading a chunk."""
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
            # the error's frames hold RocksDB's iterator, which would keep the database open as long as the error lives
            raise self._failure(error) from error.with_traceback(None)
        if len(chunk) < CHUNK:
            cursor.items = None
            self._open.discard(cursor)
        return chunk
