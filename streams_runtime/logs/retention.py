"""Which batches of a topic with `cleanup.policy` delete are too old or too many.

Rule: batches go from the oldest on. A batch goes when its latest record is older than `retention.ms`, or when the
others still have at least `retention.bytes` without it. The first batch that may stay ends this. All batches may go,
the newest one as well. Source: `UnifiedLog.deleteOldSegments`.

Differs from Kafka: in a topic that is compacted, too, as the changelog of a window store is, age is counted from the
newest timestamp of the partition, and not from the clock. The store keeps its windows by stream time. A backlog is
behind the clock by its age, so the clock would delete windows from the changelog that the store still has and that the
next restore needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streams_runtime.logs.compaction import BatchSummary
from streams_runtime.logs.topic_configs import TopicConfigs


def expired_count(
    oldest_first: Iterable[BatchSummary],
    size: int,
    configs: TopicConfigs,
    *,
    now_ms: int,
    newest_ms: Callable[[], int],
) -> int:
    """How many of the oldest batches go. `size`: bytes of all batches of the partition. `newest_ms`: gives the newest
    timestamp of the partition; asked only where age counts from it.
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
