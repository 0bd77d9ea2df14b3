"""One writer at a time, over all threads and processes of the machine.

Rules: the kernel wakes a waiting writer when the lock is released. (SQLite's own busy handler sleeps for longer and
longer times, and then loses against a writer that comes at the right moment.) Nobody waits longer than the time-out.
The lock of a process that dies, even by SIGKILL, is free at once. `flock` has no time-out, so a thread waits for it in
place of the writer.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from assignor.access.private_files import FILE_MODE
from assignor.operating_system import reset_in_children, with_advice
from streams_runtime.logs.errors import LogError, LogTimeout


class WriteLock:
    """Not reentrant."""

    def __init__(self, file: Path, timeout_ms: int) -> None:
        self._file = file
        self._timeout_ms = timeout_ms
        self._threads = threading.Lock()  # taken first, so that at most one thread of the process asks the kernel
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
        for file in self._open_files:  # an open copy would keep the lock when the parent dies
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
        fcntl.flock(file, fcntl.LOCK_UN)  # closing is not enough: a child forked meanwhile may have a copy
        os.close(file)

    def _timed_out(self) -> LogTimeout:
        return LogTimeout(f"log {self._file.parent} was busy with other writers for {self._timeout_ms} ms")


class _KernelWait:
    """A thread that waits for the kernel. After a time-out the file is left to the thread."""

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
        """False when the thread has got the lock meanwhile."""
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
