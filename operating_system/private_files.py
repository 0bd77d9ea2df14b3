"""Files and directories for their owner alone: 0600 and 0700, whatever the umask is.

Rules: only what is new gets these permissions. What is there already keeps its own, because somebody may have opened it
on purpose; who starts a program is told how to close it (`how_to_close`). A lock is different: nobody reads one, and
whoever may open it, if only to read, may hold it for ever. So only they may open a lock who may write what it guards.
"""

from __future__ import annotations

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
    """An empty file, unless it is there. For programs that would create it with the umask, as SQLite does. Raises
    OSError.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, FILE_MODE))


def private_opener(path: str, flags: int) -> int:
    """For `open(..., opener=private_opener)`."""
    return os.open(path, flags, FILE_MODE)


def write_private_text(file: Path, text: str) -> None:
    """In UTF-8, in place of what is in the file. Raises OSError."""
    with open(file, "w", encoding="utf-8", opener=private_opener) as stream:
        stream.write(text)


def make_private_directory(directory: Path) -> None:
    """As `mkdir -p`; each directory that is new belongs to its owner alone. Raises OSError."""
    for one in (*reversed(directory.parents), directory):
        if not os.path.isdir(one):
            one.mkdir(mode=DIRECTORY_MODE, exist_ok=True)


def open_lock(lock: Path, guarded: Path) -> int:
    """The descriptor of the lock's file, to which nobody has access who may not write `guarded`. Raises OSError."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    with contextlib.suppress(OSError):  # another user's lock: what it allows is that user's to say
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
    """Logs what `how_to_close` says, once for each path in a process."""
    if path in _warned_of:
        return
    line = how_to_close(path)
    if line is not None:
        _warned_of.add(path)
        _logger.warning("%s", line)


def how_to_close(path: Path) -> str | None:
    """A line that says that other users of the machine can open `path`, and the command against it; None when they
    cannot, or there is nothing.
    """
    try:
        mode = path.stat().st_mode
        if not mode & _OTHERS or not all(one.stat().st_mode & _OTHERS_PASS for one in path.absolute().parents):
            return None
    except OSError:
        return None
    closed = DIRECTORY_MODE if stat.S_ISDIR(mode) else FILE_MODE
    return f"{path} can be opened by other users of this machine: chmod {closed:o} {path}"
