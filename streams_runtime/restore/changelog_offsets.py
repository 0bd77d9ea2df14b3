"""Looks up what the reader asks the log about changelogs: their offsets, and their configs.

Rules:
- One call of the log looks up all changelogs. When a topic is missing, each task is looked up by itself, so that one
  task does not hold up the others.
- The result for a task is offsets for all of its changelogs, or an error after which the reader may try again.
- End offsets are high watermarks, under exactly-once too (KAFKA-10167). A commit that was acknowledged may reach the
  changelog a moment later, and a restore that ended at the last stable offset would miss it. The task's claim of its
  input partitions has made every transaction that is open on them end soon.

Source: `StoreChangelogReader.endOffsetForChangelogs`, `committedOffsetForChangelogs`. Differs from Kafka: the end
offsets of standbys are looked up too, to know their lags and whether the topics exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from assignor.topology.internal_topics import CLEANUP_POLICY
from assignor.types import TaskId, TopicPartition
from streams_runtime.logs.base import IsolationLevel, Log
from streams_runtime.logs.errors import LogError, LogTimeout, UnknownTopicOrPartition
from streams_runtime.restore.changelog_metadata import ChangelogMetadata


class ChangelogOffsets(NamedTuple):
    """`begin`: None when it is not needed. `committed`: the group's offset of a source topic, 0 when it has none, None
    for other changelogs."""

    begin: int | None
    end: int
    committed: int | None


class ChangelogOffsetLookup:
    def __init__(self, log: Log, group_id: str) -> None:
        self._log = log
        self._group_id = group_id

    def look_up(
        self, changelogs: Sequence[ChangelogMetadata]
    ) -> tuple[dict[TopicPartition, ChangelogOffsets], dict[TaskId, LogError]]:
        """The offsets that were found, and the tasks for which one is missing, each with the reason."""
        try:
            return self._offsets(changelogs), {}
        except LogTimeout as error:
            return {}, dict.fromkeys((each.task_id for each in changelogs), error)
        except UnknownTopicOrPartition:
            return self._by_task(changelogs)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Raises LogTimeout, UnknownTopicOrPartition."""
        return self._log.end_offsets(partitions, IsolationLevel.READ_UNCOMMITTED)

    def committed_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets, 0 where it has committed none. Raises LogTimeout."""
        committed = self._log.committed_offsets(self._group_id, partitions)
        return {each: committed[each].offset if each in committed else 0 for each in partitions}

    def deletes_by_time(self, topic: str) -> bool:
        """Whether `cleanup.policy` of the topic says so; False when that is not known. Raises LogTimeout."""
        description = self._log.topics().get(topic)
        return description is not None and "delete" in description.configs.get(CLEANUP_POLICY, "").split(",")

    def _by_task(
        self, changelogs: Sequence[ChangelogMetadata]
    ) -> tuple[dict[TopicPartition, ChangelogOffsets], dict[TaskId, LogError]]:
        of_tasks: dict[TaskId, list[ChangelogMetadata]] = {}
        for each in changelogs:
            of_tasks.setdefault(each.task_id, []).append(each)
        found: dict[TopicPartition, ChangelogOffsets] = {}
        failed: dict[TaskId, LogError] = {}
        for task_id, of_task in of_tasks.items():
            try:
                found |= self._offsets(of_task)
            except (LogTimeout, UnknownTopicOrPartition) as error:
                failed[task_id] = error
        return found, failed

    def _offsets(self, changelogs: Sequence[ChangelogMetadata]) -> dict[TopicPartition, ChangelogOffsets]:
        ends = self.end_offsets([each.partition for each in changelogs])
        unread = [each.partition for each in changelogs if each.next_offset is None]
        begins = self._log.begin_offsets(unread) if unread else {}
        sources = [each.partition for each in changelogs if each.is_source]
        committed = self.committed_offsets(sources) if sources else {}
        _check_complete(unread, begins)
        _check_complete([each.partition for each in changelogs], ends)
        return {
            each.partition: ChangelogOffsets(
                begins.get(each.partition), ends[each.partition], committed.get(each.partition)
            )
            for each in changelogs
        }


def _check_complete(asked: Iterable[TopicPartition], answer: Mapping[TopicPartition, int]) -> None:
    missing = [str(each) for each in asked if each not in answer]
    if missing:
        raise UnknownTopicOrPartition(f"the log gave no offsets for {', '.join(missing)}")
