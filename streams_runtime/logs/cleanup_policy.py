"""Selects the records that stay in the log under a topic's `cleanup.policy`. The embedded log and the in-memory log
share the functions of this module, which do no I/O.

Policy `compact`: for each key, only the latest record stays. Compaction does not change the offsets of records, so it
leaves gaps. The last batch is never compacted. The newest batches are also not compacted if their total size is at most
`segment.bytes`. Records younger than `min.compaction.lag.ms` are also not compacted. After compaction has first read a
tombstone, the tombstone stays for `delete.retention.ms`. So a slow reader still sees the deletion. Batches are
compacted in order of their offsets. So compaction removes the older records of a key before it removes the key's
tombstone. Small adjacent batches are merged.

Policy `delete`: the oldest batches are deleted first. A batch is deleted if its latest record is older than
`retention.ms`. A batch is also deleted if the later batches together have at least `retention.bytes`. Deletion stops at
the first batch that is not deleted, so all later batches stay. Even the newest batch may be deleted.

Source: `Cleaner`, `LogCleanerManager`, KIP-534 (delete horizon), `UnifiedLog.deleteOldSegments`. Differs from Kafka: in
a topic with both policies, age is counted from the newest timestamp of the partition, and not from the clock. The
changelog of a window store is a topic with both policies. The window store deletes its windows by stream time, which
lies behind the clock while an application processes a backlog. If the changelog's records were deleted by the clock,
the changelog would lose windows that the store still has. The next restore needs these windows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streams_runtime.common.records import BytesColumn
from streams_runtime.logs.base import BATCH_BYTES, BATCH_RECORDS, RecordBatch, concatenated
from streams_runtime.logs.topic_configs import TopicConfigs

_MAX_SPAN = 2**31  # A merged batch covers less than this range of offsets, because offsets are stored as 32-bit deltas.
_MAX_SOURCE_BYTES = 4 * 1024 * 1024  # One step reads and replaces at most this number of bytes.


class BatchSummary(NamedTuple):
    """The data about a stored batch, without its records. `size`: the bytes that the batch takes in the log.
    `delete_horizon_ms`: the time from which the batch's tombstones may be deleted; None until compaction has seen the
    tombstones. `continues`: True if the transaction of the batch continues in the next batch.
    """

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    size: int
    delete_horizon_ms: int | None = None
    continues: bool = False


StoredBatch = tuple[BatchSummary, RecordBatch]


class Replacement(NamedTuple):
    """Adjacent batches, and the batch that replaces them. `records`: the new batch; None if no record of the batches
    remains.
    """

    sources: list[BatchSummary]
    records: RecordBatch | None
    delete_horizon_ms: int | None

    @property
    def continues(self) -> bool:
        """True if the last transaction of the new batch continues in the next batch. So compaction never splits a
        transaction. If no record of a transaction's last batch remains, compaction may join the transaction with the
        next one.
        """
        return self.sources[-1].continues


@dataclass(slots=True)
class LatestOffsets:
    """The offset of each key's latest record in the batches that were added. Batches are added in order of offsets.
    `key_bytes`: an estimate of the memory that the keys take.
    """

    offsets: dict[bytes | None, int] = field(default_factory=dict)
    key_bytes: int = 0

    def add(self, batch: RecordBatch) -> None:
        before = len(self.offsets)
        self.offsets.update(zip(batch.keys, batch.offsets, strict=True))
        self.key_bytes += (len(self.offsets) - before) * bytes_of(batch.keys) // len(batch)


@dataclass(slots=True)
class _BatchGroup:
    """Adjacent batches to merge. `sources`: the batches before the merge, as they were read. `kept`: the records that
    stay. `size`: the size of these records in bytes.
    """

    sources: list[BatchSummary] = field(default_factory=list)
    kept: list[RecordBatch] = field(default_factory=list)
    size: int = 0
    horizon_ms: int | None = None
    changed: bool = False


def head_start(dirty: Sequence[BatchSummary], configs: TopicConfigs, now_ms: int, end: int) -> int:
    """Returns the offset of the first record that must not be compacted yet. `dirty`: all batches that were never
    compacted. `end`: the end offset.
    """
    start = end
    size = 0
    for batch in reversed(dirty):
        size += batch.size
        # The last batch is never compacted, even if it is large.
        if start != end and size > configs.segment_bytes:
            break
        start = batch.base_offset
    if configs.min_compaction_lag_ms:
        oldest_young = next((b for b in dirty if b.max_timestamp_ms > now_ms - configs.min_compaction_lag_ms), None)
        if oldest_young is not None:
            return min(start, oldest_young.base_offset)
    return start


def is_dirty_enough(dirty_bytes: int, clean_bytes: int, configs: TopicConfigs, minimum_bytes: int = 1) -> bool:
    """Returns True if a partition has enough dirty bytes for a compaction pass. `dirty_bytes`: the size of the batches
    that were never compacted, except the batches that are too new for compaction.
    """
    ratio = configs.min_cleanable_dirty_ratio
    return dirty_bytes >= max(1, minimum_bytes) and dirty_bytes >= ratio * (clean_bytes + dirty_bytes)


def cleaned(
    batches: Iterable[StoredBatch], latest: Mapping[bytes | None, int], configs: TopicConfigs, now_ms: int
) -> Iterator[Replacement]:
    """Yields the replacements in order of offsets. Yields nothing for a batch that compaction does not change."""
    group = _BatchGroup()
    for batch, records in batches:
        keep = _kept(records, batch, latest, now_ms)
        kept = records if len(keep) == len(records) else records.taken(keep)
        size = 0 if kept is None else bytes_of(kept.keys) + bytes_of(kept.values)
        horizon_ms = _horizon(batch, kept, configs, now_ms)
        if group.sources and not _fits(group, batch, kept, size, horizon_ms):
            yield from _closed(group)
            group = _BatchGroup()
        group.sources.append(batch)
        group.changed |= kept is not records or horizon_ms != batch.delete_horizon_ms
        if kept is not None:
            group.kept.append(kept)
            group.size += size
            group.horizon_ms = group.horizon_ms if horizon_ms is None else horizon_ms
    if group.sources:
        yield from _closed(group)


def _kept(records: RecordBatch, batch: BatchSummary, latest: Mapping[bytes | None, int], now_ms: int) -> list[int]:
    """Returns the indices of the records that stay. A record without a key is invalid in a compacted topic, and is
    removed.
    """
    find = latest.get
    tombstones_go = batch.delete_horizon_ms is not None and batch.delete_horizon_ms <= now_ms
    return [
        index
        for index, (key, value, offset) in enumerate(zip(records.keys, records.values, records.offsets, strict=True))
        if key is not None and find(key, offset) <= offset and not (tombstones_go and value is None)
    ]


def _horizon(batch: BatchSummary, kept: RecordBatch | None, configs: TopicConfigs, now_ms: int) -> int | None:
    if kept is None or None not in kept.values:
        return None
    return now_ms + configs.delete_retention_ms if batch.delete_horizon_ms is None else batch.delete_horizon_ms


def _fits(group: _BatchGroup, batch: BatchSummary, kept: RecordBatch | None, size: int, horizon_ms: int | None) -> bool:
    if sum(source.size for source in group.sources) + batch.size > _MAX_SOURCE_BYTES:
        return False
    if kept is None or not group.kept:
        return True
    records = sum(map(len, group.kept)) + len(kept)
    span = kept.offsets[-1] - group.kept[0].offsets[0]
    # Do not merge batches with different delete horizons. If the merged batch had the later horizon, tombstones could
    # stay for ever. With the earlier horizon, tombstones would be deleted before slow readers saw them. A batch without
    # tombstones has no delete horizon, so it can be merged with any batch.
    same_horizon = None in (group.horizon_ms, horizon_ms) or group.horizon_ms == horizon_ms
    return same_horizon and records <= BATCH_RECORDS and group.size + size <= BATCH_BYTES and span < _MAX_SPAN


def _closed(group: _BatchGroup) -> Iterator[Replacement]:
    if group.changed or len(group.sources) > 1:
        yield Replacement(group.sources, concatenated(group.kept) if group.kept else None, group.horizon_ms)


def bytes_of(column: BytesColumn) -> int:
    return sum(len(item) for item in column if item is not None)


def expired_count(
    oldest_first: Iterable[BatchSummary], size: int, configs: TopicConfigs, *, now_ms: int, newest_ms: Callable[[], int]
) -> int:
    """Returns the number of batches to delete, from the oldest batch on. `size`: the size of all batches of the
    partition, in bytes. `newest_ms`: a function that returns the newest timestamp of the partition. `newest_ms` is
    called only if age is counted from the newest timestamp.
    """
    if not configs.deletes:
        return 0
    age_from_ms = newest_ms() if configs.deletes_by_stream_time else now_ms
    count = 0
    for batch in oldest_first:
        too_old = 0 <= configs.retention_ms < age_from_ms - batch.max_timestamp_ms
        too_many = 0 <= configs.retention_bytes <= size - batch.size
        if not too_old and not too_many:
            break
        size -= batch.size
        count += 1
    return count
