"""One process writes a store: a lease that the operating system or the database drops when its holder dies.

For SQLite it is a lock on a file beside the database, for PostgreSQL an advisory lock on a connection that stays
open. Both are gone at once after `kill -9`, so a new process can take over; while the holder lives, a second one is
refused.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import IO

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from coordinator_api.store.engine import sqlite_file
from coordinator_api.store.errors import StoreError, StoreInUse

_ADVISORY_KEY = zlib.crc32(b"assignor coordinator")


async def acquire(engine: AsyncEngine) -> AsyncExitStack:
    """Take the lease; closing what is returned gives it back. Raises StoreInUse when another process has it."""
    lease = AsyncExitStack()
    file = sqlite_file(engine.url)
    if file is not None:
        lease.callback(_lock_file(file).close)
    elif engine.dialect.name == "postgresql":
        await _lock_advisory(engine, lease)
    return lease


def _lock_file(database: Path) -> IO[str]:
    path = database.with_name(database.name + ".lock")
    try:
        handle = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"the database cannot be opened: {path}: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.seek(0)
        holder = handle.read().strip() or "unknown"
        handle.close()
        raise StoreInUse(
            f"{database} is in use by another coordinator (process {holder}): stop that one, or name another database"
        ) from None
    handle.seek(0)
    handle.truncate()
    handle.write(str(os.getpid()))
    handle.flush()
    return handle


async def _lock_advisory(engine: AsyncEngine, lease: AsyncExitStack) -> None:
    try:
        connection = await lease.enter_async_context(engine.connect())
        query = text("SELECT pg_try_advisory_lock(:key)")
        locked = (await connection.execute(query, {"key": _ADVISORY_KEY})).scalar_one()
        # ends the transaction; the lock belongs to the session and stays
        await connection.commit()
    except (SQLAlchemyError, OSError) as error:
        await lease.aclose()
        raise StoreError(f"the database cannot be opened: {error}") from None
    if not locked:
        await lease.aclose()
        raise StoreInUse("the database is in use by another coordinator: stop that one, or name another database")
