"""Run by Alembic, once for each of its commands. There is no alembic.ini: the attributes of the `Config` have it all.

`connection`: an open connection whose transaction the caller ends; or else `url`: the database, for an asynchronous
driver. `target_metadata`: the tables that the code uses, which `alembic revision --autogenerate` compares with. Nothing
here knows the program that owns the tables.
"""

from __future__ import annotations

import asyncio

from alembic import context
from sqlalchemy import URL, Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

_attributes = context.config.attributes


def run(connection: Connection) -> None:
    """All versions that are missing, in one transaction: a start that is cut short leaves the old schema."""
    context.configure(connection=connection, target_metadata=_attributes.get("target_metadata"), transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


async def run_with_url(url: str | URL) -> None:
    """For a caller without a connection, such as Alembic's own command line."""
    engine = create_async_engine(url, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(run)
    finally:
        await engine.dispose()


if "connection" in _attributes:
    run(_attributes["connection"])
else:
    asyncio.run(run_with_url(_attributes["url"]))
