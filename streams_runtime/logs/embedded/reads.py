"""Reads of the file by consumers, and their wait for new records.

Rules: a poll reads inside one read transaction, so bounds and batches belong to the same moment. Batches are read one
row at a time, so a topic of any size needs the memory of one batch. A waiting consumer learns at once of appends in its
own process; of appends in other processes it learns by `PRAGMA data_version`, which it reads after 1 ms, and then in
pauses that double up to 16 ms. That number changes with each commit of another connection, and a consumer's own
connection never writes. So as long as the number stays, the file is as it was at the last snapshot, and the next
snapshot has the same bounds. A poll of 1,000 records that does not read them again takes a tenth less CPU.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from assignor.types import TopicPartition
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.embedded.connections import LazyConnection, as_log_errors
from streams_runtime.logs.embedded.record_batches import decoded
from streams_runtime.logs.embedded.schema import Catalog, KnownPartition
from streams_runtime.logs.log_errors import UnknownTopicOrPartition
from streams_runtime.logs.polling_consumer import Bounds, first_offset_at

_FIRST_PAUSE_S = 0.001
# An idle instance with 4 threads takes 4 % of a core with this pause, and 8 % with one of 5 ms. After each read the
# pauses begin with the first one again.
_LONGEST_PAUSE_S = 0.016


class EmbeddedSource:
    """The `BatchSource` of one consumer."""

    def __init__(self, connection: LazyConnection, catalog: Catalog) -> None:
        self._connection = connection
        self._catalog = catalog
        # of the last snapshot
        self._seen: tuple[sqlite3.Connection, int] | None = None  # versions of two connections cannot be compared
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
        """Raises UnknownTopicOrPartition; then no transaction is open."""
        connection.execute("BEGIN")
        try:
            seen = connection, _data_version(connection)  # the first read, so the snapshot is of this version
            if seen != self._seen or any(partition not in self._bounds for partition in partitions):
                known = self._catalog.find(partitions)
                bounds = bounds_of(connection, known)
                self._seen, self._known, self._bounds = seen, known, bounds  # together: both reads can fail
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


class EmbeddedSnapshot:
    def __init__(
        self,
        connection: sqlite3.Connection,
        known: Mapping[TopicPartition, KnownPartition],
        bounds: Mapping[TopicPartition, Bounds],
    ) -> None:
        self._connection = connection
        self._known = known
        self.bounds = bounds
        self._cursors: list[sqlite3.Cursor] = []

    def batches(self, partition: TopicPartition, offset: int) -> Iterator[RecordBatch]:
        cursor = self._connection.execute(
            "SELECT base_offset, payload FROM batches WHERE partition=? AND last_offset>=? ORDER BY last_offset",
            (self._known[partition].id, offset),
        )
        self._cursors.append(cursor)
        return (decoded(partition, base_offset, payload) for base_offset, payload in cursor)

    def close(self) -> None:
        for cursor in self._cursors:  # a statement that is not at its end would keep the snapshot open
            cursor.close()


def bounds_of(
    connection: sqlite3.Connection, known: Mapping[TopicPartition, KnownPartition]
) -> dict[TopicPartition, Bounds]:
    """Without partitions the file is not read. Raises UnknownTopicOrPartition for one that was deleted since."""
    if not known:
        return {}
    ids = [of_it.id for of_it in known.values()]
    rows = connection.execute(
        f"SELECT id, begin_offset, end_offset FROM partitions WHERE id IN ({','.join('?' * len(ids))}) AND topic<>''",  # noqa: S608
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
    """The lowest offset, from `begin` on, whose record has this timestamp or a later one."""
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
