"""The end-offset sum of every stateful task: the end offsets of its changelogs, added up.

A changelog that this rebalance creates is empty and is not looked up. A source topic that serves as changelog ends at
the committed offset here, because later records have not been processed; without a committed offset it ends at 0.
Source: `StreamsPartitionAssignor.populateClientStatesMap`, `computeEndOffsetSumsByTask`, `ClientUtils`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assignor.types import JAVA_LONG_MAX, UNKNOWN_OFFSET_SUM, TaskId

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
    topics: Mapping[int, Iterable[str]],
    source_topics: frozenset[str],
    offsets: EndOffsets,
) -> EndOffsetSums:
    """`topics`: by subtopology, the changelogs of its tasks that existed before this rebalance; `source_topics`: those
    that serve as changelog.
    """
    tasks = tuple(stateful_tasks)
    ends_of = {
        subtopology: [_ends(topic, source_topics, offsets) for topic in changelogs]
        for subtopology, changelogs in topics.items()
    }
    sums: dict[TaskId, int] = {}
    for task in tasks:
        total = 0
        number = task[1]
        for ends, beyond in ends_of.get(task[0], ()):
            end = ends[number] if number < len(ends) else beyond
            if end is None:
                return EndOffsetSums(dict.fromkeys(tasks, UNKNOWN_OFFSET_SUM), known=False)
            total += end
        sums[task] = total if total < JAVA_LONG_MAX else JAVA_LONG_MAX
    return EndOffsetSums(sums, known=True)


def _ends(topic: str, source_topics: frozenset[str], offsets: EndOffsets) -> tuple[Sequence[int | None], int | None]:
    """Of each partition, and of those beyond. None: the look-up failed, as for a topic that it did not return."""
    if topic in source_topics:
        if COMMITTED_OFFSETS_FAILURE in offsets.failures:
            return (), None
        return [committed or 0 for committed in offsets.committed.get(topic, ())], 0
    if offsets.changelogs is None or END_OFFSETS_FAILURE in offsets.failures:
        return (), None
    return offsets.changelogs.get(topic, ()), None
