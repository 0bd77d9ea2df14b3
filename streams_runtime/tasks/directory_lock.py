"""A lock on a directory that holds between processes and ends with the process that holds it.

Rule: it is a `flock` on `<directory>/.lock`, which contains the holder's process id. The system releases it however the
holder ends. Source: `FileChannel.tryLock` in `StateDirectory`.

A forked child shares its parent's open files, and with them the lock, which would then outlive the parent. So the child
closes inherited lock files at once (the parent's lock stays until the last of them is closed), and no fork can happen
between opening such a file and adding it to `_held`.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
import weakref
from pathlib import Path

from assignor.operating_system import with_advice
from streams_runtime.common.errors import LockError, ProcessorStateError

LOCK_FILE_NAME = ".lock"

_RETRY_MS = 20
_guard = threading.RLock()
_held: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


class DirectoryLock:
    """Held from `acquire` to `release`. Two of them on one directory exclude each other inside a process as well."""

    __slots__ = ("__weakref__", "_descriptor", "path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, directory: Path, what: str, *, wait_ms: int = 0) -> DirectoryLock:
        """Lock an existing directory; `what` names it in messages.

        Raises LockError when another holder still has it after `wait_ms`, ProcessorStateError when it cannot be locked.
        """
        path = directory / LOCK_FILE_NAME
        for attempt in range(1 + -(-wait_ms // _RETRY_MS)):
            if attempt:
                time.sleep(_RETRY_MS / 1000)
            with _guard:
                try:
                    descriptor = _lock_file(path)
                except OSError as error:
                    raise ProcessorStateError(f"{what} ({directory}) cannot be locked: {with_advice(error)}") from error
                if descriptor is not None:
                    lock = cls(path, descriptor)
                    _held.add(lock)
                    return lock
        raise LockError(_in_use(what, directory, wait_ms))

    def release(self) -> None:
        """Releasing twice is fine."""
        with _guard:
            descriptor, self._descriptor = self._descriptor, None
            _held.discard(self)
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked child may still have the file open
            os.close(descriptor)

    def forget(self) -> None:
        """In a forked child: close the file, and leave the lock to the parent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _lock_file(path: Path) -> int | None:
    """The locked file's descriptor; None when another holder has it. Raises OSError."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous holder deleted the directory, and this file with it


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _in_use(what: str, directory: Path, wait_ms: int) -> str:
    try:
        holder = int((directory / LOCK_FILE_NAME).read_text())
    except (OSError, ValueError):
        who = "another process"
    else:
        who = f"process {holder}"
        if holder == os.getpid():
            who += " (this one, by another instance in it)"
    waited = f" (waited {wait_ms} ms)" if wait_ms else ""
    return (
        f"{what} ({directory}) is in use by {who}{waited}: two owners would write the same state stores. "
        "Give every instance a state.dir of its own, or end the other one first"
    )


def _forget_inherited() -> None:
    for lock in list(_held):
        lock.forget()
    _held.clear()
    _guard.release()


os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_forget_inherited)
