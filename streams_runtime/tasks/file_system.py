"""Provides the operations on files and directories that a task's state needs. `state_directory` has the rules for the
directories, and uses only `FileSystem` to access the disk.

Rules:
- A file is first written under a temporary name in the same directory, then renamed. So a reader finds either the whole
  old content or the whole new content. A synced write survives a failure of the machine. After an unsynced write and a
  failure of the machine, the file may have the old content, the new content or a mixture of both.
- A rename or a deletion is durable after its directory was synced. A failure of the machine may undo renames and
  deletions that were not synced.
- A lock is a `flock` on the file `<directory>/.lock`, which contains the id of the locking process. The lock is
  released when the locking process ends for any reason. The kernel releases a lock only after all processes have closed
  the lock file. A forked child inherits the open files of its parent, so it could keep the lock after the parent's end.
  To prevent this, a child closes inherited lock files at once. A thread holds `_guard` while it opens a lock file and
  adds the lock to `_held`. A fork waits for `_guard`. So a child finds each inherited lock file in `_held`.

Stores write their own files without this class. Source: `java.nio.file.Files`, `Utils.atomicMoveWithFallback`,
`FileChannel.tryLock`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from operating_system.private_files import make_private_directory, private_opener, warn_if_readable_by_others
from operating_system.processes import with_advice
from streams_runtime.common.errors import LockError, ProcessorStateError

_NO_DIRECTORY_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF})


@contextmanager
def as_state_errors(what: str) -> Iterator[None]:
    """Converts an OSError in the `with` block to a ProcessorStateError. `what`: the beginning of the message."""
    try:
        yield
    except OSError as error:
        raise ProcessorStateError(f"{what}: {with_advice(error)}") from error


class HeldLock(Protocol):
    def release(self) -> None:
        """Release the lock. A second call does nothing."""


class FileSystem:
    """The files of this machine. A simulated disk is a subclass.

    Every method of `FileSystem` raises OSError, for example FileNotFoundError, unless its docstring says otherwise.
    """

    def read(self, file: Path) -> bytes:
        return file.read_bytes()

    def write_whole(self, file: Path, data: bytes, *, written_as: str, synced: bool) -> None:
        """Replace the content of the file. Only the file's owner may read the file. `written_as`: the name under which
        the data is written first, in the same directory. `synced`: True if the written data has to survive a failure of
        the machine.
        """
        written = file.with_name(written_as)
        with open(written, "wb", opener=private_opener) as stream:
            stream.write(data)
            if synced:
                stream.flush()
                os.fsync(stream.fileno())
        written.replace(file)
        if synced:
            self.sync_directory(file.parent)

    def delete(self, file: Path) -> None:
        file.unlink()

    def rename(self, path: Path, to: Path) -> None:
        path.rename(to)

    def sync_directory(self, directory: Path) -> None:
        """Make renames and deletions in the directory durable."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # some file systems cannot sync a directory, but they keep the order of renames and deletions anyway
            if error.errno not in _NO_DIRECTORY_SYNC:
                raise
        finally:
            os.close(descriptor)

    def make_directory(self, directory: Path) -> None:
        """Make the directory and its parents. New directories are private to their owner. Existing directories stay as
        they are.
        """
        make_private_directory(directory)

    def delete_directory(self, directory: Path) -> None:
        """Delete an empty directory."""
        directory.rmdir()

    def delete_tree(self, directory: Path, *, ignore_errors: bool = False) -> None:
        """Delete a directory with its content."""
        shutil.rmtree(directory, ignore_errors=ignore_errors)

    def names(self, directory: Path) -> list[str]:
        """Returns the sorted names of the directory's entries."""
        return sorted(os.listdir(directory))

    def exists(self, path: Path) -> bool:
        """True if the path exists, even as a broken symbolic link. Raises nothing."""
        return os.path.lexists(path)

    def is_directory(self, path: Path) -> bool:
        """True if the path is a directory. Raises nothing."""
        return os.path.isdir(path)

    def changed_ms(self, directory: Path, *, but: str) -> int:
        """Returns the time of the last change in the directory, in milliseconds since the epoch. `but`: the name of an
        entry to ignore. If the directory has no other entries, returns the time of the directory itself.
        """
        times = [
            os.lstat(os.path.join(path, name)).st_mtime_ns
            for path, directories, files in os.walk(directory)
            for name in (*directories, *files)
            if name != but
        ]
        return (max(times, default=0) or directory.stat().st_mtime_ns) // 1_000_000

    def lock(self, directory: Path, what: str, *, wait_ms: int = 0) -> HeldLock:
        """Lock an existing directory. `what`: the directory's name in messages. Raises LockError if another holder
        still has the lock after `wait_ms`, and ProcessorStateError if the directory cannot be locked.
        """
        return DirectoryLock.acquire(directory, what, wait_ms=wait_ms)

    def warn_if_readable_by_others(self, directory: Path) -> None:
        """Log a warning if other users of the machine can open the directory. Raises nothing."""
        warn_if_readable_by_others(directory)


SYSTEM_FILES = FileSystem()


LOCK_FILE_NAME = ".lock"

_RETRY_MS = 20
_guard = threading.RLock()
_held: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


class DirectoryLock:
    """The lock of a directory, from `acquire` to `release`. No other process and no other object of this process can
    lock the directory during this time.
    """

    __slots__ = ("__weakref__", "_descriptor", "path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, directory: Path, name: str, *, wait_ms: int = 0) -> DirectoryLock:
        """Lock an existing directory. `name`: the directory's name in messages.

        Raises LockError if another holder still has the lock after `wait_ms`, and ProcessorStateError if the directory
        cannot be locked.
        """
        path = directory / LOCK_FILE_NAME
        for waited_ms in range(0, wait_ms + _RETRY_MS, _RETRY_MS):
            if waited_ms:
                time.sleep(_RETRY_MS / 1000)
            with _guard:
                with as_state_errors(f"{name} ({directory}) cannot be locked"):
                    descriptor = _lock_file(path)
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
            # the lock is released explicitly, because a forked child may still have the file open
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def forget(self) -> None:
        """In a forked child, close the lock file without releasing the parent's lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _lock_file(path: Path) -> int | None:
    """Returns the descriptor of the locked file, or None if another holder has the lock. Raises OSError."""
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
        # the previous holder of the lock has deleted the file, so try again with the new file at this path
        os.close(descriptor)


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
    _guard.release()  # the parent has acquired `_guard` before the fork


os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_forget_inherited)
