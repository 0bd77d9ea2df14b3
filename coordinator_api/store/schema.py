"""The tables of the store, and their version, which Alembic brings up to date from the scripts in `migrations`.

A group is what its records replay to, so nothing else about a group is stored, except which coordinator writes it.
Kafka keeps the same records in `__consumer_offsets`. Times are milliseconds since the epoch; bodies are ASCII JSON.

The scripts stand beside this package in a checkout, and inside of it once it is installed. A schema names the oldest
release that may run with it (`schema_support`), so that coordinators of one database can be upgraded one after the
other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from coordinator_api.store.store_errors import UnusableDatabase

if TYPE_CHECKING:  # most starts find the schema as it should be, and do not wait for Alembic
    from alembic.config import Config

VERSION = "0005"
"""The newest file in `migrations/versions`."""

OLDEST = "0005"
"""The oldest version that can be brought up to date: the names of stored records are fixed from it on."""

metadata = sa.MetaData()

groups = sa.Table(
    "groups",
    metadata,
    sa.Column("group_id", sa.String(249), primary_key=True),
    # the highest sequence number written; a writer that expects another one is refused
    sa.Column("sequence", sa.BigInteger, nullable=False),
    # of its log and its recorded rebalances, as they are stored
    sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0"),
    # the coordinator that writes it; NULL for nobody, and always on SQLite, which one process has
    sa.Column("owner", sa.String(64)),
    # rises by one with each change of owner; a writer in another epoch is refused
    sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),
    # the number of its members, by which groups are spread over coordinators
    sa.Column("members", sa.Integer, nullable=False, server_default="0"),
)

coordinators = sa.Table(
    "coordinators",
    metadata,
    sa.Column("coordinator_id", sa.String(64), primary_key=True),
    # where others reach it
    sa.Column("url", sa.Text, nullable=False),
    # incremented by each renewal of the lease, by which others see that the coordinator lives
    sa.Column("renewals", sa.BigInteger, nullable=False),
    # its `lease.timeout.ms`
    sa.Column("lease_ms", sa.BigInteger, nullable=False),
    sa.Column("release", sa.String(32), nullable=False),
    # whether it is to be given groups: not before it serves, and not once it stops
    sa.Column("takes", sa.Boolean, nullable=False),
)

schema_support = sa.Table(
    "schema_support",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    # the oldest schema version whose release may run with this schema
    sa.Column("oldest", sa.String(32), nullable=False),
)

group_records = sa.Table(
    "group_records",
    metadata,
    sa.Column("group_id", sa.ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", sa.Text, nullable=False),
    # `stored_logs.checksum`
    sa.Column("checksum", sa.BigInteger, nullable=False),
    # whether the transaction that wrote it wrote no later one
    sa.Column("ends_commit", sa.Boolean, nullable=False),
)

store_checks = sa.Table(
    "store_checks",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    # incremented by each check whether the store can be written
    sa.Column("number", sa.BigInteger, nullable=False),
)

rebalances = sa.Table(
    "rebalances",
    metadata,
    sa.Column("group_id", sa.ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("generation_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("now_ms", sa.BigInteger, nullable=False),
    sa.Column("summary", sa.Text, nullable=False),
    # one rebalance/1 document, as `recorded_documents` packs it
    sa.Column("document", sa.LargeBinary, nullable=False),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("right", sa.String(16), nullable=False),
    # what the ids of its groups begin with; empty for all groups
    sa.Column("group_prefix", sa.String(249), nullable=False),
    # SHA-256 of the token, in hexadecimal; the token itself is nowhere
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("created_by", sa.String(64), nullable=False),
    sa.Column("expires_ms", sa.BigInteger),
)


def upgrade(connection: sa.Connection) -> tuple[str | None, str]:
    """Bring the schema up to this release's version, in the transaction of the connection, which the caller ends.

    Returns the version before and after, which is a newer one where that takes this release. Raises UnusableDatabase.
    """
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


def version_of(connection: sa.Connection) -> str | None:
    """None when the database is empty, or is not a coordinator's."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def takes_this_release(connection: sa.Connection, version: str | None) -> bool:
    """Whether this release runs with the schema of the database: its own version, or a newer one whose
    `schema_support` names it.
    """
    if version is None or version <= VERSION or not sa.inspect(connection).has_table(schema_support.name):
        return version == VERSION
    oldest = connection.execute(sa.select(schema_support.c.oldest)).scalar()
    return oldest is not None and oldest <= VERSION


def check_upgradable(connection: sa.Connection, version: str | None) -> None:
    """For a schema that does not take this release. `version`: None for a database without one.

    Raises UnusableDatabase for a database that this release must leave as it is.
    """
    if version is not None:
        unknown = why_unknown(version)
        if unknown is not None:
            raise UnusableDatabase(f"the database {unknown}")
        return
    of_others = metadata.tables.keys() & set(sa.inspect(connection).get_table_names())
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
