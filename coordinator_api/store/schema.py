"""The schema's version, which Alembic brings up to date from the scripts in `migrations`.

They stand beside this package in a checkout, and inside of it once it is installed. A schema says itself which releases
may run with it (`schema_support`), so that coordinators of one database can be upgraded one after the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from coordinator_api.store.engine import Begin, connection_of, out_of_reach
from coordinator_api.store.errors import NoTables, UnusableDatabase
from coordinator_api.store.tables import metadata, schema_support

if TYPE_CHECKING:  # most starts find the schema as it should be, and do not wait for Alembic
    from alembic.config import Config

VERSION = "0005"
"""The newest file in `migrations/versions`."""

OLDEST = "0005"
"""The oldest version that can be brought up to date: the names of stored records are fixed from it on."""


async def upgrade(
    engine: AsyncEngine, begin: Begin | None = None, *, has_tables: bool = False
) -> tuple[str | None, str]:
    """Bring the schema up to this release's version. Returns the version before and after, which is a newer one where
    that takes this release.

    `begin`: begins the transaction, as whoever may change the schema has it; by default the engine does. `has_tables`:
    that a coordinator has had its tables there before.

    Raises UnusableDatabase when the schema is of a newer release or older than `OLDEST`, DatabaseOutOfReach when it
    cannot be read, NoTables, and what `begin` raises.
    """
    try:
        async with (begin or engine.begin)() as connection:
            return await connection.run_sync(upgrade_within, has_tables)
    except (SQLAlchemyError, OSError) as error:
        raise out_of_reach(engine.url, error) from None


async def usable_as_it_is(engine: AsyncEngine) -> str | None:
    """The schema's version, if this release runs with it; otherwise None. Raises DatabaseOutOfReach."""
    try:
        async with connection_of(engine) as connection:
            found = await connection.run_sync(version_of)
            return found if await connection.run_sync(takes_this_release, found) else None
    except (SQLAlchemyError, OSError) as error:
        raise out_of_reach(engine.url, error) from None


def upgrade_within(connection: Connection, has_tables: bool = False) -> tuple[str | None, str]:
    """As `upgrade`, in the transaction of the connection, which the caller ends."""
    before = version_of(connection)
    if before is None and has_tables:
        raise NoTables
    if before is not None and takes_this_release(connection, before):
        return before, before
    unknown = None if before is None else why_unknown(before)
    if unknown is not None:
        raise UnusableDatabase(f"the database {unknown}")
    # Alembic takes long to import, and most starts find the schema up to date
    from alembic import command

    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    return before, VERSION


def takes_this_release(connection: Connection, version: str | None) -> bool:
    """Whether this release runs with the schema of the database, of this `version`: its own, or a newer one that says
    so.
    """
    if version is None or version <= VERSION:
        return version == VERSION
    if not inspect(connection).has_table(schema_support.name):
        return False
    oldest = connection.execute(select(schema_support.c.oldest)).scalar()
    return oldest is not None and oldest <= VERSION


def why_unknown(version: str) -> str | None:
    """Why this release cannot read a database or a backup of this schema version, and what to do; None if it can."""
    if version < OLDEST:
        return (
            f"has schema version {version}, from before the names of stored records were fixed, and cannot be read any "
            f"more ({OLDEST} and later can): export its recordings with the release that wrote it (`assignor "
            "rebalances show GROUP GENERATION --format json`), and start with an empty database"
        )
    if version > VERSION:
        return (
            f"has schema version {version}, which this release does not know (its own is {VERSION}): use the release "
            "that wrote it, or a newer one"
        )
    return None


def alembic_config() -> Config:
    """For `alembic.command`. Set the attribute `connection`, or `url` as `engine.parse_url` gives it."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_migrations()).replace("%", "%%"))
    config.attributes["target_metadata"] = metadata
    return config


def _migrations() -> Path:
    package = Path(__file__).parents[1]
    installed = package / "migrations"  # setup.py puts it there, so that nobody else's `migrations` is in its way
    return installed if installed.is_dir() else package.parent / "migrations"


def version_of(connection: Connection) -> str | None:
    """None when the database is empty, or is not a coordinator's."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
