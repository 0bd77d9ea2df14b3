"""Only one process writes a database: it holds a lease, which the operating system or the database drops when it dies.

On SQLite the lease is a lock on a file beside the database. On PostgreSQL it is an advisory lock of one connection, and
every write goes over that connection. A coordinator whose connection broke has to get the lock again before it writes,
so two of them never write at one time. Both locks are gone at once after `kill -9`, so that a new process can take
over. As long as the holder lives, a second process is refused.
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

from assignor.access.private_files import open_lock
from coordinator_api.store.database_file import lock_file_of
from coordinator_api.store.engine import Begin, begin_writing, out_of_reach, sqlite_file
from coordinator_api.store.errors import StoreInUse, UnusableDatabase

_ADVISORY_KEY = zlib.crc32(b"assignor coordinator")


@asynccontextmanager
async def lease(engine: AsyncEngine) -> AsyncIterator[Begin]:
    """Hold the lease of the engine's database. What it gives begins the transactions that write, one at a time.

    Raises StoreInUse when another process holds it, DatabaseOutOfReach. A database in memory needs none.
    """
    file = sqlite_file(engine.url)
    if file is not None:
        with _locked_file(file):
            yield begin_writing(engine)
    elif engine.dialect.name == "postgresql":
        holder = _AdvisoryLock(engine)
        try:
            await holder.take()
            yield holder.begin
        finally:
            await holder.give_up()
    else:
        yield begin_writing(engine)


@contextmanager
def _locked_file(database: Path) -> Iterator[None]:
    path = lock_file_of(database)
    try:
        handle = os.fdopen(open_lock(path, database), "r+", encoding="utf-8")
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


class _AdvisoryLock:
    """A connection of PostgreSQL that holds the lock as long as it lives."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._connection: AsyncConnection | None = None

    async def take(self) -> AsyncConnection:
        """Connect and lock, unless this is still so. Raises StoreInUse, DatabaseOutOfReach."""
        if self._connection is not None and not self._connection.invalidated:
            return self._connection
        await self.give_up()
        try:
            self._connection = await self._engine.connect()
            locked = await self._lock(self._connection)
        except Exception as error:  # the driver's own, which nobody wraps while there is no connection
            await self.give_up()
            raise out_of_reach(self._engine.url, error) from None
        if not locked:
            holder = await self._holder(self._connection)
            await self.give_up()
            raise StoreInUse(
                f"the database is in use by another coordinator ({holder}): stop that one, or name another database"
            )
        return self._connection

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        connection = await self.take()
        async with connection.begin():
            yield connection

    async def give_up(self) -> None:
        """Close the connection, which ends the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.invalidate()  # it must not go back to the pool with the lock
            await connection.close()

    async def _lock(self, connection: AsyncConnection) -> bool:
        query = text("SELECT pg_try_advisory_lock(:key)")
        locked = bool((await connection.execute(query, {"key": _ADVISORY_KEY})).scalar_one())
        # ends the transaction; the lock belongs to the session and stays
        await connection.commit()
        return locked

    async def _holder(self, connection: AsyncConnection) -> str:
        """Where it is, as far as the database says so: it does not to everybody."""
        query = text(
            "SELECT a.client_addr::text, a.client_port FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
            "WHERE l.locktype = 'advisory' AND l.objid::bigint = :key AND a.datname = current_database()"
        )
        try:
            row = (await connection.execute(query, {"key": _ADVISORY_KEY})).first()
        except (SQLAlchemyError, OSError):
            row = None
        return "elsewhere" if row is None or row[0] is None else f"at {row[0].partition('/')[0]}:{row[1]}"
