"""The cluster as later rounds see it: internal topics that the first round created, and changelogs that have grown.

What is appended to a stateful task is spread over its changelog partitions. A source topic that serves as changelog
grows by what is committed of it (`assignor.clients.end_offsets`). A look-up that failed goes on failing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from assignor.cluster import TopicMetadata
from assignor.simulate.changelog_ends import ChangelogEnds
from assignor.snapshot import CreatedTopic, RebalanceSnapshot
from assignor.topology.topics_info import changelog_configs
from assignor.types import TaskId

_Appended = Mapping[str, Mapping[int, int]]
"""Records by topic and partition."""


def with_created(snapshot: RebalanceSnapshot, created: Mapping[str, CreatedTopic]) -> RebalanceSnapshot:
    """The same group once `created` are there, empty."""
    if not created:
        return snapshot
    existing = {name: TopicMetadata(topic.partitions) for name, topic in created.items()}
    ends = snapshot.changelog_end_offsets
    empty = {name: (0,) * topic.partitions for name, topic in created.items() if name in _changelogs(snapshot)}
    return replace(
        snapshot,
        existing_internal_topics={**snapshot.existing_internal_topics, **existing},
        changelog_end_offsets=None if ends is None else {**ends, **empty},
    )


def with_appended(snapshot: RebalanceSnapshot, ends: ChangelogEnds, now_ms: int) -> RebalanceSnapshot:
    """`snapshot`: as at the recorded round. With the ends of its changelogs at `now_ms`."""
    if not ends.appended_records_per_s:
        return snapshot
    changelogs, committed = _appended(snapshot, ends, now_ms)
    offsets = snapshot.changelog_end_offsets
    return replace(
        snapshot,
        changelog_end_offsets=None
        if offsets is None
        else {topic: _grown(known, changelogs.get(topic, {})) for topic, known in offsets.items()},
        committed_offsets={
            **snapshot.committed_offsets,
            **{topic: _committed(snapshot.committed_offsets.get(topic, ()), more) for topic, more in committed.items()},
        },
    )


def _changelogs(snapshot: RebalanceSnapshot) -> frozenset[str]:
    return frozenset(topic for each in snapshot.topology.subtopologies for topic in changelog_configs(each))


def _appended(snapshot: RebalanceSnapshot, ends: ChangelogEnds, now_ms: int) -> tuple[_Appended, _Appended]:
    """To changelogs, and to source topics that serve as changelogs."""
    changelogs: dict[str, dict[int, int]] = {}
    committed: dict[str, dict[int, int]] = {}
    topics_of: dict[int, tuple[list[str], frozenset[str]]] = {
        each.id: (sorted(changelog_configs(each)), frozenset(each.source_topics))
        for each in snapshot.topology.subtopologies
    }
    for task in ends.recorded:
        topics, sources = topics_of[task.subtopology]
        for topic, records in zip(topics, _spread(task, len(topics), ends, now_ms), strict=True):
            (committed if topic in sources else changelogs).setdefault(topic, {})[task.partition] = records
    return changelogs, committed


def _spread(task: TaskId, topics: int, ends: ChangelogEnds, now_ms: int) -> list[int]:
    each, more = divmod(ends.appended(task, now_ms), topics)
    return [each + (number < more) for number in range(topics)]


def _grown(offsets: tuple[int, ...], more: Mapping[int, int]) -> tuple[int, ...]:
    return tuple([offset + more.get(partition, 0) for partition, offset in enumerate(offsets)])


def _committed(offsets: tuple[int | None, ...], more: Mapping[int, int]) -> tuple[int | None, ...]:
    partitions = max(len(offsets), 1 + max(more))
    padded = offsets + (None,) * (partitions - len(offsets))
    return tuple([(offset or 0) + more[number] if more.get(number) else offset for number, offset in enumerate(padded)])
