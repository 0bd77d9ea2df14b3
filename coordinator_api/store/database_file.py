"""Whether the file of an SQLite database is still the one that was opened.

A program keeps a file that it has opened, even after somebody deleted it or put another one in its place. SQLite goes
on writing to the old one then, and everything that is answered is gone when the program ends. So the file is looked at
after each write, before the write is answered, and so is the write-ahead log beside it, which has the newest writes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from coordinator_api.store.errors import DatabaseReplaced


class _Identity(NamedTuple):
    device: int
    inode: int


class DatabaseFile:
    """The database's file and its write-ahead log, as they were when they were first looked at."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._log = file.with_name(f"{file.name}-wal")
        self._known: dict[Path, _Identity] = {}

    def check(self) -> None:
        """Raises DatabaseReplaced. What was put back where it was is as good as before."""
        for path in (self._file, self._log):
            found = _identity(path)
            known = self._known.setdefault(path, found) if found is not None else self._known.get(path)
            if known == found:
                continue
            what = "deleted" if found is None else "replaced by another one"
            raise DatabaseReplaced(
                f"the file {path} was {what} while the coordinator was using it: nothing more can be stored. Put it "
                "back, or stop the coordinator, restore a backup and start it again"
            )


def _identity(path: Path) -> _Identity | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return _Identity(found.st_dev, found.st_ino)
