"""The tables: a group's log of records, its sequence number, and its recorded rebalances.

A group is what its records replay to, so nothing else about a group is stored. Kafka keeps the same records in
`__consumer_offsets`. Times are milliseconds since the epoch; bodies are ASCII JSON.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, LargeBinary, MetaData, String, Table, Text

metadata = MetaData()

groups = Table(
    "groups",
    metadata,
    Column("group_id", String(249), primary_key=True),
    # the highest sequence number written; a writer that expects another one is refused
    Column("sequence", BigInteger, nullable=False),
)

group_records = Table(
    "group_records",
    metadata,
    Column("group_id", ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    # `stored_logs.checksum`; NULL in rows of earlier releases
    Column("checksum", BigInteger),
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
    # one rebalance/1 document, packed; gzip in rows of earlier releases
    Column("document", LargeBinary, nullable=False),
)
