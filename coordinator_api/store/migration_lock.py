"""On PostgreSQL one process at a time changes the schema, or fills an empty database, and no earlier release runs then.

Two advisory locks, which end with the transaction:

    _MIGRATING   whoever changes the schema; another one waits, since it is done soon
    _RUNNING     a release before schema 0004 holds it for as long as it runs, as the only process of the database

Such a release writes without an epoch, so nobody who writes with one may run beside it. Nothing takes a lock to run.
"""

from __future__ import annotations

import asyncio
import zlib

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from coordinator_api.store.errors import StoreInUse

_RUNNING = zlib.crc32(b"assignor coordinator")
_MIGRATING = zlib.crc32(b"assignor coordinator migrates")

PATIENCE_S = 60.0
_LOOKS_EVERY_S = 0.05


async def take_to_migrate(connection: AsyncConnection, patience_s: float = PATIENCE_S) -> None:
    """Until the transaction ends. Waits for `patience_s` while another process has it.

    Raises StoreInUse when that is not enough, or while a coordinator of a release before schema 0004 runs.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + patience_s
    while not await _locked(connection, _MIGRATING):
        if loop.time() >= until_s:
            raise StoreInUse(
                f"another process has been changing the schema of the database for {patience_s:.0f} s, or restores a "
                "backup into it: wait until it has ended"
            )
        await asyncio.sleep(_LOOKS_EVERY_S)
    if not await _locked(connection, _RUNNING):
        raise StoreInUse(
            f"the database is in use by a coordinator of an earlier release ({await _holder(connection)}): stop that "
            "coordinator first, then start this one, which migrates the database"
        )


async def _locked(connection: AsyncConnection, key: int) -> bool:
    query = text("SELECT pg_try_advisory_xact_lock(:key)")
    return bool((await connection.execute(query, {"key": key})).scalar_one())


async def _holder(connection: AsyncConnection) -> str:
    """Where it is, as far as the database says so: it does not to everybody."""
    query = text(
        "SELECT a.client_addr::text, a.client_port FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
        "WHERE l.locktype = 'advisory' AND l.objid::bigint = :key AND a.datname = current_database()"
    )
    try:
        row = (await connection.execute(query, {"key": _RUNNING})).first()
    except (SQLAlchemyError, OSError):
        row = None
    return "elsewhere" if row is None or row[0] is None else f"at {row[0].partition('/')[0]}:{row[1]}"
