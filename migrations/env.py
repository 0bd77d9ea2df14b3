"""The script that Alembic runs for each command. There is no file alembic.ini: the attributes of Alembic's `Config`
replace this file.

The attribute `connection` is an open connection, whose transaction the caller ends. If `connection` is not set, the
attribute `url` names the database, for an asynchronous driver. The attribute `target_metadata` has the tables as the
code defines them. `alembic revision --autogenerate` compares the database with these tables. This file imports nothing
of the program that owns the tables.
"""

import asyncio

from alembic import context
from sqlalchemy import URL, Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

_attributes = context.config.attributes


def run(connection: Connection) -> None:
    """Run all missing versions in one transaction, so that an interrupted start leaves the old schema."""
    context.configure(connection=connection, target_metadata=_attributes.get("target_metadata"), transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


async def run_with_url(url: str | URL) -> None:
    """Run all missing versions for a caller without a connection, such as Alembic's own command line."""
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
