"""Whether the file of an SQLite database is still the one that was opened, and whether the one to open is the one that
an earlier coordinator left.

A program keeps a file that it has opened, even after somebody deleted it or put another one in its place. SQLite goes
on writing to the old one then, and everything that is answered is gone when the program ends. SQLite does not notice
either that its file was cut short, as long as it has the pages in memory. So the file is looked at after each write,
before the write is answered, and so is the write-ahead log beside it, which has the newest writes.

And SQLite takes an empty file for a new database. So a coordinator leaves a note beside it, in the lock file, that
there is something in it.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

from coordinator_api.store import write_ahead_log
from coordinator_api.store.errors import DatabaseCutShort, DatabaseReplaced, UnusableDatabase

_SET_UP = "set up"
_HEADER_BYTES = 100
_PAGE_SIZE_AND_PAGES = struct.Struct(">16xH10xI")
_LARGEST_PAGE = 65_536
"""Its size does not fit into its field, which says 1 instead."""

_RESTORE = "Put it back, or restore a backup"


class _Identity(NamedTuple):
    device: int
    inode: int


class DatabaseFile:
    """The database's file and its write-ahead log, as they were when they were first looked at."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._log = write_ahead_log_of(file)
        self._known: dict[Path, _Identity] = {}
        self._bytes = 0
        self._cut_to: int | None = None

    def check(self) -> None:
        """Raises DatabaseReplaced, DatabaseCutShort. What was put back where it was is as good as before."""
        for path in (self._file, self._log):
            found = _stat(path)
            identity = None if found is None else _Identity(found.st_dev, found.st_ino)
            known = self._known.setdefault(path, identity) if identity is not None else self._known.get(path)
            if known != identity:
                what = "deleted" if identity is None else "replaced by another one"
                raise DatabaseReplaced(
                    f"the file {path} was {what} while the coordinator was using it: nothing more can be stored. Put "
                    "it back, or stop the coordinator, restore a backup and start it again"
                )
            if path == self._file and found is not None:
                self._check_length(found.st_size)

    def _check_length(self, now: int) -> None:
        """The file grows only, unless somebody has it vacuumed; then it says itself that it is shorter."""
        if now < self._bytes and now < _bytes_by_its_header(self._file):
            self._cut_to = now  # what is written from now on may make it longer, but not whole
        self._bytes = now
        if self._cut_to is not None:
            raise DatabaseCutShort(
                f"the file {self._file} was cut to {self._cut_to} bytes while the coordinator was using it: nothing "
                "more can be stored. Stop the coordinator, restore a backup and start it again"
            )


def write_ahead_log_of(file: Path) -> Path:
    """Beside the database; it has the newest writes."""
    return file.with_name(f"{file.name}-wal")


def lock_file_of(file: Path) -> Path:
    """Beside the database. Its first line is for the lease; another one says that the database was set up."""
    return file.with_name(f"{file.name}.lock")


def note_set_up(file: Path) -> None:
    """Leave a note that there is something in the database. Raises OSError."""
    if not was_set_up(file):
        with lock_file_of(file).open("a", encoding="utf-8") as notes:
            notes.write(f"\n{_SET_UP}\n")


def was_set_up(file: Path) -> bool:
    """Whether a coordinator has had its tables in the database. Raises OSError."""
    lock_file = lock_file_of(file)
    return lock_file.exists() and _SET_UP in lock_file.read_text(encoding="utf-8").splitlines()


def check_what_was_left(file: Path) -> None:
    """Before SQLite opens the database, which would make a new one, or go back to older data, without a word.

    Raises UnusableDatabase, OSError.
    """
    found, log = _stat(file), write_ahead_log_of(file)
    newest = _stat(log)
    if not (found and found.st_size):
        what = "is empty" if found else "is missing"
        if newest and newest.st_size:
            and_lock = f" and {lock_file_of(file).name}" if was_set_up(file) else ""
            raise UnusableDatabase(
                f"database.url: {file} {what}, and {log.name} beside it has writes that belong to it. {_RESTORE}; to "
                f"begin with an empty database, delete {log.name}{and_lock}"
            )
        if was_set_up(file):
            raise emptied(file, what)
        return
    if not (newest and newest.st_size) and found.st_size < _bytes_by_its_header(file):
        raise UnusableDatabase(
            f"database.url: {file} was cut short: it has {found.st_size} bytes, and {_bytes_by_its_header(file)} are "
            "expected. Restore a backup"
        )
    problem = write_ahead_log.damage(log)
    if problem is not None:
        raise UnusableDatabase(
            f"database.url: {log} has newest writes, and {problem}. Restore a backup; to go on with the writes before "
            f"the damage, run: sqlite3 {file} 'PRAGMA wal_checkpoint(TRUNCATE)'"
        )


def emptied(file: Path, what: str) -> UnusableDatabase:
    """`what`: how it is that a coordinator's database was found."""
    return UnusableDatabase(
        f"database.url: {file} {what}, but a coordinator has stored groups in it before. {_RESTORE}; to begin with an "
        f"empty database, delete {lock_file_of(file).name} beside it"
    )


def _bytes_by_its_header(file: Path) -> int:
    """How long the file says it is. 1 for one that is too short to say it: longer than an empty one."""
    with file.open("rb") as opened:
        header = opened.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return len(header) + 1
    page_size, pages = _PAGE_SIZE_AND_PAGES.unpack_from(header)
    return int((_LARGEST_PAGE if page_size == 1 else page_size) * pages)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
