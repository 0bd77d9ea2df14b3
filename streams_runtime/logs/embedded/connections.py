"""Connections to the file: opened at first use, never used across a fork, with their errors turned into a log's.

Rule: WAL mode, and `synchronous=NORMAL` unless the address says FULL. When a commit returns, the operating system has
it, so it survives the SIGKILL of any process. With NORMAL, a power loss may take the last commits, those since SQLite
last moved its write-ahead log into the file, but never a part of one, and none from between others. With FULL, the disk
has each commit when it returns.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path

from assignor.operating_system import advice_of, reset_in_children
from streams_runtime.logs.errors import LogError, LogTimeout


class Synchronous(StrEnum):
    """What a commit that has returned survives: the end of any process, or a power loss, too."""

    NORMAL = "NORMAL"
    FULL = "FULL"


_BUSY_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_CACHE_KIB = 4_096
_CHECKPOINT_PAGES = 1_000
_FILES = 4
"""As many files does a connection open: the log, its write-ahead log, the index of that, and the directory."""


@contextmanager
def as_log_errors(file: Path) -> Iterator[None]:
    """Raises LogTimeout when SQLite gave up waiting, LogError for its other errors."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) or 0
        if code & 0xFF in _BUSY_CODES:
            raise LogTimeout(f"log {file} is busy: {error}") from error
        raise LogError(f"log {file} cannot be used: {_text(error, code & 0xFF)}") from error


def _text(error: sqlite3.Error, code: int) -> str:
    """SQLite's words, and what to do: SQLite does not tell the operating system's own error."""
    if code == sqlite3.SQLITE_FULL:
        return f"{error}; {advice_of(OSError(errno.ENOSPC, ''))}"
    if code == sqlite3.SQLITE_CANTOPEN:
        # not the log's own files: closing one would end the locks that SQLite has on it
        try:
            with ExitStack() as opened:
                for _ in range(_FILES):
                    opened.enter_context(open(os.devnull, "rb"))
        except OSError as found:
            return f"{error}; {found.strerror}; {advice_of(found)}"
    return str(error)


def connect(file: Path, timeout_ms: int, synchronous: Synchronous) -> sqlite3.Connection:
    """Open an existing file in autocommit mode. `timeout_ms`: how long to wait for SQLite's own short locks."""
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=timeout_ms / 1_000,
        isolation_level=None,
        check_same_thread=False,  # one thread at a time uses it, but another one may close it
    )
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
    return connection


class LazyConnection:
    """The connection of one user. Not thread-safe, but another thread may `close` it when no call runs."""

    def __init__(self, file: Path, timeout_ms: int, synchronous: Synchronous) -> None:
        self.file = file
        self._timeout_ms = timeout_ms
        self._synchronous = synchronous
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        reset_in_children(self)

    def get(self) -> sqlite3.Connection:
        """Raises LogError after `close`, sqlite3.Error when the file cannot be opened."""
        if self._connection is None:
            if self._closed:
                raise LogError(f"log {self.file} is closed")
            self._connection = connect(self.file, self._timeout_ms, self._synchronous)
        return self._connection

    def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def reset_after_fork(self) -> None:
        if self._connection is not None:
            # closing it here would change the parent's locks and files, so it must never be collected
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
            self._connection = None


class SharedConnection:
    """A connection for short reads. Any thread may use it; they take turns."""

    def __init__(self, file: Path, timeout_ms: int, synchronous: Synchronous) -> None:
        self._connection = LazyConnection(file, timeout_ms, synchronous)
        self._lock = threading.Lock()
        reset_in_children(self)

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """Raises LogError, LogTimeout."""
        with self._lock, as_log_errors(self._connection.file):
            yield self._connection.get()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()
