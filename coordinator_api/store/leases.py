"""Only one process writes a database: it holds a lease, which the operating system or the database drops when it dies.

On SQLite the lease is a lock on a file beside the database. On PostgreSQL it is an advisory lock of a connection that
stays open. Both are gone at once after `kill -9`, so that a new process can take over. As long as the holder lives, a
second process is refused.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from coordinator_api.store.engine import out_of_reach, sqlite_file
from coordinator_api.store.errors import StoreInUse, UnusableDatabase

_ADVISORY_KEY = zlib.crc32(b"assignor coordinator")


@asynccontextmanager
async def lease(engine: AsyncEngine) -> AsyncIterator[None]:
    """Hold the lease of the engine's database. Raises StoreInUse when another process holds it, DatabaseOutOfReach.

    A database in memory needs none.
    """
    file = sqlite_file(engine.url)
    if file is not None:
        with _locked_file(file):
            yield
    elif engine.dialect.name == "postgresql":
        async with _connected(engine) as connection:
            await _lock_advisory(connection)
            yield
    else:
        yield


@contextmanager
def _locked_file(database: Path) -> Iterator[None]:
    path = database.with_name(database.name + ".lock")
    try:
        handle = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise UnusableDatabase(
            f"database.url: the lock file {path} beside the database cannot be opened: {error.strerror}: "
            "name a file in another directory"
        ) from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            holder = handle.read().strip() or "unknown"
            raise StoreInUse(
                f"{database} is in use by another coordinator (process {holder}): "
                "stop that one, or name another database"
            ) from None
        handle.seek(0)
        handle.truncate()
        handle.write(str(os.getpid()))
        handle.flush()
        yield


@asynccontextmanager
async def _connected(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    try:
        connection = await engine.connect()
    except Exception as error:  # the driver's own, which nobody wraps while there is no connection
        raise out_of_reach(engine.url, error) from None
    async with connection:
        yield connection


async def _lock_advisory(connection: AsyncConnection) -> None:
    try:
        query = text("SELECT pg_try_advisory_lock(:key)")
        locked = (await connection.execute(query, {"key": _ADVISORY_KEY})).scalar_one()
        # ends the transaction; the lock belongs to the session and stays
        await connection.commit()
    except (SQLAlchemyError, OSError) as error:
        raise out_of_reach(connection.engine.url, error) from None
    if not locked:
        raise StoreInUse("the database is in use by another coordinator: stop that one, or name another database")
