"""The tables: a group's log of records, its sequence number, its owner, its recorded rebalances, and who may call.

A group is what its records replay to, so nothing else about a group is stored, but for which coordinator writes it.
Kafka keeps the same records in `__consumer_offsets`. Times are milliseconds since the epoch; bodies are ASCII JSON.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Integer, LargeBinary, MetaData, String, Table, Text

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
