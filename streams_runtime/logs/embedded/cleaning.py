"""Compaction of the file's changelogs, in steps, while others read and write.

Rules: a pass over a partition first learns the latest offset of every key in the batches that were never compacted (of
a limited number of keys). Then it goes over all batches from the first, and rewrites those that hold superseded
records. Each step reads without a lock and replaces its few batches in one short transaction, if they have not changed.
So a pass can end anywhere, at SIGKILL too, and what it has done is right. Only a complete pass moves `cleaned_to`. One
process at a time works on a partition: it holds a lease, which runs out when the process dies.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from assignor.types import TopicPartition
from streams_runtime.common.clock import Clock
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.cleanup_policy import BatchSummary, LatestOffsets, Replacement, cleaned, head_start
from streams_runtime.logs.embedded.connections import SharedConnection
from streams_runtime.logs.embedded.record_batches import decoded, encoded
from streams_runtime.logs.embedded.schema import KnownPartition
from streams_runtime.logs.embedded.writes import EmbeddedWriter, insert_batch

_LEASE_MS = 30_000
_MAX_KEYS = 250_000
_MAX_KEY_BYTES = 32 * 1024 * 1024
_ROWS_A_STEP = 16


@dataclass(frozen=True, slots=True)
class Dirt:
    """How much of a partition compaction could look at, in bytes. `until`: the offset at which the head begins."""

    until: int
    dirty: int
    clean: int

    def is_enough(self, known: KnownPartition, minimum_bytes: int) -> bool:
        ratio = known.configs.min_cleanable_dirty_ratio
        return self.dirty >= max(1, minimum_bytes) and self.dirty >= ratio * (self.clean + self.dirty)


class PartitionCleaner:
    """Runs the passes of one process."""

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
            if row is None:  # deleted since
                return Dirt(0, 0, 0)
            end, cleaned_to, size, dirty_size = row
            rows = connection.execute(
                "SELECT base_offset, last_offset, max_timestamp_ms, size, delete_horizon_ms FROM batches"
                " WHERE partition=? AND last_offset>=? ORDER BY last_offset",
                (known.id, cleaned_to),
            ).fetchall()
        summaries = list(map(BatchSummary._make, rows))
        until = head_start(summaries, known.configs, self._clock.now_ms(), end)
        return Dirt(until, sum(batch.size for batch in summaries if batch.base_offset < until), size - dirty_size)

    def may_be_dirty_enough(self, known: KnownPartition, minimum_bytes: int) -> bool:
        """A cheap first check: whether `dirt` could be enough, and no other process works on the partition."""
        with self._reads.use() as connection:
            row = connection.execute(
                "SELECT bytes, dirty_bytes, cleaner, cleaner_until_ms FROM partitions WHERE id=?", (known.id,)
            ).fetchone()
        if row is None:  # deleted since
            return False
        size, dirty, owner, until_ms = row
        taken = owner not in (None, self._owner) and 0 < until_ms - self._clock.now_ms() <= _LEASE_MS
        return not taken and dirty >= max(1, minimum_bytes) and dirty >= known.configs.min_cleanable_dirty_ratio * size

    def steps(self, partition: TopicPartition, known: KnownPartition, until: int) -> Iterator[None]:
        """One pass. Each `next` does a short step. Ends early when another process has taken over."""
        now_ms = self._clock.now_ms()  # one time for the whole pass, so that neighbours get the same horizon
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

    def _read(
        self, partition: TopicPartition, known: KnownPartition, offset: int, until: int
    ) -> list[tuple[BatchSummary, RecordBatch]]:
        with self._reads.use() as connection:
            rows = connection.execute(
                "SELECT base_offset, last_offset, max_timestamp_ms, size, delete_horizon_ms, payload FROM batches"
                " WHERE partition=? AND last_offset>=? AND last_offset<? ORDER BY last_offset LIMIT ?",
                (known.id, offset, until, _ROWS_A_STEP),
            ).fetchall()
        return [(BatchSummary(*row), decoded(partition, row[0], payload)) for *row, payload in rows]

    def _replace(self, known: KnownPartition, replacements: list[Replacement]) -> bool:
        """False when another process has the lease. Batches that were deleted meanwhile stay deleted."""
        as_bytes = [  # before the transaction: other writers wait for that
            None if kept is None else encoded(kept.timestamps_ms, kept.keys, kept.values, kept.headers, kept.offsets)
            for _, kept, _ in replacements
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
        """Also counts the sizes again, which the steps did not change."""
        with self._writer.transaction() as connection:
            connection.execute(
                "UPDATE partitions SET cleaned_to=MAX(cleaned_to, ?1), cleaner=NULL, cleaner_until_ms=NULL,"
                " bytes=(SELECT COALESCE(SUM(size), 0) FROM batches WHERE partition=?2), dirty_bytes="
                "(SELECT COALESCE(SUM(size), 0) FROM batches WHERE partition=?2 AND last_offset>=MAX(cleaned_to, ?1))"
                " WHERE id=?2 AND cleaner=?3",
                (cleaned_to, known.id, self._owner),
            )
