"""Does compaction, retention and the deletion of topics, in short steps. Other threads and processes can read and write
between these steps.

Compaction: a pass over a partition first reads the batches that were never compacted. The pass collects the latest
offset of each key in these batches, for a limited number of keys. The pass then reads all batches of the partition in
order, and rewrites each batch that contains superseded records. Each step of a pass reads a few batches without a lock.
The step then replaces these batches in one short transaction, unless the batches have changed. So a pass may end at any
step, even by SIGKILL, and the completed steps stay valid. Only a complete compaction pass moves `cleaned_to`. Only one
process at a time compacts a partition. The process that compacts a partition holds a lease, which expires if the
process dies.

Retention: moving the begin offset hides all expired records at once. The rows of the hidden records are deleted
afterwards, in small steps, so that no writer waits long. The file does not shrink, but SQLite reuses the free pages.

Topics: a deleted topic disappears at once. The rows of a deleted topic are deleted soon afterwards. The deletion of a
topic is one transaction. The transaction deletes the topic's row in the table `topics`. The transaction also changes
the rows of the topic's partitions: `topic` becomes '', and `number` becomes the partition's id. The deletion also hides
all records of the topic, and deletes the committed offsets of the topic. The deletion also fences the claims on the
topic's partitions. So the owners of these claims cannot commit offsets of a later topic with the same name. If the
process that deletes the rows dies, the next `maintain` of any process continues the deletion. Ids of partitions must
not be reused, because other processes may have cached them. The id that SQLite assigns to a new partition is the
highest existing id plus one. So the row with the highest id is kept until a higher id exists.
"""

import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap
from typing import NamedTuple

from assignor.types import TopicPartition
from operating_system.processes import reset_in_children
from streams_runtime.common.clock import Clock
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.cleanup_policy import (
    BatchSummary,
    LatestOffsets,
    Replacement,
    StoredBatch,
    cleaned,
    expired_count,
    head_start,
    is_dirty_enough,
)
from streams_runtime.logs.embedded.connections import SharedConnection
from streams_runtime.logs.embedded.reads_and_writes import EmbeddedWriter, insert_batch
from streams_runtime.logs.embedded.record_batches import EncodedBatch, continues_in_next, decoded, encoded
from streams_runtime.logs.embedded.schema import Catalog, KnownPartition

MAINTENANCE_S = 0.05
"""The approximate duration of one call of `maintain`, in seconds."""

MINIMUM_DIRTY_BYTES = 4 * 1024 * 1024
"""A partition with fewer dirty bytes than MINIMUM_DIRTY_BYTES is not compacted."""

_LEASE_MS = 30_000
_MAX_KEYS = 250_000
_MAX_KEY_BYTES = 32 * 1024 * 1024
_ROWS_READ_A_STEP = 16
_ROWS_DELETED_A_STEP = 64
_PASS_ENDED = object()


class Maintenance:
    """The compaction and retention of one open log, in bounded steps. Any thread may call the methods of `Maintenance`.
    `lock`: a lock that a thread holds while it runs `maintain`.
    """

    def __init__(self, writer: EmbeddedWriter, reads: SharedConnection, catalog: Catalog, clock: Clock) -> None:
        self._writer = writer
        self._reads = reads
        self._catalog = catalog
        self._clock = clock
        self._expired_last = -1
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self.lock = threading.Lock()
        self.cleaner = PartitionCleaner(self._writer, self._reads, self._clock)
        self._steps: Iterator[object] | None = None

    def maintain(self) -> None:
        """Spend about `MAINTENANCE_S` seconds on retention and compaction. Returns at once while another thread runs
        `maintain`.
        """
        if not self.lock.acquire(blocking=False):
            return
        try:
            deadline = time.monotonic() + MAINTENANCE_S
            partitions = self._catalog.all()
            # delete the rows of deleted topics, in case the process that deleted a topic has died
            delete_rows_of_deleted(self._writer, self._reads)
            self._expire_until(deadline, list(partitions.values()))
            self._clean_until(deadline, partitions)
        finally:
            self.lock.release()

    def _expire_until(self, deadline: float, partitions: list[KnownPartition]) -> None:
        """Deletes expired records of one partition after the other until `deadline`. Deletes a limited number of
        records of each partition. Begins after the last partition of the previous call.
        """
        for _ in partitions:
            self._expired_last = (self._expired_last + 1) % len(partitions)
            with self._reads.use() as connection:
                _expire(self._writer, connection, partitions[self._expired_last], self._clock.now_ms())
            if time.monotonic() >= deadline:
                return

    def _clean_until(self, deadline: float, partitions: Mapping[TopicPartition, KnownPartition]) -> None:
        """Runs steps of compaction passes until `deadline`. Always runs at least one step."""
        while True:
            if self._steps is None:
                self._steps = self._dirtiest_pass(partitions)
                if self._steps is None:
                    return
            if next(self._steps, _PASS_ENDED) is _PASS_ENDED:
                self._steps = None
            if time.monotonic() >= deadline:
                return

    def _dirtiest_pass(self, partitions: Mapping[TopicPartition, KnownPartition]) -> Iterator[object] | None:
        found: list[tuple[float, TopicPartition, int]] = []
        for partition, known in partitions.items():
            if known.configs.compacts and self.cleaner.may_be_dirty_enough(known):
                until, dirty, clean = self.cleaner.dirt(known)
                if is_dirty_enough(dirty, clean, known.configs, MINIMUM_DIRTY_BYTES):
                    found.append((dirty / (clean + dirty), partition, until))
        if not found:
            return None
        _, partition, until = max(found)
        return self.cleaner.steps(partition, partitions[partition], until)


class Dirt(NamedTuple):
    """The amount of work for a compaction pass over a partition. `dirty`: the size in bytes of the records that were
    never compacted. `clean`: the size in bytes of the records that are already compacted. `until`: all records from
    this offset on are too new to be compacted.
    """

    until: int
    dirty: int
    clean: int


class PartitionCleaner:
    """Runs the compaction passes of one process."""

    def __init__(self, writer: EmbeddedWriter, reads: SharedConnection, clock: Clock) -> None:
        self._writer = writer
        self._reads = reads
        self._clock = clock
        self._owner = uuid.uuid4().hex

    def dirt(self, known: KnownPartition) -> Dirt:
        with self._reads.use() as connection:
            row = connection.execute(
                "SELECT end_offset, cleaned_to, bytes, dirty_bytes FROM partitions WHERE id=?", (known.id,)
            ).fetchone()
            if row is None:  # the partition was deleted meanwhile
                return Dirt(0, 0, 0)
            end, cleaned_to, size, dirty_size = row
            summaries = list(_summaries(connection, known, cleaned_to))
        until = head_start(summaries, known.configs, self._clock.now_ms(), end)
        return Dirt(until, sum(batch.size for batch in summaries if batch.base_offset < until), size - dirty_size)

    def may_be_dirty_enough(self, known: KnownPartition) -> bool:
        """Returns False if the partition cannot have enough dirty bytes, or if another process holds the lease.
        `may_be_dirty_enough` is cheaper than `dirt`.
        """
        with self._reads.use() as connection:
            row = connection.execute(
                "SELECT bytes, dirty_bytes, cleaner, cleaner_until_ms FROM partitions WHERE id=?", (known.id,)
            ).fetchone()
        if row is None:  # the partition was deleted meanwhile
            return False
        size, dirty, owner, until_ms = row
        taken = owner not in (None, self._owner) and 0 < until_ms - self._clock.now_ms() <= _LEASE_MS
        return not taken and is_dirty_enough(dirty, size - dirty, known.configs, MINIMUM_DIRTY_BYTES)

    def steps(self, partition: TopicPartition, known: KnownPartition, until: int) -> Iterator[None]:
        """Returns an iterator that runs one pass. Each `next` does a short step of the pass. The pass ends early if
        another process has taken the lease.
        """
        # the present time is read once for the whole pass, so that adjacent batches get the same delete horizon
        now_ms = self._clock.now_ms()
        self._take_lease(known)
        latest = LatestOffsets()
        at = self.cleaned_to(known)
        while at < until and len(latest.offsets) < _MAX_KEYS and latest.key_bytes < _MAX_KEY_BYTES:
            for _, records in (batches := self._read(partition, known, at, until)):
                latest.add(records)
            at = batches[-1][0].last_offset + 1 if batches else until
            yield
        map_end, at = at, 0
        while at < map_end and (batches := self._read(partition, known, at, map_end)):
            at = batches[-1][0].last_offset + 1
            replacements = list(cleaned(batches, latest.offsets, known.configs, now_ms))
            if not self._replace(known, replacements):
                return
            yield
        self._finish(known, map_end)

    def _read(self, partition: TopicPartition, known: KnownPartition, offset: int, until: int) -> list[StoredBatch]:
        with self._reads.use() as connection:
            rows = connection.execute(
                "SELECT base_offset, last_offset, max_timestamp_ms, size, delete_horizon_ms, payload FROM batches"
                " WHERE partition=? AND last_offset>=? AND last_offset<? ORDER BY last_offset LIMIT ?",
                (known.id, offset, until, _ROWS_READ_A_STEP),
            ).fetchall()
        batches = []
        for *row, payload in rows:
            records = decoded(partition, row[0], payload)
            batches.append((BatchSummary(*row)._replace(continues=continues_in_next(payload)), records))
        return batches

    def _replace(self, known: KnownPartition, replacements: list[Replacement]) -> bool:
        """Replaces batches. Returns False if another process has the lease. If a batch was deleted meanwhile, it stays
        deleted.
        """
        as_bytes = [  # batches are encoded before the transaction, because other writers wait for the transaction
            None if each.records is None else _encoded(each.records, continues=each.continues) for each in replacements
        ]
        with self._writer.transaction() as connection:
            if not self._extend_lease(connection, known):
                return False
            for (sources, kept, horizon_ms), batch in zip(replacements, as_bytes, strict=True):
                if self._take_out(connection, known, sources) and kept is not None and batch is not None:
                    insert_batch(connection, known.id, batch, kept.offsets[0], kept.offsets[-1], horizon_ms)
            return True

    def _take_out(self, connection: sqlite3.Connection, known: KnownPartition, batches: list[BatchSummary]) -> bool:
        first, last = batches[0].last_offset, batches[-1].last_offset
        there = connection.execute(
            "SELECT COUNT(*) FROM batches WHERE partition=? AND last_offset BETWEEN ? AND ?", (known.id, first, last)
        ).fetchone()[0]
        if there != len(batches):
            return False
        connection.execute(
            "DELETE FROM batches WHERE partition=? AND last_offset BETWEEN ? AND ?", (known.id, first, last)
        )
        return True

    def cleaned_to(self, known: KnownPartition) -> int:
        with self._reads.use() as connection:
            row = connection.execute(
                "SELECT MAX(cleaned_to, begin_offset) FROM partitions WHERE id=?", (known.id,)
            ).fetchone()
        return 0 if row is None else int(row[0])

    def _take_lease(self, known: KnownPartition) -> None:
        with self._writer.transaction() as connection:
            connection.execute(
                "UPDATE partitions SET cleaner=?, cleaner_until_ms=? WHERE id=?",
                (self._owner, self._clock.now_ms() + _LEASE_MS, known.id),
            )

    def _extend_lease(self, connection: sqlite3.Connection, known: KnownPartition) -> bool:
        extended = connection.execute(
            "UPDATE partitions SET cleaner_until_ms=? WHERE id=? AND cleaner=?",
            (self._clock.now_ms() + _LEASE_MS, known.id, self._owner),
        )
        return extended.rowcount == 1

    def _finish(self, known: KnownPartition, cleaned_to: int) -> None:
        """Ends the pass: moves `cleaned_to`, releases the lease, and computes sizes that the steps did not update."""
        with self._writer.transaction() as connection:
            connection.execute(
                "UPDATE partitions SET cleaned_to=MAX(cleaned_to, ?1), cleaner=NULL, cleaner_until_ms=NULL,"
                " bytes=(SELECT COALESCE(SUM(size), 0) FROM batches WHERE partition=?2), dirty_bytes="
                "(SELECT COALESCE(SUM(size), 0) FROM batches WHERE partition=?2 AND last_offset>=MAX(cleaned_to, ?1))"
                " WHERE id=?2 AND cleaner=?3",
                (cleaned_to, known.id, self._owner),
            )


def _encoded(kept: RecordBatch, *, continues: bool) -> EncodedBatch:
    return encoded(kept.timestamps_ms, kept.keys, kept.values, kept.headers, kept.offsets, continues=continues)


def move_begin(connection: sqlite3.Connection, partition_id: int, offset: int) -> None:
    """Raise the begin offset to `offset`, if the begin offset is lower. Call `move_begin` inside a transaction."""
    connection.execute(
        "UPDATE partitions SET begin_offset=MAX(begin_offset, MIN(?, end_offset)) WHERE id=?", (offset, partition_id)
    )


def delete_hidden_rows(connection: sqlite3.Connection, partition_id: int) -> int:
    """Delete a bounded number of rows below the begin offset. Returns the number of deleted rows. Call
    `delete_hidden_rows` inside a transaction.
    """
    rows = connection.execute(
        "SELECT b.rowid, b.size, b.last_offset >= p.cleaned_to FROM partitions p JOIN batches b ON b.partition=p.id"
        " AND b.last_offset < p.begin_offset WHERE p.id=? ORDER BY b.last_offset LIMIT ?",
        (partition_id, _ROWS_DELETED_A_STEP),
    ).fetchall()
    connection.executemany("DELETE FROM batches WHERE rowid=?", [(row[0],) for row in rows])
    size, dirty = sum(row[1] for row in rows), sum(row[1] for row in rows if row[2])
    connection.execute(
        "UPDATE partitions SET bytes=bytes-?, dirty_bytes=dirty_bytes-? WHERE id=?", (size, dirty, partition_id)
    )
    return len(rows)


def _has_hidden_rows(connection: sqlite3.Connection, partition_id: int) -> bool:
    row = connection.execute(
        "SELECT 1 FROM partitions p JOIN batches b ON b.partition=p.id AND b.last_offset < p.begin_offset"
        " WHERE p.id=? LIMIT 1",
        (partition_id,),
    ).fetchone()
    return row is not None


def _expire(writer: EmbeddedWriter, read: sqlite3.Connection, known: KnownPartition, now_ms: int) -> None:
    """Deletes a limited number of expired records of one partition."""
    offset = _begin_after_retention(read, known, now_ms)
    if offset is None and not _has_hidden_rows(read, known.id):
        return
    with writer.transaction() as connection:
        if offset is not None:
            move_begin(connection, known.id, offset)
        delete_hidden_rows(connection, known.id)


def _begin_after_retention(read: sqlite3.Connection, known: KnownPartition, now_ms: int) -> int | None:
    """Returns a new begin offset, which hides up to `_ROWS_DELETED_A_STEP` expired batches. Returns None if no batch
    has expired.
    """
    configs = known.configs
    if not configs.deletes or (configs.retention_ms < 0 and configs.retention_bytes < 0):
        return None
    row = read.execute("SELECT begin_offset, end_offset, bytes FROM partitions WHERE id=?", (known.id,)).fetchone()
    if row is None:  # the partition was deleted meanwhile
        return None
    begin, end, size = row
    oldest = list(_summaries(read, known, begin, _ROWS_DELETED_A_STEP + 1))
    count = expired_count(
        oldest, size, configs, now_ms=now_ms, newest_ms=lambda: _newest_timestamp_ms(read, known, begin)
    )
    count = min(_ROWS_DELETED_A_STEP, count)
    if not count:
        return None
    return oldest[count].base_offset if count < len(oldest) else end


def _summaries(read: sqlite3.Connection, known: KnownPartition, offset: int, most: int = -1) -> Iterator[BatchSummary]:
    """Reads the batches from `offset` on, in order. `most`: the largest number of batches to read; -1 for no limit."""
    rows = read.execute(
        "SELECT base_offset, last_offset, max_timestamp_ms, size, delete_horizon_ms FROM batches"
        " WHERE partition=? AND last_offset>=? ORDER BY last_offset LIMIT ?",
        (known.id, offset, most),
    )
    return starmap(BatchSummary, rows)


def _newest_timestamp_ms(read: sqlite3.Connection, known: KnownPartition, begin: int) -> int:
    newest: int = read.execute(
        "SELECT COALESCE(MAX(max_timestamp_ms), 0) FROM batches WHERE partition=? AND last_offset>=?", (known.id, begin)
    ).fetchone()[0]
    return newest


def delete_topics(connection: sqlite3.Connection, names: Iterable[str]) -> None:
    """Deletes topics and hides their records. `delete_rows_of_deleted` later deletes the rows. Call `delete_topics`
    inside a transaction.
    """
    for name in names:
        connection.execute("DELETE FROM topics WHERE name=?", (name,))
        connection.execute("UPDATE partitions SET topic='', number=id, begin_offset=end_offset WHERE topic=?", (name,))
        connection.execute(
            "UPDATE group_offsets SET committed_offset=NULL, metadata='', claim_epoch=claim_epoch+1 WHERE topic=?",
            (name,),
        )


def delete_rows_of_deleted(writer: EmbeddedWriter, reads: SharedConnection) -> bool:
    """Deletes a bounded number of rows of deleted topics. Returns True if there may be more rows."""
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
