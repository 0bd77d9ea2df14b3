"""Open the store: take its lease, bring its schema up to date, hand out the repository.

`open_store` is the one door of this package for the coordinator; `migrate` is for the command `assignor migrate`.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from assignor.access.private_files import create_private_file
from coordinator_api.settings import Settings
from coordinator_api.store import schema
from coordinator_api.store.database_file import check_what_was_left, emptied, note_set_up, was_set_up
from coordinator_api.store.engine import (
    Begin,
    begin_writing,
    create_engine,
    create_lease_engine,
    create_service_engine,
    out_of_reach,
    parse_url,
    sqlite_file,
)
from coordinator_api.store.errors import NoTables, StoreInUse
from coordinator_api.store.file_lease import FileLeaseStore, file_lease
from coordinator_api.store.lease_rows import LeaseStore
from coordinator_api.store.lease_store import SqlLeaseStore
from coordinator_api.store.repository import Repository
from coordinator_api.store.sql_repository import SqlRepository
from coordinator_api.store.token_store import TokenStore

_MIGRATING = zlib.crc32(b"assignor coordinator migrates")
"""Key of the advisory lock on PostgreSQL."""

PATIENCE_S = 60.0
_LOOKS_EVERY_S = 0.05


class OpenStore(NamedTuple):
    """`schema_before`: the version of the schema before it was brought up to date; None for a new database.

    `lease_store`: entering it has to come before the first group is made or written.
    """

    repository: Repository
    tokens: TokenStore
    lease_store: LeaseStore
    schema_before: str | None
    schema: str


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[OpenStore]:
    """Raises StoreError. On SQLite it holds the lease until it is left; StoreInUse while another process does."""
    is_file = parse_url(settings.database_url).get_backend_name() == "sqlite"
    async with _of_one_process(settings) if is_file else _of_several(settings) as opened:
        yield opened


@asynccontextmanager
async def _of_one_process(settings: Settings) -> AsyncIterator[OpenStore]:
    async with exclusive_engine(settings) as (engine, begin):
        before, after = await _upgraded(engine, begin)
        repository = SqlRepository(engine, settings.rebalances_retained_count)
        async with repository.watched():
            lease_store = FileLeaseStore(repository.group_ids)
            yield OpenStore(repository, repository.tokens, lease_store, before, after)


@asynccontextmanager
async def _of_several(settings: Settings) -> AsyncIterator[OpenStore]:
    before, after = await migrate(settings)
    engine, for_leases = create_service_engine(settings), create_lease_engine(settings)
    try:
        repository = SqlRepository(engine, settings.rebalances_retained_count)
        lease_store = SqlLeaseStore(for_leases, settings.lease_timeout_ms, repository.owned_by)
        yield OpenStore(repository, repository.tokens, lease_store, before, after)
    finally:
        await engine.dispose()
        await for_leases.dispose()


async def migrate(settings: Settings) -> tuple[str | None, str]:
    """The schema version before and after. Raises StoreError; StoreInUse while a coordinator uses an SQLite file."""
    async with exclusive_engine(settings) as (engine, begin):
        return await _upgraded(engine, begin)


def create_for_owner_alone(engine: AsyncEngine) -> None:
    """SQLite would create its file with the umask. The files that it makes beside a database have the database's mode.

    Raises DatabaseOutOfReach.
    """
    file = sqlite_file(engine.url)
    if file is not None:
        try:
            create_private_file(file)
        except OSError as error:
            raise out_of_reach(engine.url, error) from None


@asynccontextmanager
async def exclusive_engine(settings: Settings) -> AsyncIterator[tuple[AsyncEngine, Begin]]:
    """For one who changes the schema, or fills an empty database. What begins transactions lets nobody else do that at
    the same time. Raises StoreError.
    """
    engine = create_engine(settings)
    try:
        with file_lease(engine):
            yield engine, begin_writing(engine) if engine.dialect.name == "sqlite" else _begin_to_migrate(engine)
    finally:
        await engine.dispose()


def _begin_to_migrate(engine: AsyncEngine) -> Begin:
    begin = begin_writing(engine)

    @asynccontextmanager
    async def begin_to_migrate() -> AsyncIterator[AsyncConnection]:
        async with begin() as connection:
            await take_to_migrate(connection)
            yield connection

    return begin_to_migrate


async def take_to_migrate(connection: AsyncConnection, patience_s: float = PATIENCE_S) -> None:
    """On PostgreSQL one process at a time changes the schema, or fills an empty database: until its transaction ends.

    Waits for `patience_s` while another process does; then raises StoreInUse.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + patience_s
    query = text("SELECT pg_try_advisory_xact_lock(:key)")
    while not (await connection.execute(query, {"key": _MIGRATING})).scalar_one():
        if loop.time() >= until_s:
            raise StoreInUse(
                f"another process has been changing the schema of the database for {patience_s:.0f} s, or restores a "
                "backup into it: wait until it has ended"
            )
        await asyncio.sleep(_LOOKS_EVERY_S)


async def _upgraded(engine: AsyncEngine, begin: Begin) -> tuple[str | None, str]:
    """The schema version before and after. A database that had groups in it is never taken for a new one."""
    file = sqlite_file(engine.url)
    if file is None:
        usable = await schema.usable_as_it_is(engine)
        return (usable, usable) if usable is not None else await schema.upgrade(engine, begin)
    try:
        check_what_was_left(file)
        create_for_owner_alone(engine)
        had_tables = was_set_up(file)
        versions = await schema.upgrade(engine, begin, has_tables=had_tables)
        note_set_up(file)
    except NoTables:
        raise emptied(file, "has no tables") from None
    except OSError as error:
        raise out_of_reach(engine.url, error) from None
    return versions
