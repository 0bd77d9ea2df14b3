"""Only one process writes an SQLite file: it holds a lease, which the operating system drops when the process dies.

The lease is a lock on a file beside the database. It is gone at once after `kill -9`, so that a new process can take
over. As long as the holder lives, a second process is refused. A database of PostgreSQL is for several processes, and
needs no lease: each group of it has an owner.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from assignor.access.private_files import open_lock
from assignor.operating_system import advice_of
from coordinator_api.store.database_file import lock_file_of
from coordinator_api.store.engine import sqlite_file
from coordinator_api.store.errors import StoreInUse, UnusableDatabase


@contextmanager
def lease(engine: AsyncEngine) -> Iterator[None]:
    """Hold the lease of the engine's database, if it is a file. Raises StoreInUse when another process holds it."""
    file = sqlite_file(engine.url)
    if file is None:
        yield
        return
    with _locked_file(file):
        yield


@contextmanager
def _locked_file(database: Path) -> Iterator[None]:
    path = lock_file_of(database)
    try:
        handle = os.fdopen(open_lock(path, database), "r+", encoding="utf-8")
    except OSError as error:
        raise UnusableDatabase(
            f"database.url: the lock file {path} beside the database cannot be opened: {error.strerror}: "
            f"{advice_of(error) or 'name a file in another directory'}"
        ) from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            holder = handle.readline().strip() or "unknown"
            raise StoreInUse(
                f"{database} is in use by another coordinator (process {holder}): "
                "stop that one, or name another database"
            ) from None
        handle.seek(0)
        _, _, notes = handle.read().partition("\n")  # which `database_file` has left there
        handle.seek(0)
        handle.truncate()
        handle.write(f"{os.getpid()}\n{notes}")
        handle.flush()
        yield
