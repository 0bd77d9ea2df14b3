"""The end-offset sum of every stateful task: the log end of its changelogs, added up.

A changelog that this rebalance creates is empty and is not asked for. A source topic that serves as changelog ends,
for this purpose, at the committed offset, because records beyond it have not been processed; none committed is 0.
Source: `StreamsPartitionAssignor.populateClientStatesMap`, `computeEndOffsetSumsByTask`, `ClientUtils`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from assignor.types import JAVA_LONG_MAX, UNKNOWN_OFFSET_SUM, TaskId, TopicPartition

END_OFFSETS_FAILURE = "changelog_end_offsets"
COMMITTED_OFFSETS_FAILURE = "committed_offsets"


@dataclass(frozen=True, slots=True)
class EndOffsets:
    """What the look-ups gave. `changelogs`: topic to log end per partition, None when the look-up failed;
    `committed`: topic to committed offset per partition; `failures`: see `failures` of rebalance/1.
    """

    changelogs: Mapping[str, tuple[int, ...]] | None
    committed: Mapping[str, tuple[int | None, ...]]
    failures: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EndOffsetSums:
    """`by_task` has every stateful task; when the look-up failed, each of them is UNKNOWN_OFFSET_SUM."""

    by_task: Mapping[TaskId, int]
    known: bool


def end_offset_sums(
    stateful_tasks: Iterable[TaskId],
    pre_existing_partitions_for: Callable[[TaskId], Iterable[TopicPartition]],
    source_based: frozenset[TopicPartition],
    offsets: EndOffsets,
) -> EndOffsetSums:
    """`pre_existing_partitions_for(task)`: changelog partitions that were there before; `source_based`: those of them
    that are partitions of a source topic.
    """
    tasks = tuple(stateful_tasks)
    ends_known = offsets.changelogs is not None and END_OFFSETS_FAILURE not in offsets.failures
    ends_by_topic = (offsets.changelogs or {}) if ends_known else {}
    sums: dict[TaskId, int] = {}
    for task in tasks:
        total = 0
        for partition in pre_existing_partitions_for(task):
            if partition in source_based:
                end = _committed(partition, offsets)
            else:
                # a topic that the look-up left out is one that it failed for
                ends = ends_by_topic.get(partition.topic, ())
                end = ends[partition.partition] if partition.partition < len(ends) else None
            if end is None:
                return EndOffsetSums(dict.fromkeys(tasks, UNKNOWN_OFFSET_SUM), known=False)
            total += end
        sums[task] = min(total, JAVA_LONG_MAX)
    return EndOffsetSums(sums, known=True)


def _committed(partition: TopicPartition, offsets: EndOffsets) -> int | None:
    if COMMITTED_OFFSETS_FAILURE in offsets.failures:
        return None
    committed = offsets.committed.get(partition.topic, ())
    return (committed[partition.partition] if partition.partition < len(committed) else None) or 0
