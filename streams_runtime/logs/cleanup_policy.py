"""`cleanup.policy` of a topic as values: which records stay. The logs of one machine share it.

compact: of each key the latest record stays where it is. Offsets never change, so gaps are left. The newest records, up
to `segment.bytes` and at least the last batch, are left alone, and so is everything younger than
`min.compaction.lag.ms`. A tombstone stays until `delete.retention.ms` after compaction first saw it, so that a reader
on its way learns of the deletion. Batches are cleaned from the lowest offset up, so that older records of a key are
gone before its tombstone is. Small neighbours become one batch.

delete: batches go from the oldest on. A batch goes when its latest record is older than `retention.ms`, or when the
others still have at least `retention.bytes` without it. The first batch that may stay ends this. All batches may go,
the newest one as well.

Source: `Cleaner`, `LogCleanerManager`, KIP-534 (delete horizon), `UnifiedLog.deleteOldSegments`. Differs from Kafka: in
a topic with both policies, as the changelog of a window store is, age is counted from the newest timestamp of the
partition, and not from the clock. The store keeps its windows by stream time. A backlog is behind the clock by its age,
so the clock would delete windows from the changelog that the store still has and that the next restore needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streams_runtime.logs.base import BATCH_BYTES, BATCH_RECORDS, RecordBatch, concatenated
from streams_runtime.logs.topic_configs import TopicConfigs

_MAX_SPAN = 2**31  # offsets in a batch are 32-bit deltas
_MAX_SOURCE_BYTES = 4 * 1024 * 1024  # read, held and taken out in one step


class BatchSummary(NamedTuple):
    """A stored batch without its records. `size`: how many bytes it takes in the log.

    `delete_horizon_ms`: the time from which its tombstones may go; None until compaction has seen them.
    """

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    size: int
    delete_horizon_ms: int | None = None


StoredBatch = tuple[BatchSummary, RecordBatch]


class Replacement(NamedTuple):
    """Neighbouring batches to take out, and their records that stay, as one batch. `records`: None when none stays."""

    sources: list[BatchSummary]
    records: RecordBatch | None
    delete_horizon_ms: int | None


@dataclass(slots=True)
class LatestOffsets:
    """The offset of the latest record by key, of batches that are added in order. `key_bytes`: an estimate."""

    offsets: dict[bytes | None, int] = field(default_factory=dict)
    key_bytes: int = 0

    def add(self, batch: RecordBatch) -> None:
        before = len(self.offsets)
        self.offsets.update(zip(batch.keys, batch.offsets, strict=True))
        self.key_bytes += (len(self.offsets) - before) * bytes_of(batch.keys) // len(batch)


@dataclass(slots=True)
class _BatchGroup:
    """Neighbours that become one batch. `sources`: as read; `kept`: the records that stay; `size`: bytes of `kept`."""

    sources: list[BatchSummary] = field(default_factory=list)
    kept: list[RecordBatch] = field(default_factory=list)
    size: int = 0
    horizon_ms: int | None = None
    changed: bool = False


def head_start(dirty: Sequence[BatchSummary], configs: TopicConfigs, now_ms: int, end: int) -> int:
    """The first offset that must not be compacted yet. `dirty`: all batches that never were; `end`: the end offset."""
    start = end
    size = 0
    for batch in reversed(dirty):
        size += batch.size
        if start != end and size > configs.segment_bytes:
            break
        start = batch.base_offset
    if configs.min_compaction_lag_ms:
        oldest_young = next((b for b in dirty if b.max_timestamp_ms > now_ms - configs.min_compaction_lag_ms), None)
        if oldest_young is not None:
            return min(start, oldest_young.base_offset)
    return start


def is_dirty_enough(dirty_bytes: int, clean_bytes: int, configs: TopicConfigs, minimum_bytes: int = 1) -> bool:
    """Whether compaction is worth a pass. `dirty_bytes`: of batches below the head that were never compacted."""
    ratio = configs.min_cleanable_dirty_ratio
    return dirty_bytes >= max(1, minimum_bytes) and dirty_bytes >= ratio * (clean_bytes + dirty_bytes)


def cleaned(
    batches: Iterable[StoredBatch],
    latest: Mapping[bytes | None, int],
    configs: TopicConfigs,
    now_ms: int,
) -> Iterator[Replacement]:
    """The batches that are replaced, in order. Batches that stay as they are do not appear."""
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
    """Indices of the records that stay. A record without a key cannot be in such a topic, and does not stay."""
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
    # a common horizon must not be later (tombstones would never go) nor earlier (readers would miss them)
    same_horizon = None in (group.horizon_ms, horizon_ms) or group.horizon_ms == horizon_ms
    return same_horizon and records <= BATCH_RECORDS and group.size + size <= BATCH_BYTES and span < _MAX_SPAN


def _closed(group: _BatchGroup) -> Iterator[Replacement]:
    if group.changed or len(group.sources) > 1:
        yield Replacement(group.sources, concatenated(group.kept) if group.kept else None, group.horizon_ms)


def bytes_of(column: Sequence[bytes | None]) -> int:
    return sum(len(item) for item in column if item is not None)


def expired_count(
    oldest_first: Iterable[BatchSummary],
    size: int,
    configs: TopicConfigs,
    *,
    now_ms: int,
    newest_ms: Callable[[], int],
) -> int:
    """The number of the oldest batches to delete. `size`: bytes of all batches of the partition. `newest_ms`: gives the
    newest timestamp of the partition; asked only where age counts from it.
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
