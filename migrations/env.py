"""Run by Alembic. The caller passes an open connection, or a URL as the attribute `url`; there is no alembic.ini."""

from __future__ import annotations

import asyncio

from alembic import context
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from coordinator_api.store.engine import parse_url
from coordinator_api.store.tables import metadata


def run(connection: Connection) -> None:
    """All versions that are missing, in one transaction: a start that is cut short leaves the old schema."""
    context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


async def run_with_url(url: str) -> None:
    """For Alembic's own command line: `Config.attributes["url"]` names the database."""
    engine = create_async_engine(parse_url(url), poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(run)
    finally:
        await engine.dispose()


_attributes = context.config.attributes
if "connection" in _attributes:
    run(_attributes["connection"])
else:
    asyncio.run(run_with_url(_attributes["url"]))
