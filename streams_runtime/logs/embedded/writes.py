"""Writes of producers to the file, and the transaction that every writer uses.

Rules: records, group offsets and the checks of producers and claims are one SQLite transaction. So a process that dies
at any moment has written all or nothing, and a fenced one writes nothing. Offsets are given inside of it. The
write-ahead log is emptied when it has grown beyond 64 MiB, because overlapping readers could otherwise keep SQLite from
emptying it for ever.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from assignor.types import TopicPartition
from streams_runtime.logs.base import OffsetsToCommit
from streams_runtime.logs.embedded.connections import LazyConnection, Synchronous, WriteLock, as_log_errors
from streams_runtime.logs.embedded.record_batches import EncodedBatch, encoded
from streams_runtime.logs.embedded.schema import Catalog
from streams_runtime.logs.log_errors import UnknownTopicOrPartition
from streams_runtime.logs.producers import AppendSignals, NewBatch, ProducerIdentity, check_claim, check_identity
from streams_runtime.logs.record_limits import RecordLimits

_logger = logging.getLogger(__name__)
_LARGEST_WAL_BYTES = 64 * 1024 * 1024
_CHECKPOINT_WAIT_MS = 100


class EmbeddedWriter:
    """The one connection by which a process writes. Only one can write at a time anyway."""

    def __init__(self, file: Path, lock: WriteLock, timeout_ms: int, synchronous: Synchronous) -> None:
        self._lock = lock
        self._timeout_ms = timeout_ms
        self._connection = LazyConnection(file, timeout_ms, synchronous)
        self._write_ahead_log = file.with_name(f"{file.name}-wal")
        self._empty_at_bytes = _LARGEST_WAL_BYTES

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything inside happens or, after an error, nothing. Raises LogTimeout, LogError."""
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
        """Never raises: the transaction is committed, and after an error the caller would write it again."""
        try:
            size = os.stat(self._write_ahead_log).st_size
            if size <= self._empty_at_bytes:
                return
            # a reader that hangs must not stop the writers
            connection.execute(f"PRAGMA busy_timeout={_CHECKPOINT_WAIT_MS}")
            try:
                in_the_way = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                connection.execute(f"PRAGMA busy_timeout={self._timeout_ms}")
            self._empty_at_bytes = _LARGEST_WAL_BYTES + (size if in_the_way else 0)
        except (sqlite3.Error, OSError) as error:
            _logger.warning("the write-ahead log %s could not be emptied: %s", self._write_ahead_log, error)


class EmbeddedDestination:
    """The `Destination` of all producers of one log."""

    def __init__(self, writer: EmbeddedWriter, catalog: Catalog, signals: AppendSignals) -> None:
        self._writer = writer
        self._catalog = catalog
        self._signals = signals

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        return self._catalog.find([partition])[partition].configs.record_limits

    def append(
        self,
        batches: Mapping[TopicPartition, Sequence[NewBatch]],
        offsets: OffsetsToCommit,
        identity: ProducerIdentity | None,
    ) -> dict[TopicPartition, int]:
        as_bytes = {  # before the transaction: other writers wait for that
            partition: [encoded(batch.timestamps_ms, batch.keys, batch.values, batch.headers) for batch in of_it]
            for partition, of_it in batches.items()
        }
        last_offsets = self._catalog.current(lambda: self._append(as_bytes, offsets, identity))
        if last_offsets:
            self._signals.appended()
        return last_offsets

    def _append(
        self,
        batches: Mapping[TopicPartition, Sequence[EncodedBatch]],
        offsets: OffsetsToCommit,
        identity: ProducerIdentity | None,
    ) -> dict[TopicPartition, int]:
        known = self._catalog.find(batches)
        with self._writer.transaction() as connection:
            _check(connection, offsets, identity)
            last_offsets = {
                partition: _append(connection, partition, known[partition].id, of_it)
                for partition, of_it in batches.items()
            }
            _move_offsets(connection, offsets)
        return last_offsets


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


def _append(
    connection: sqlite3.Connection, partition: TopicPartition, partition_id: int, batches: Sequence[EncodedBatch]
) -> int:
    """Gives the offset of the last record. Raises UnknownTopicOrPartition when the partition was deleted."""
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


def _check(connection: sqlite3.Connection, offsets: OffsetsToCommit, identity: ProducerIdentity | None) -> None:
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


def _move_offsets(connection: sqlite3.Connection, offsets: OffsetsToCommit) -> None:
    connection.executemany(
        "UPDATE group_offsets SET committed_offset=?, metadata=? WHERE group_id=? AND topic=? AND number=?",
        [
            (committed.offset, committed.metadata, claim.group_id, *partition)
            for claim, moved in offsets
            for partition, committed in moved.items()
        ],
    )
