"""Deletes what nobody may read any more: records below the begin offset, and those past their retention.

Rule: moving the begin offset hides records, all at once. Their rows are deleted after that in bounded steps, so that no
writer waits long. The file does not shrink: SQLite reuses the pages.
"""

from __future__ import annotations

import sqlite3
from itertools import islice

from streams_runtime.logs.cleanup_policy import BatchSummary, expired_count
from streams_runtime.logs.embedded.catalog import KnownPartition
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
        "SELECT base_offset, last_offset, max_timestamp_ms, size FROM batches WHERE partition=? AND last_offset>=?"
        " ORDER BY last_offset",
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
