"""The operations on files and directories that a task's state needs. The rules for the directories are in
`state_directory`, which reaches the disk only through `FileSystem`.

Rules:
- A file is written under another name in the same directory, then renamed. So a reader finds the old content or the new
  content. Only a synced write is sure to survive a failure of the machine. After an unsynced write and a failure, the
  file may have the old content, the new content or a torn one.
- Renames and deletions are durable once their directory was synced. Until then, a failure of the machine may undo them.
- A lock ends with the process that holds it, however the process ends.

Stores keep their own files and do not use this class. Source: `java.nio.file.Files`, `Utils.atomicMoveWithFallback`,
`FileChannel.tryLock`.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Protocol

from operating_system.private_files import make_private_directory, private_opener, warn_if_readable_by_others
from streams_runtime.tasks.directory_lock import DirectoryLock

_NO_DIRECTORY_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF})


class HeldLock(Protocol):
    def release(self) -> None:
        """Releasing twice is fine."""
        ...


class FileSystem:
    """The files of this machine. A simulated disk is a subclass.

    Every method raises OSError, for example FileNotFoundError, unless its docstring says otherwise.
    """

    def read(self, file: Path) -> bytes:
        return file.read_bytes()

    def write_whole(self, file: Path, data: bytes, *, written_as: str, synced: bool) -> None:
        """Replace the content of the file, which only its owner may read. `written_as`: the name under which the data
        is written first, in the same directory. `synced`: on return the data survives a failure of the machine.
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
            # some file systems refuse to sync a directory; they keep renames and deletions in order without it
            if error.errno not in _NO_DIRECTORY_SYNC:
                raise
        finally:
            os.close(descriptor)

    def make_directory(self, directory: Path) -> None:
        """Make the directory and its parents. New directories are private to their owner; others stay as they are."""
        make_private_directory(directory)

    def delete_directory(self, directory: Path) -> None:
        """Delete an empty directory."""
        directory.rmdir()

    def delete_tree(self, directory: Path, *, ignore_errors: bool = False) -> None:
        """Delete a directory with its content."""
        shutil.rmtree(directory, ignore_errors=ignore_errors)

    def names(self, directory: Path) -> list[str]:
        """The names in the directory, sorted."""
        return sorted(os.listdir(directory))

    def exists(self, path: Path) -> bool:
        """True also for a link that leads nowhere. Raises nothing."""
        return os.path.lexists(path)

    def is_directory(self, path: Path) -> bool:
        """Raises nothing."""
        return os.path.isdir(path)

    def changed_ms(self, directory: Path, *, but: str) -> int:
        """The time of the last change of anything in the directory, in milliseconds since the epoch.

        Entries named `but` do not count. If the directory has no other entries, the result is the directory's own time.
        """
        times = [
            os.lstat(os.path.join(path, name)).st_mtime_ns
            for path, directories, files in os.walk(directory)
            for name in (*directories, *files)
            if name != but
        ]
        return (max(times, default=0) or directory.stat().st_mtime_ns) // 1_000_000

    def lock(self, directory: Path, what: str, *, wait_ms: int = 0) -> HeldLock:
        """Lock an existing directory. `what`: the directory's name in messages.

        Raises LockError when another holder still has the lock after `wait_ms`, ProcessorStateError when the directory
        cannot be locked.
        """
        return DirectoryLock.acquire(directory, what, wait_ms=wait_ms)

    def warn_if_readable_by_others(self, directory: Path) -> None:
        """Log a warning if other users of the machine can open the directory. Raises nothing."""
        warn_if_readable_by_others(directory)


SYSTEM_FILES = FileSystem()
