"""Open the store: take its lease, bring its schema up to date, hand out the repository.

`open_store` is the one door of this package for the coordinator; `migrate` is for the command `assignor migrate`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncEngine

from coordinator_api.settings import Settings
from coordinator_api.store import schema
from coordinator_api.store.engine import Begin, create_engine
from coordinator_api.store.leases import lease
from coordinator_api.store.repository import Repository
from coordinator_api.store.sql_repository import SqlRepository


class OpenStore(NamedTuple):
    """`schema_before`: the version of the schema before it was brought up to date; None for a new database."""

    repository: Repository
    schema_before: str | None
    schema: str


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[OpenStore]:
    """Holds the lease until it is left. Raises StoreError; StoreInUse while another coordinator uses the database."""
    async with _leased_engine(settings) as (engine, begin):
        before, after = await schema.upgrade(engine, begin)
        yield OpenStore(SqlRepository(engine, settings.rebalances_retained_count, begin), before, after)


async def migrate(settings: Settings) -> tuple[str | None, str]:
    """The schema version before and after. Raises StoreError; StoreInUse while a coordinator uses the database."""
    async with _leased_engine(settings) as (engine, begin):
        return await schema.upgrade(engine, begin)


@asynccontextmanager
async def _leased_engine(settings: Settings) -> AsyncIterator[tuple[AsyncEngine, Begin]]:
    engine = create_engine(settings)
    try:
        async with lease(engine) as begin:
            yield engine, begin
    finally:
        await engine.dispose()
