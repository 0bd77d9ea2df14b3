"""The schema's version: brought up to date by Alembic, from the `migrations` package that ships with this one."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

import migrations
from coordinator_api.store.errors import StoreError


async def upgrade(engine: AsyncEngine) -> tuple[str | None, str]:
    """Bring the schema to this release's; gives the version before and after. Raises StoreError for a newer one."""
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(_upgrade)
    except (SQLAlchemyError, OSError) as error:
        raise StoreError(f"the database cannot be opened: {_reason(error)}") from None


def _upgrade(connection: Connection) -> tuple[str | None, str]:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    head = scripts.get_current_head()
    assert head is not None, "the migrations package has no versions"
    current = MigrationContext.configure(connection).get_current_revision()
    if current is not None and current not in {script.revision for script in scripts.walk_revisions()}:
        raise StoreError(
            f"the database has schema version {current}, which this release does not know (its own is {head}): "
            "run a newer release, or another database"
        )
    if current != head:
        command.upgrade(config, "head")
    return current, head


def _reason(error: SQLAlchemyError | OSError) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause)
