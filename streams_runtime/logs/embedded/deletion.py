"""Deletes what nobody may read any more: records below the begin offset, those past their retention, and topics.

Moving the begin offset hides records, all at once. Their rows are deleted after that in bounded steps, so that no
writer waits long. The file does not shrink: SQLite reuses the pages.

A topic is deleted at once, and its rows soon after that: one transaction takes the topic's name away, from its
partitions too (their topic becomes '', their number their own id), hides all of their records, and forgets every
group's offsets of them. A claim of such a partition is fenced, so its owner commits nothing to a topic of the same name
that is made later. When the process that deletes the rows dies, `maintain` of any process goes on. Ids of partitions
are never given again, because others may still know them: SQLite gives the highest id plus one, so the row with the
highest id stays.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from itertools import islice

from streams_runtime.logs.cleanup_policy import BatchSummary, expired_count
from streams_runtime.logs.embedded.connections import SharedConnection
from streams_runtime.logs.embedded.schema import KnownPartition
from streams_runtime.logs.embedded.writes import EmbeddedWriter

ROWS_A_STEP = 64


def move_begin(connection: sqlite3.Connection, partition_id: int, offset: int) -> None:
    """Move it up, never down. Called inside a transaction."""
    connection.execute(
        "UPDATE partitions SET begin_offset=MAX(begin_offset, MIN(?, end_offset)) WHERE id=?", (offset, partition_id)
    )


def delete_hidden_rows(connection: sqlite3.Connection, partition_id: int) -> int:
    """Delete a bounded number of rows below the begin offset, and give their number. Called inside a transaction."""
    rows = connection.execute(
        "SELECT b.rowid, b.size, b.last_offset >= p.cleaned_to FROM partitions p JOIN batches b ON b.partition=p.id"
        " AND b.last_offset < p.begin_offset WHERE p.id=? ORDER BY b.last_offset LIMIT ?",
        (partition_id, ROWS_A_STEP),
    ).fetchall()
    connection.executemany("DELETE FROM batches WHERE rowid=?", [(row[0],) for row in rows])
    size, dirty = sum(row[1] for row in rows), sum(row[1] for row in rows if row[2])
    connection.execute(
        "UPDATE partitions SET bytes=bytes-?, dirty_bytes=dirty_bytes-? WHERE id=?", (size, dirty, partition_id)
    )
    return len(rows)


def has_hidden_rows(connection: sqlite3.Connection, partition_id: int) -> bool:
    row = connection.execute(
        "SELECT 1 FROM partitions p JOIN batches b ON b.partition=p.id AND b.last_offset < p.begin_offset"
        " WHERE p.id=? LIMIT 1",
        (partition_id,),
    ).fetchone()
    return row is not None


def expire(writer: EmbeddedWriter, read: sqlite3.Connection, known: KnownPartition, now_ms: int) -> bool:
    """One step for one partition. True when there was anything to do."""
    offset = _begin_after_retention(read, known, now_ms)
    if offset is None and not has_hidden_rows(read, known.id):
        return False
    with writer.transaction() as connection:
        if offset is not None:
            move_begin(connection, known.id, offset)
        delete_hidden_rows(connection, known.id)
    return True


def _begin_after_retention(read: sqlite3.Connection, known: KnownPartition, now_ms: int) -> int | None:
    """The begin offset after one more step. None: it stays."""
    configs = known.configs
    if not configs.deletes or (configs.retention_ms < 0 and configs.retention_bytes < 0):
        return None
    row = read.execute("SELECT begin_offset, end_offset, bytes FROM partitions WHERE id=?", (known.id,)).fetchone()
    if row is None:  # deleted since
        return None
    begin, end, size = row
    rows = read.execute(
        "SELECT base_offset, last_offset, max_timestamp_ms, size, delete_horizon_ms FROM batches"
        " WHERE partition=? AND last_offset>=? ORDER BY last_offset",
        (known.id, begin),
    )
    oldest = list(islice(map(BatchSummary._make, rows), ROWS_A_STEP + 1))
    rows.close()
    count = expired_count(
        oldest, size, configs, now_ms=now_ms, newest_ms=lambda: _newest_timestamp_ms(read, known, begin)
    )
    count = min(ROWS_A_STEP, count)
    if not count:
        return None
    return oldest[count].base_offset if count < len(oldest) else end


def _newest_timestamp_ms(read: sqlite3.Connection, known: KnownPartition, begin: int) -> int:
    row = read.execute(
        "SELECT MAX(max_timestamp_ms) FROM batches WHERE partition=? AND last_offset>=?", (known.id, begin)
    ).fetchone()
    return 0 if row[0] is None else int(row[0])


def delete_topics(connection: sqlite3.Connection, names: Iterable[str]) -> None:
    """Called inside a transaction."""
    for name in names:
        connection.execute("DELETE FROM topics WHERE name=?", (name,))
        connection.execute(
            "UPDATE partitions SET topic='', number=id, begin_offset=end_offset WHERE topic=?",
            (name,),
        )
        connection.execute(
            "UPDATE group_offsets SET committed_offset=NULL, metadata='', claim_epoch=claim_epoch+1 WHERE topic=?",
            (name,),
        )


def delete_rows_of_deleted(writer: EmbeddedWriter, reads: SharedConnection) -> bool:
    """One step. True when there may be more to do."""
    with reads.use() as connection:
        row = connection.execute(
            "SELECT id FROM partitions WHERE topic='' AND (id<(SELECT MAX(id) FROM partitions)"
            " OR EXISTS (SELECT 1 FROM batches WHERE partition=partitions.id)) LIMIT 1"
        ).fetchone()
    if row is None:
        return False
    with writer.transaction() as connection:
        if not delete_hidden_rows(connection, row[0]):
            connection.execute(
                "DELETE FROM partitions WHERE id=? AND topic='' AND id<(SELECT MAX(id) FROM partitions)", row
            )
    return True
