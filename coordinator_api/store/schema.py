"""The tables of the store, and the schema version. Alembic brings the tables up to date with the scripts in
`migrations`.

The state of a group is the result of replaying its records. The store has only the records and the owner of the group,
and not the group's state. Kafka stores the records of groups in `__consumer_offsets`. Times are milliseconds since the
epoch. The bodies of records are ASCII JSON.

In a checkout, the directory `migrations` is next to the package `coordinator_api`. After an installation, `migrations`
is inside this package. The table `schema_support` names the oldest schema version whose release can still use the
present schema. Because of `schema_support`, the coordinators of one database can be upgraded one after the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from coordinator_api.store.store_errors import UnusableDatabase

if TYPE_CHECKING:  # do not import Alembic here, because it is not needed when the schema is up to date
    from alembic.config import Config

VERSION = "0005"
"""The schema version of this release: the newest file in `migrations/versions`."""

OLDEST = "0005"
"""The oldest version that can be brought up to date. From this version on, the names of stored records are fixed."""

metadata = sa.MetaData()

groups = sa.Table(
    "groups",
    metadata,
    sa.Column("group_id", sa.String(249), primary_key=True),
    # the highest sequence number written; a write that expects another number is refused
    sa.Column("sequence", sa.BigInteger, nullable=False),
    # the stored size of the group's log and recorded rebalances
    sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0"),
    # The coordinator that owns the group, or NULL. On SQLite, the owner is always NULL, because only one process uses
    # the file.
    sa.Column("owner", sa.String(64)),
    # increases by one each time the group is taken or handed over; a write with another epoch is refused
    sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),
    # the number of the group's members, from which the group's weight is computed
    sa.Column("members", sa.Integer, nullable=False, server_default="0"),
)

coordinators = sa.Table(
    "coordinators",
    metadata,
    sa.Column("coordinator_id", sa.String(64), primary_key=True),
    # the coordinator's address for other coordinators
    sa.Column("url", sa.Text, nullable=False),
    # incremented by each renewal of the lease; the change shows other coordinators that this coordinator runs
    sa.Column("renewals", sa.BigInteger, nullable=False),
    # the coordinator's `lease.timeout.ms`
    sa.Column("lease_ms", sa.BigInteger, nullable=False),
    sa.Column("release", sa.String(32), nullable=False),
    # True if the coordinator may get groups. False before the coordinator serves and when it stops. The value is also
    # false while the coordinator does not renew this row.
    sa.Column("takes", sa.Boolean, nullable=False),
)

schema_support = sa.Table(
    "schema_support",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    # the oldest schema version whose release can still use this schema
    sa.Column("oldest", sa.String(32), nullable=False),
)

group_records = sa.Table(
    "group_records",
    metadata,
    sa.Column("group_id", sa.ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", sa.Text, nullable=False),
    # computed by `stored_logs.checksum`
    sa.Column("checksum", sa.BigInteger, nullable=False),
    # true if the record is the last record of its transaction
    sa.Column("ends_commit", sa.Boolean, nullable=False),
)

store_checks = sa.Table(
    "store_checks",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    # incremented by each check that the store can be written
    sa.Column("number", sa.BigInteger, nullable=False),
)

rebalances = sa.Table(
    "rebalances",
    metadata,
    sa.Column("group_id", sa.ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("generation_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("now_ms", sa.BigInteger, nullable=False),
    sa.Column("summary", sa.Text, nullable=False),
    # one rebalance/1 document, in the format of `recorded_documents`
    sa.Column("document", sa.LargeBinary, nullable=False),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("right", sa.String(16), nullable=False),
    # the prefix of the group ids that the token is for; empty for all groups
    sa.Column("group_prefix", sa.String(249), nullable=False),
    # SHA-256 of the token, in hexadecimal; the token itself is not stored
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("created_by", sa.String(64), nullable=False),
    sa.Column("expires_ms", sa.BigInteger),
)


def upgrade(connection: sa.Connection) -> tuple[str | None, str]:
    """Bring the schema up to this release's version. The changes are part of the connection's transaction, which the
    caller commits.

    Returns the schema versions before and after the upgrade. A newer schema version that supports this release is left
    unchanged. Raises UnusableDatabase.
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
    """The schema version of the database; None if the database is empty or is not a coordinator's."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def takes_this_release(connection: sa.Connection, version: str | None) -> bool:
    """Returns whether this release runs with the schema of the database. The schema must have this release's version,
    or a newer version whose `schema_support` allows this release.
    """
    if version is None or version <= VERSION or not sa.inspect(connection).has_table(schema_support.name):
        return version == VERSION
    oldest = connection.execute(sa.select(schema_support.c.oldest)).scalar()
    return oldest is not None and oldest <= VERSION


def check_upgradable(connection: sa.Connection, version: str | None) -> None:
    """Raises UnusableDatabase for a database that this release cannot upgrade.

    `version`: the database's schema version, None for a database without a schema version. Call `check_upgradable` if
    `takes_this_release` is False.
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
    """The reason, with a remedy, why this release cannot read a database or a backup of this schema version. The result
    is None if this release can read the version.
    """
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
    """Returns the configuration for `alembic.command`. The caller sets the configuration's attribute `connection`, or
    its attribute `url` by `engine.parse_url`.
    """
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_migrations()).replace("%", "%%"))
    config.attributes["target_metadata"] = metadata
    return config


def _migrations() -> Path:
    package = Path(__file__).parents[1]
    # setup.py installs the scripts inside this package. Inside this package, the scripts do not collide with a
    # top-level `migrations` of another project.
    installed = package / "migrations"
    return installed if installed.is_dir() else package.parent / "migrations"
