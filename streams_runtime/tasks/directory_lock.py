"""A lock on a directory that excludes other processes, and is released when the process that holds it ends.

Rule: the lock is a `flock` on `<directory>/.lock`, a file with the holder's process id. The operating system releases
the lock however the holder ends. Source: `FileChannel.tryLock` in `StateDirectory`.

A forked child inherits its parent's open files. The lock lasts until all processes have closed the lock file, so an
inherited lock would outlive the parent. Therefore a child closes inherited lock files at once. `_guard` is held while a
lock file is opened and added to `_held`, so that no fork happens between the two and each child knows all lock files.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
import weakref
from pathlib import Path

from operating_system.processes import with_advice
from streams_runtime.common.errors import LockError, ProcessorStateError

LOCK_FILE_NAME = ".lock"

_RETRY_MS = 20
_guard = threading.RLock()
_held: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


class DirectoryLock:
    """A lock that is held from `acquire` to `release`. It also excludes other holders in the same process."""

    __slots__ = ("__weakref__", "_descriptor", "path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, directory: Path, name: str, *, wait_ms: int = 0) -> DirectoryLock:
        """Lock an existing directory. `name`: the directory's name in messages.

        Raises LockError when another holder still has the lock after `wait_ms`, ProcessorStateError when the directory
        cannot be locked.
        """
        path = directory / LOCK_FILE_NAME
        for waited_ms in range(0, wait_ms + _RETRY_MS, _RETRY_MS):
            if waited_ms:
                time.sleep(_RETRY_MS / 1000)
            with _guard:
                try:
                    descriptor = _lock_file(path)
                except OSError as error:
                    raise ProcessorStateError(f"{name} ({directory}) cannot be locked: {with_advice(error)}") from error
                if descriptor is not None:
                    lock = cls(path, descriptor)
                    _held.add(lock)
                    return lock
        raise LockError(_in_use_message(name, directory, wait_ms))

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        with _guard:
            descriptor, self._descriptor = self._descriptor, None
            _held.discard(self)
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked child may still have the file open
            os.close(descriptor)

    def forget(self) -> None:
        """Close the lock file without releasing the lock, in a forked child: the parent keeps the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _lock_file(path: Path) -> int | None:
    """The descriptor of the locked file, or None if another holder has the lock. Raises OSError."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_file_at(path, descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous holder has deleted the file, and perhaps another holder has made a new one


def _is_file_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _in_use_message(name: str, directory: Path, wait_ms: int) -> str:
    try:
        holder = int((directory / LOCK_FILE_NAME).read_text())
    except (OSError, ValueError):
        owner = "another process"
    else:
        owner = f"process {holder}"
        if holder == os.getpid():
            owner += " (this one, by another instance in it)"
    waited = f" (waited {wait_ms} ms)" if wait_ms else ""
    return (
        f"{name} ({directory}) is in use by {owner}{waited}: two owners would write the same state stores. "
        "Give every instance a state.dir of its own, or end the other one first"
    )


def _forget_inherited() -> None:
    for lock in list(_held):
        lock.forget()
    _held.clear()
    _guard.release()


os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_forget_inherited)
