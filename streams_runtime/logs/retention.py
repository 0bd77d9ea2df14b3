"""Which batches of a topic with `cleanup.policy` delete are too old or too many.

Rule: batches go from the oldest on. A batch goes when its latest record is older than `retention.ms`, or when the
others still have at least `retention.bytes` without it. The first batch that may stay ends this. All batches may go,
the newest one as well. Source: `UnifiedLog.deleteOldSegments`.
"""

from __future__ import annotations

from collections.abc import Iterable

from streams_runtime.logs.compaction import BatchSummary
from streams_runtime.logs.topic_configs import TopicConfigs


def expired_count(oldest_first: Iterable[BatchSummary], size: int, configs: TopicConfigs, now_ms: int) -> int:
    """How many of the oldest batches go. `size`: bytes of all batches of the partition."""
    if not configs.deletes:
        return 0
    count = 0
    for batch in oldest_first:
        too_old = 0 <= configs.retention_ms < now_ms - batch.max_timestamp_ms
        too_many = 0 <= configs.retention_bytes <= size - batch.size
        if not too_old and not too_many:
            break
        size -= batch.size
        count += 1
    return count
