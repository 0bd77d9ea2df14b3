"""The script that Alembic runs for each command. There is no file alembic.ini: the settings are attributes of Alembic's
`Config`.

The attribute `connection` is an open connection to the database. The caller ends the transaction of the connection. If
`connection` is not set, the attribute `url` is the database's URL with an asynchronous driver. The attribute
`target_metadata` has the tables that the code defines. `alembic revision --autogenerate` compares the database with the
tables in `target_metadata`. This file imports no other module of the program.
"""

import asyncio

from alembic import context
from sqlalchemy import URL, Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

_attributes = context.config.attributes


def run(connection: Connection) -> None:
    """Apply all missing versions in one transaction. If the program is interrupted, the old schema remains."""
    context.configure(connection=connection, target_metadata=_attributes.get("target_metadata"), transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


async def run_with_url(url: str | URL) -> None:
    """Open a connection and apply all missing versions. Alembic's own command line needs this, because it passes no
    connection.
    """
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
