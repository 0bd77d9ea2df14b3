"""The end-offset sum of every stateful task: the end offsets of its changelogs, added up.

A changelog that this rebalance creates is empty and is not looked up. A source topic that serves as changelog ends at
the committed offset here, because later records have not been processed; without a committed offset it ends at 0.
Source: `StreamsPartitionAssignor.populateClientStatesMap`, `computeEndOffsetSumsByTask`, `ClientUtils`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assignor.types import JAVA_LONG_MAX, UNKNOWN_OFFSET_SUM, TaskId, TopicPartition

END_OFFSETS_FAILURE = "changelog_end_offsets"
COMMITTED_OFFSETS_FAILURE = "committed_offsets"


@dataclass(frozen=True, slots=True)
class EndOffsets:
    """What the look-ups returned. `changelogs`: end offset of each partition by topic, None when the look-up failed;
    `committed`: committed offset of each partition by topic; `failures`: see `failures` of rebalance/1.
    """

    changelogs: Mapping[str, tuple[int, ...]] | None
    committed: Mapping[str, tuple[int | None, ...]]
    failures: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EndOffsetSums:
    """`by_task`: for every stateful task; when the look-up failed, each is UNKNOWN_OFFSET_SUM."""

    by_task: Mapping[TaskId, int]
    known: bool


def end_offset_sums(
    stateful_tasks: Iterable[TaskId],
    partitions: Mapping[TaskId, Iterable[TopicPartition]],
    source_topics: frozenset[str],
    offsets: EndOffsets,
) -> EndOffsetSums:
    """`partitions`: the changelog partitions of each task that existed before this rebalance;
    `source_topics`: those whose partitions serve as changelog.
    """
    tasks = tuple(stateful_tasks)
    ends_known = offsets.changelogs is not None and END_OFFSETS_FAILURE not in offsets.failures
    ends_by_topic = (offsets.changelogs or {}) if ends_known else {}
    sums: dict[TaskId, int] = {}
    for task in tasks:
        total = 0
        for partition in partitions.get(task, ()):
            topic, number = partition
            if topic in source_topics:
                end = _committed(partition, offsets)
            else:
                # for a topic that the look-up did not return, it failed
                ends = ends_by_topic.get(topic, ())
                end = ends[number] if number < len(ends) else None
            if end is None:
                return EndOffsetSums(dict.fromkeys(tasks, UNKNOWN_OFFSET_SUM), known=False)
            total += end
        sums[task] = total if total < JAVA_LONG_MAX else JAVA_LONG_MAX
    return EndOffsetSums(sums, known=True)


def _committed(partition: TopicPartition, offsets: EndOffsets) -> int | None:
    if COMMITTED_OFFSETS_FAILURE in offsets.failures:
        return None
    committed = offsets.committed.get(partition.topic, ())
    return (committed[partition.partition] if partition.partition < len(committed) else None) or 0
