"""Files and directories that only their owner may access: modes 0600 and 0700, regardless of the umask.

This module sets the modes only on files and directories that it creates. The mode of an existing file stays unchanged,
because its owner may have granted access to other users on purpose. A warning names the command that removes the access
of other users (`access_warning`). Only users that may write the guarded file may open its lock file. A process that can
open a lock file, even only for reading, can hold the lock for ever. Other users need no access, because the lock file
has no content.
"""

import contextlib
import logging
import os
import stat
from pathlib import Path

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700

_logger = logging.getLogger(__name__)
_warned_of: set[Path] = set()

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_PASS = stat.S_IXGRP | stat.S_IXOTH


def create_private_file(file: Path) -> None:
    """Create an empty private file if the file does not exist. Libraries such as SQLite would create the file with a
    mode from the umask. Raises OSError.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, FILE_MODE))


def private_opener(path: str, flags: int) -> int:
    """An opener that makes Python's `open` create private files: `open(..., opener=private_opener)`."""
    return os.open(path, flags, FILE_MODE)


def make_private_directory(directory: Path) -> None:
    """Make the directory and its missing parents. New directories have mode 0700. Raises OSError."""
    for one in (*reversed(directory.parents), directory):
        if not os.path.isdir(one):
            one.mkdir(mode=DIRECTORY_MODE, exist_ok=True)


def open_lock(lock: Path, guarded: Path) -> int:
    """Open or create the lock file and return its descriptor. Only users that may write `guarded` get access to the
    lock file. Raises OSError.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    with contextlib.suppress(OSError):  # only the lock file's owner may change its mode
        is_now, wanted = stat.S_IMODE(os.fstat(descriptor).st_mode), _mode_of_writers(guarded)
        if is_now & _OTHERS & ~wanted:
            os.fchmod(descriptor, is_now & wanted)
    return descriptor


def _mode_of_writers(guarded: Path) -> int:
    try:
        mode = guarded.stat().st_mode
    except FileNotFoundError:
        return FILE_MODE
    return FILE_MODE | (0o060 if mode & stat.S_IWGRP else 0) | (0o006 if mode & stat.S_IWOTH else 0)


def warn_if_readable_by_others(path: Path) -> None:
    """Log the text of `access_warning`, at most once for each path."""
    if path in _warned_of:
        return
    line = access_warning(path)
    if line is not None:
        _warned_of.add(path)
        _logger.warning("%s", line)


def access_warning(path: Path) -> str | None:
    """Return a warning if other users of the machine can open `path`. The warning names the command that removes the
    access of other users. Return None if other users cannot open `path`, or if `path` does not exist.
    """
    try:
        mode = path.stat().st_mode
        if not mode & _OTHERS or not all(one.stat().st_mode & _OTHERS_PASS for one in path.absolute().parents):
            return None
    except OSError:
        return None
    closed = DIRECTORY_MODE if stat.S_ISDIR(mode) else FILE_MODE
    return f"{path} can be opened by other users of this machine: chmod {closed:o} {path}"
