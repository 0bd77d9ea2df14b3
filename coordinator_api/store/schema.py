"""The tables of the store, and their version, which Alembic brings up to date from the scripts in `migrations`.

A group is what its records replay to, so nothing else about a group is stored, except which coordinator writes it.
Kafka keeps the same records in `__consumer_offsets`. Times are milliseconds since the epoch; bodies are ASCII JSON.

The scripts stand beside this package in a checkout, and inside of it once it is installed. A schema itself says which
releases may run with it (`schema_support`), so that coordinators of one database can be upgraded one after the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from coordinator_api.store.engine import out_of_reach
from coordinator_api.store.errors import UnusableDatabase
from coordinator_api.store.sqlite import Begin

if TYPE_CHECKING:  # most starts find the schema as it should be, and do not wait for Alembic
    from alembic.config import Config

VERSION = "0005"
"""The newest file in `migrations/versions`."""

OLDEST = "0005"
"""The oldest version that can be brought up to date: the names of stored records are fixed from it on."""

metadata = MetaData()

groups = Table(
    "groups",
    metadata,
    Column("group_id", String(249), primary_key=True),
    # the highest sequence number written; a writer that expects another one is refused
    Column("sequence", BigInteger, nullable=False),
    # of its log and its recorded rebalances, as they are stored
    Column("stored_bytes", BigInteger, nullable=False, server_default="0"),
    # the coordinator that writes it; NULL for nobody, and always on SQLite, which one process has
    Column("owner", String(64)),
    # rises by one with each change of owner; a writer in another epoch is refused
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    # how many it has, for whoever spreads groups over coordinators
    Column("members", Integer, nullable=False, server_default="0"),
)

coordinators = Table(
    "coordinators",
    metadata,
    Column("coordinator_id", String(64), primary_key=True),
    # where others reach it
    Column("url", Text, nullable=False),
    # rises while it lives, so that others see that it does
    Column("renewals", BigInteger, nullable=False),
    # its `lease.timeout.ms`
    Column("lease_ms", BigInteger, nullable=False),
    Column("release", String(32), nullable=False),
    # whether it is to be given groups: not before it serves, and not once it stops
    Column("takes", Boolean, nullable=False),
)

schema_support = Table(
    "schema_support",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    # the oldest schema version whose release may run with this schema
    Column("oldest", String(32), nullable=False),
)

group_records = Table(
    "group_records",
    metadata,
    Column("group_id", ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    # `stored_logs.checksum`
    Column("checksum", BigInteger, nullable=False),
    # whether the transaction that wrote it wrote no later one
    Column("ends_commit", Boolean, nullable=False),
)

store_checks = Table(
    "store_checks",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    # written anew each time somebody asks whether the store can be written
    Column("number", BigInteger, nullable=False),
)

rebalances = Table(
    "rebalances",
    metadata,
    Column("group_id", ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True),
    Column("generation_id", Integer, primary_key=True, autoincrement=False),
    Column("now_ms", BigInteger, nullable=False),
    Column("summary", Text, nullable=False),
    # one rebalance/1 document, as `recorded_documents` packs it
    Column("document", LargeBinary, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("right", String(16), nullable=False),
    # what the ids of its groups begin with; empty for all groups
    Column("group_prefix", String(249), nullable=False),
    # SHA-256 of the token, in hexadecimal; the token itself is nowhere
    Column("digest", String(64), nullable=False, unique=True),
    Column("created_ms", BigInteger, nullable=False),
    Column("created_by", String(64), nullable=False),
    Column("expires_ms", BigInteger),
)


async def upgrade(engine: AsyncEngine, begin: Begin | None = None) -> tuple[str | None, str]:
    """Bring the schema up to this release's version. Returns the version before and after, which is a newer one where
    that takes this release.

    `begin`: begins a transaction in which no other process changes the schema; by default the engine does.
    Raises UnusableDatabase, DatabaseOutOfReach when the schema cannot be read, and what `begin` raises.
    """
    try:
        async with (begin or engine.begin)() as connection:
            return await connection.run_sync(upgrade_within)
    except (SQLAlchemyError, OSError) as error:
        raise out_of_reach(engine.url, error) from None


def upgrade_within(connection: Connection) -> tuple[str | None, str]:
    """As `upgrade`, in the transaction of the connection, which the caller ends."""
    before = version_of(connection)
    if before is not None and takes_this_release(connection, before):
        return before, before
    check_upgradable(connection, before)
    # Alembic takes long to import, and most starts find the schema up to date
    from alembic import command

    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    return before, VERSION


def version_of(connection: Connection) -> str | None:
    """None when the database is empty, or is not a coordinator's."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def takes_this_release(connection: Connection, version: str | None) -> bool:
    """Whether this release runs with the schema of the database, of this `version`: its own, or a newer one that says
    so.
    """
    if version is None or version <= VERSION or not inspect(connection).has_table(schema_support.name):
        return version == VERSION
    oldest = connection.execute(select(schema_support.c.oldest)).scalar()
    return oldest is not None and oldest <= VERSION


def check_upgradable(connection: Connection, version: str | None) -> None:
    """For a schema that does not take this release. `version`: None for a database without one.

    Raises UnusableDatabase for a database that this release must leave as it is.
    """
    if version is not None:
        unknown = why_unknown(version)
        if unknown is not None:
            raise UnusableDatabase(f"the database {unknown}")
        return
    of_others = metadata.tables.keys() & set(inspect(connection).get_table_names())
    if of_others:
        raise UnusableDatabase(
            f"the database has a table {min(of_others)} and no schema version, so it is not a coordinator's, and is "
            "left as it is: name another database"
        )


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
