"""Provides connections to the SQLite file, and the lock that admits one writer at a time.

Rules of connections: a connection is opened at first use. After a fork, the child does not use the parent's connection.
SQLite's errors are converted to the errors of `log_errors`. The file is in WAL mode, with `synchronous=NORMAL` unless
the address of the log has `synchronous=FULL`. When a commit returns, the operating system has the committed data, so
the commit survives the SIGKILL of any process. A checkpoint copies the write-ahead log into the file. With NORMAL, a
power loss may lose commits that were made after the last checkpoint. A power loss can lose only whole commits, and only
the newest commits. With FULL, the data of a commit are on the disk when the commit returns.

Rules of the lock: only one writer on the machine holds the lock at a time. The kernel wakes a waiting writer when the
lock is released. SQLite's own busy handler is not used. With the busy handler, a waiting writer would sleep for longer
and longer times. A later writer could then get the lock first. No writer waits longer than the time-out. The lock of a
process that dies, even by SIGKILL, is released at once. `flock` has no time-out. So a separate thread calls `flock`,
and the writer waits for this thread until the time-out.
"""

import ctypes
import errno
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path

from operating_system.private_files import FILE_MODE
from operating_system.processes import advice_of, reset_in_children, with_advice
from streams_runtime.logs.log_errors import LogError, LogTimeout


class Synchronous(StrEnum):
    """SQLite's setting `synchronous`. With NORMAL, a commit survives the end of any process. With FULL, a commit also
    survives a power loss.
    """

    NORMAL = "NORMAL"
    FULL = "FULL"


_BUSY_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_CACHE_KIB = 4_096
_CHECKPOINT_PAGES = 1_000
_FILES = 4
"""The files that a connection opens: the database, the write-ahead log, the write-ahead log's index, and the
directory.
"""


@contextmanager
def as_log_errors(file: Path) -> Iterator[None]:
    """Converts SQLite's errors in the `with` block: to LogTimeout if SQLite gave up waiting, otherwise to LogError."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) or 0
        if code & 0xFF in _BUSY_CODES:
            raise LogTimeout(f"log {file} is busy: {error}") from error
        raise LogError(f"log {file} cannot be used: {_text(error, code & 0xFF)}") from error


def _text(error: sqlite3.Error, code: int) -> str:
    """Returns SQLite's message with advice about the file. The advice is needed because SQLite does not pass on the
    operating system's error.
    """
    if code == sqlite3.SQLITE_FULL:
        return f"{error}; {advice_of(OSError(errno.ENOSPC, ''))}"
    if code == sqlite3.SQLITE_CANTOPEN:
        # Opening /dev/null raises the operating system's error, for example too many open files. The files of the log
        # are not opened here, because closing such a file would release SQLite's locks on the file.
        try:
            with ExitStack() as opened:
                for _ in range(_FILES):
                    opened.enter_context(open(os.devnull, "rb"))
        except OSError as found:
            return f"{error}; {found.strerror}; {advice_of(found)}"
    return str(error)


def connect(file: Path, timeout_ms: int, synchronous: Synchronous) -> sqlite3.Connection:
    """Open an existing file in autocommit mode. `timeout_ms`: the longest wait for SQLite's own short locks."""
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=timeout_ms / 1_000,
        isolation_level=None,
        # several threads may use the connection one after the other, and any thread may close the connection
        check_same_thread=False,
    )
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
    return connection


class LazyConnection:
    """A connection that is opened at first use. The connection is not thread-safe, but any thread may `close` it while
    no call runs.
    """

    def __init__(self, file: Path, timeout_ms: int, synchronous: Synchronous) -> None:
        self.file = file
        self._timeout_ms = timeout_ms
        self._synchronous = synchronous
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        reset_in_children(self)

    def get(self) -> sqlite3.Connection:
        """Raises LogError after `close`, and sqlite3.Error if the file cannot be opened."""
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
            # Closing the connection in the child would change the parent's locks and files. So the child must never
            # garbage-collect the connection.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
            self._connection = None


class SharedConnection:
    """A connection for short reads. Any thread may use the connection. A lock admits one thread at a time."""

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


class WriteLock:
    """The lock that all writers on the machine share. A thread that has the lock cannot take it a second time."""

    def __init__(self, file: Path, timeout_ms: int) -> None:
        self._file = file
        self._timeout_ms = timeout_ms
        # this lock is taken before `flock`, so that only one thread of the process at a time calls `flock`
        self._threads = threading.Lock()
        self._open_files: set[int] = set()
        reset_in_children(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Raises LogTimeout."""
        deadline = time.monotonic() + self._timeout_ms / 1_000
        if not self._threads.acquire(timeout=self._timeout_ms / 1_000):
            raise self._timed_out()
        try:
            file = self._locked_file(deadline)
            try:
                yield
            finally:
                self._give_back(file)
        finally:
            self._threads.release()

    def reset_after_fork(self) -> None:
        self._threads = threading.Lock()
        # without this close, the child would keep the parent's lock after the parent has died
        for file in self._open_files:
            os.close(file)
        self._open_files = set()

    def _locked_file(self, deadline: float) -> int:
        try:
            file = os.open(self._file, os.O_RDWR | os.O_CREAT, FILE_MODE)
        except OSError as error:
            raise LogError(f"log {self._file.parent} cannot be used: {with_advice(error)}") from error
        self._open_files.add(file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _KernelWait(file, self._give_back).is_locked_before(deadline):
                raise self._timed_out() from None
        return file

    def _give_back(self, file: int) -> None:
        self._open_files.discard(file)
        # closing the file is not enough, because a child that was forked meanwhile may have the file open
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)

    def _timed_out(self) -> LogTimeout:
        return LogTimeout(f"log {self._file.parent} was busy with other writers for {self._timeout_ms} ms")


class _KernelWait:
    """Waits for `flock` in a separate thread. After a time-out, the separate thread owns the file, and closes the file
    later.
    """

    def __init__(self, file: int, give_back: Callable[[int], None]) -> None:
        self._file = file
        self._give_back = give_back
        self._lock = threading.Lock()
        self._locked = threading.Event()
        self._given_up = False

    def is_locked_before(self, deadline: float) -> bool:
        threading.Thread(target=self._wait, name="log-write-lock", daemon=True).start()
        try:
            self._locked.wait(max(0.0, deadline - time.monotonic()))
        except BaseException:
            self._give_up()
            raise
        return not self._give_up()

    def _give_up(self) -> bool:
        """Stop waiting for the lock. Returns False if the separate thread has acquired the lock already."""
        with self._lock:
            self._given_up = not self._locked.is_set()
            return self._given_up

    def _wait(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        with self._lock:
            if not self._given_up:
                self._locked.set()
                return
        self._give_back(self._file)
