"""Implements the reads of consumers, the writes of producers, and the transaction that every writer uses.

Rules of writes: one SQLite transaction checks the producer and its claims, and writes the records and group offsets. So
if a process dies during a write, it has written either the whole transaction or nothing. A fenced producer writes
nothing. Offsets of records are assigned inside the transaction. A writer empties the write-ahead log when the
write-ahead log has more than 64 MiB. SQLite alone would empty the write-ahead log only when no reader is active. If
reads overlap, there may always be an active reader.

Rules of reads: a poll reads inside one read transaction, so bounds and batches belong to the same moment. A reader
loads only one batch at a time into memory. An append in the same process wakes a waiting consumer at once. To notice
appends of other processes, the consumer reads `PRAGMA data_version` in a loop. The first pause is 1 ms. Each next pause
is twice as long, up to 16 ms. The data version changes with each commit of another connection, and a consumer's own
connection never writes. So if the data version is the same, the file has not changed since the last snapshot. While the
file has not changed, the bounds of the partitions are not read again. If a poll of 1,000 records does not read the
bounds, it uses a tenth less CPU time.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from assignor.types import TopicPartition
from streams_runtime.logs.base import OffsetsToCommit, RecordBatch
from streams_runtime.logs.consumers import Bounds, first_offset_at
from streams_runtime.logs.embedded.connections import LazyConnection, Synchronous, WriteLock, as_log_errors
from streams_runtime.logs.embedded.record_batches import EncodedBatch, continues_in_next, decoded
from streams_runtime.logs.embedded.schema import Catalog, KnownPartition
from streams_runtime.logs.log_errors import UnknownTopicOrPartition
from streams_runtime.logs.producers import ProducerIdentity, check_claim, check_identity

_logger = logging.getLogger(__name__)
_LARGEST_WAL_BYTES = 64 * 1024 * 1024
_CHECKPOINT_WAIT_MS = 100
_FIRST_PAUSE_S = 0.001
# An idle instance with 4 threads takes 4 % of a core if the longest pause is 16 ms, and 8 % if the longest pause is 5
# ms. Each time a consumer waits for records, its first pause is _FIRST_PAUSE_S.
_LONGEST_PAUSE_S = 0.016


class EmbeddedWriter:
    """The connection for all writes of a process. One connection is enough, because SQLite admits only one writer at a
    time.
    """

    def __init__(self, file: Path, lock: WriteLock, timeout_ms: int, synchronous: Synchronous) -> None:
        self._lock = lock
        self._timeout_ms = timeout_ms
        self._connection = LazyConnection(file, timeout_ms, synchronous)
        self._write_ahead_log = file.with_name(f"{file.name}-wal")
        self._empty_at_bytes = _LARGEST_WAL_BYTES

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Runs the `with` block in one transaction, which an error rolls back. Raises LogTimeout, LogError."""
        with self._lock.held(), as_log_errors(self._connection.file):
            connection = self._connection.get()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            self._empty_write_ahead_log(connection)

    def close(self) -> None:
        with self._lock.held():
            self._connection.close()

    def _empty_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        """Raises no error. The transaction is already committed. If the caller got an error, it would repeat a finished
        write.
        """
        try:
            size = os.stat(self._write_ahead_log).st_size
            if size <= self._empty_at_bytes:
                return
            # this statement waits only briefly for readers: a hanging reader must not block the writers
            connection.execute(f"PRAGMA busy_timeout={_CHECKPOINT_WAIT_MS}")
            try:
                in_the_way = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                connection.execute(f"PRAGMA busy_timeout={self._timeout_ms}")
            # if a reader has prevented this checkpoint, the next attempt comes only after another 64 MiB
            self._empty_at_bytes = _LARGEST_WAL_BYTES + (size if in_the_way else 0)
        except (sqlite3.Error, OSError) as error:
            _logger.warning("the write-ahead log %s could not be emptied: %s", self._write_ahead_log, error)


def insert_batch(
    connection: sqlite3.Connection,
    partition_id: int,
    batch: EncodedBatch,
    base_offset: int,
    last_offset: int,
    delete_horizon_ms: int | None = None,
) -> None:
    connection.execute(
        "INSERT INTO batches (partition, base_offset, last_offset, record_count, max_timestamp_ms, delete_horizon_ms,"
        " size, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (partition_id, base_offset, last_offset, batch.record_count, batch.max_timestamp_ms, delete_horizon_ms,
         len(batch.payload), batch.payload),
    )  # fmt: skip


def append_batches(
    connection: sqlite3.Connection, partition: TopicPartition, partition_id: int, batches: Sequence[EncodedBatch]
) -> int:
    """Returns the offset of the last record. Raises UnknownTopicOrPartition if the partition was deleted."""
    row = connection.execute("SELECT end_offset FROM partitions WHERE id=? AND topic<>''", (partition_id,)).fetchone()
    if row is None:
        raise UnknownTopicOrPartition(f"there is no partition {partition}")
    end: int = row[0]
    size = 0
    for batch in batches:
        insert_batch(connection, partition_id, batch, end, end + batch.record_count - 1)
        end += batch.record_count
        size += len(batch.payload)
    connection.execute(
        "UPDATE partitions SET end_offset=?, bytes=bytes+?, dirty_bytes=dirty_bytes+? WHERE id=?",
        (end, size, size, partition_id),
    )
    return end - 1


def check_writer(connection: sqlite3.Connection, offsets: OffsetsToCommit, identity: ProducerIdentity | None) -> None:
    if identity is not None:
        row = connection.execute(
            "SELECT epoch FROM producers WHERE transactional_id=?", (identity.transactional_id,)
        ).fetchone()
        check_identity(identity, None if row is None else row[0])

    for claim, _ in offsets:
        current = {}
        for partition in claim.epochs:
            found = connection.execute(
                "SELECT claim_epoch FROM group_offsets WHERE group_id=? AND topic=? AND number=?",
                (claim.group_id, *partition),
            ).fetchone()
            if found is not None:
                current[partition] = found[0]
        check_claim(claim, current)


def move_offsets(connection: sqlite3.Connection, offsets: OffsetsToCommit) -> None:
    connection.executemany(
        "UPDATE group_offsets SET committed_offset=?, metadata=? WHERE group_id=? AND topic=? AND number=?",
        [
            (committed.offset, committed.metadata, claim.group_id, *partition)
            for claim, moved in offsets
            for partition, committed in moved.items()
        ],
    )


class EmbeddedSource:
    """The `BatchSource` of one consumer."""

    def __init__(self, connection: LazyConnection, catalog: Catalog) -> None:
        self._connection = connection
        self._catalog = catalog
        # The values of the last snapshot. `_seen` is a connection and the data version that this connection has read.
        # The connection is needed because data versions of different connections cannot be compared.
        self._seen: tuple[sqlite3.Connection, int] | None = None
        self._known: Mapping[TopicPartition, KnownPartition] = {}
        self._bounds: Mapping[TopicPartition, Bounds] = {}

    @contextmanager
    def snapshot(self, partitions: Sequence[TopicPartition]) -> Iterator[EmbeddedSnapshot]:
        with as_log_errors(self._connection.file):
            connection = self._connection.get()
            snapshot = self._catalog.current(lambda: self._begun(connection, partitions))
            try:
                yield snapshot
            finally:
                snapshot.close()
                connection.execute("COMMIT")

    def _begun(self, connection: sqlite3.Connection, partitions: Sequence[TopicPartition]) -> EmbeddedSnapshot:
        """Begins a read transaction. If it raises UnknownTopicOrPartition, no transaction is open afterwards."""
        connection.execute("BEGIN")
        try:
            seen = connection, _data_version(connection)  # the first read of a transaction fixes its snapshot
            if seen != self._seen or any(partition not in self._bounds for partition in partitions):
                known = self._catalog.find(partitions)
                bounds = bounds_of(connection, known)
                # The three values are set only after all reads have succeeded. So a failed read leaves the old values
                # consistent.
                self._seen, self._known, self._bounds = seen, known, bounds
            return EmbeddedSnapshot(connection, self._known, self._bounds)
        except BaseException:
            connection.execute("COMMIT")
            raise

    def is_unchanged(self) -> bool:
        with as_log_errors(self._connection.file):
            return self._is_unchanged(self._connection.get())

    def wait(self, signal: threading.Event, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        pause_s = _FIRST_PAUSE_S
        with as_log_errors(self._connection.file):
            connection = self._connection.get()
            while (remaining_s := deadline - time.monotonic()) > 0:
                if signal.wait(min(pause_s, remaining_s)):
                    return
                if not self._is_unchanged(connection):
                    return
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _is_unchanged(self, connection: sqlite3.Connection) -> bool:
        return self._seen == (connection, _data_version(connection))

    def close(self) -> None:
        self._connection.close()


@dataclass(eq=False, repr=False)
class EmbeddedSnapshot:
    _connection: sqlite3.Connection
    _known: Mapping[TopicPartition, KnownPartition]
    bounds: Mapping[TopicPartition, Bounds]
    _cursors: list[sqlite3.Cursor] = field(default_factory=list, init=False)

    def batches(self, partition: TopicPartition, offset: int) -> Iterator[tuple[RecordBatch, bool]]:
        cursor = self._connection.execute(
            "SELECT base_offset, payload FROM batches WHERE partition=? AND last_offset>=? ORDER BY last_offset",
            (self._known[partition].id, offset),
        )
        self._cursors.append(cursor)
        return (
            (decoded(partition, base_offset, payload), continues_in_next(payload)) for base_offset, payload in cursor
        )

    def close(self) -> None:
        for cursor in self._cursors:  # an unfinished statement would keep the snapshot open
            cursor.close()


def bounds_of(
    connection: sqlite3.Connection, known: Mapping[TopicPartition, KnownPartition]
) -> dict[TopicPartition, Bounds]:
    """Reads the bounds of partitions. If there are no partitions, the file is not read. Raises UnknownTopicOrPartition
    for a partition that was deleted meanwhile.
    """
    if not known:
        return {}
    ids = [of_it.id for of_it in known.values()]
    rows = connection.execute(
        "SELECT id, begin_offset, end_offset FROM partitions"  # noqa: S608
        f" WHERE id IN ({','.join('?' * len(ids))}) AND topic<>''",
        ids,
    )
    by_id = {partition_id: Bounds(begin, end) for partition_id, begin, end in rows}
    deleted = [partition for partition, of_it in known.items() if of_it.id not in by_id]
    if deleted:
        raise UnknownTopicOrPartition(f"there is no partition {', '.join(map(str, deleted))}")
    return {partition: by_id[of_it.id] for partition, of_it in known.items()}


def first_offset_since(
    connection: sqlite3.Connection, partition: TopicPartition, known: KnownPartition, begin: int, timestamp_ms: int
) -> int | None:
    """Returns the lowest offset, from `begin` on, of a record with this timestamp or a later timestamp. Returns None if
    there is no such record.
    """
    cursor = connection.execute(
        "SELECT base_offset, payload FROM batches WHERE partition=? AND last_offset>=? AND max_timestamp_ms>=?"
        " ORDER BY last_offset",
        (known.id, begin, timestamp_ms),
    )
    try:
        batches = (decoded(partition, base_offset, payload) for base_offset, payload in cursor)
        return first_offset_at(batches, begin, timestamp_ms)
    finally:
        cursor.close()


def _data_version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return version
