"""Whether the file of an SQLite database is damaged, while a coordinator uses it.

SQLite has pages in memory, and notices nothing of what happens to them on the disk: it answers, and what it has
answered is gone at the next start. So another connection, which has nothing in memory, has SQLite look through the file
(`PRAGMA quick_check`) whenever it has changed since the last look. That takes time in proportion to the file, so it
goes on beside the callers, for a twentieth of the time at most, and they hear what the last look has found.

A file that was damaged when the coordinator began is no news: the groups that it concerns are set aside already, and
the others are led. Source: https://www.sqlite.org/pragma.html#pragma_quick_check
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from urllib.parse import quote

from coordinator_api.store.errors import DamagedDatabase

_WAIT_S = 0.3
"""How long a caller waits for a look that is under way. That of a small file takes some milliseconds."""

_REST = 19
"""A look that took a second is followed by a pause of as many."""

_Seen = tuple[int, int, int]


class FileDamage:
    """Belongs to one event loop. Nothing is looked at outside of `watched`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._looked = False
        self._was_damaged = False
        self._problem: str | None = None
        self._seen: _Seen | None = None
        self._due_s = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._connection: sqlite3.Connection | None = None

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """The first look begins at once."""
        self._begin()
        try:
            yield
        finally:
            if self._connection is not None:
                with suppress(sqlite3.ProgrammingError):  # it was closed meanwhile
                    self._connection.interrupt()
            if self._looking is not None:
                await asyncio.wait((self._looking,))
                self._looking = None

    async def check(self) -> None:
        """Raises DamagedDatabase when the file was in order at first, and is no longer."""
        if self._seen is not None and self._looking is None and time.monotonic() >= self._due_s:
            self._begin()
        if self._looking is not None:
            await asyncio.wait((self._looking,), timeout=_WAIT_S)
        if self._problem is not None and not self._was_damaged:
            raise DamagedDatabase(
                f"the file {self._file} was damaged while the coordinator was using it: {self._problem}. Stop the "
                "coordinator, restore a backup and start it again"
            )

    def _begin(self) -> None:
        seen = _seen(self._file)
        if seen is None or seen == self._seen:
            return
        self._seen = seen
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        began_s = time.monotonic()
        try:
            self._problem = await asyncio.to_thread(self._found)
        except sqlite3.DatabaseError:  # the file could not be looked at, for a reason that others tell
            self._seen = (0, 0, 0)
        else:
            self._was_damaged = self._was_damaged if self._looked else self._problem is not None
            self._looked = True
        finally:
            self._looking = None
        now_s = time.monotonic()
        self._due_s = now_s + _REST * (now_s - began_s)

    def _found(self) -> str | None:
        """The first thing that is wrong with the file; None when all is well. Raises sqlite3.DatabaseError."""
        try:
            # the first page as it is in the file: SQLite reads it from the write-ahead log, if that has it
            self._ask("PRAGMA schema_version", "immutable=1")
            said = self._ask("PRAGMA quick_check(1)", "mode=ro")
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                return str(error)
            raise
        return None if said == "ok" else " ".join(str(said).split())

    def _ask(self, statement: str, option: str) -> object:
        # by SQLite itself: when a program closes a file that it has opened beside SQLite, SQLite's locks on it are gone
        uri = f"file:{quote(str(self._file))}?{option}"
        with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as connection:
            self._connection = connection
            try:
                return connection.execute(statement).fetchone()[0]
            finally:
                self._connection = None


def _seen(file: Path) -> _Seen | None:
    """What differs once somebody has written to the file; None when there is none."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
