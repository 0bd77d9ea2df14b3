"""Topics that are deleted: gone at once, and their rows soon after that.

Rules: one transaction takes the topic's name away, from its partitions too (their topic becomes '', their number their
own id), hides all of their records, and forgets every group's offsets of them. A claim of such a partition is fenced,
so its owner commits nothing to a topic of the same name that is made later. The rows are deleted in bounded steps, so
that no writer waits long; when the deleter dies, `maintain` of any process goes on. Ids of partitions are never given
again, because others may still know them: SQLite gives the highest id plus one, so the row with the highest id stays.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from streams_runtime.logs.embedded.connections import SharedConnection
from streams_runtime.logs.embedded.expiry import delete_hidden_rows
from streams_runtime.logs.embedded.writes import EmbeddedWriter


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
