"""Open the store: take its lease, bring its schema up to date, hand out the repository.

`open_store` is the one door of this package for the coordinator; `migrate` is for the command `assignor migrate`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncEngine

from assignor.access.private_files import create_private_file
from coordinator_api.settings import Settings
from coordinator_api.store import schema
from coordinator_api.store.database_file import check_what_was_left, emptied, note_set_up, was_set_up
from coordinator_api.store.engine import Begin, create_engine, out_of_reach, sqlite_file
from coordinator_api.store.errors import NoTables
from coordinator_api.store.leases import lease
from coordinator_api.store.repository import Repository
from coordinator_api.store.sql_repository import SqlRepository
from coordinator_api.store.token_store import TokenStore


class OpenStore(NamedTuple):
    """`schema_before`: the version of the schema before it was brought up to date; None for a new database."""

    repository: Repository
    tokens: TokenStore
    schema_before: str | None
    schema: str


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[OpenStore]:
    """Holds the lease until it is left. Raises StoreError; StoreInUse while another coordinator uses the database."""
    async with leased_engine(settings) as (engine, begin):
        before, after = await _upgraded(engine, begin)
        repository = SqlRepository(engine, settings.rebalances_retained_count, begin)
        async with repository.watched():
            yield OpenStore(repository, repository.tokens, before, after)


async def migrate(settings: Settings) -> tuple[str | None, str]:
    """The schema version before and after. Raises StoreError; StoreInUse while a coordinator uses the database."""
    async with leased_engine(settings) as (engine, begin):
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
async def leased_engine(settings: Settings) -> AsyncIterator[tuple[AsyncEngine, Begin]]:
    """What begins transactions that write, as the holder of the lease has it. Raises StoreError."""
    engine = create_engine(settings)
    try:
        async with lease(engine) as begin:
            yield engine, begin
    finally:
        await engine.dispose()


async def _upgraded(engine: AsyncEngine, begin: Begin) -> tuple[str | None, str]:
    """The schema version before and after. A database that had groups in it is never taken for a new one."""
    file = sqlite_file(engine.url)
    if file is None:
        return await schema.upgrade(engine, begin)
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
