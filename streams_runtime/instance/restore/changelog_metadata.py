"""Tracks the progress of each changelog of a changelog reader, and looks up the offsets of changelogs in the log.

Source: `StoreChangelogReader.ChangelogMetadata`, `endOffsetForChangelogs`, `committedOffsetForChangelogs`.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assignor.topology.internal_topics import CLEANUP_POLICY
from assignor.types import Offsets, TaskId, TopicPartition
from streams_runtime.common.states import TaskType
from streams_runtime.logs.base import IsolationLevel, Log, RecordBatch
from streams_runtime.logs.log_errors import LogError, LogTimeout, UnknownTopicOrPartition
from streams_runtime.tasks.state_manager import StateManager


class ChangelogMetadata:
    """The progress of one changelog.

    `end`: records at this offset and above are not applied. For an active task, `end` is the end of the restore. For a
    standby with a source topic as changelog, `end` is the limit. For a standby with its own changelog topic, `end` is
    None. `log_end`: the end offset of the changelog at the last lookup; None before the first lookup.

    `may_be_window_changelog`: True if the reader has to check whether the next records are records of a window store.
    The reader checks the records of a key-value store that is restored from the beginning of its changelog.

    `buffered`: the records that were read but not applied, because their offsets are at or above `end`. `restored`: the
    number of records that were applied since the changelog was registered. `retry_at_ms`: the offsets are not looked up
    again before this time on the monotonic clock.
    """

    def __init__(self, partition: TopicPartition, state_manager: StateManager) -> None:
        self.partition = partition
        self.state_manager = state_manager
        self.task_id: TaskId = state_manager.task_id
        self.is_active = state_manager.task_type is TaskType.ACTIVE
        self.is_source = state_manager.changelog_as_source(partition)
        self.has_limit = self.is_source and not self.is_active
        self.store: str = state_manager.metadata(partition).store.name
        self.end: int | None = None
        self.log_end: int | None = None
        self.may_be_window_changelog = False
        self.buffered: deque[RecordBatch] = deque()
        self.restored = 0
        self.retry_at_ms = 0

    def __repr__(self) -> str:
        role = TaskType.ACTIVE if self.is_active else TaskType.STANDBY
        return f"{role} task {self.task_id} ({self.partition}, end {self.end})"

    @property
    def next_offset(self) -> int | None:
        """The offset after the last applied record; None if no applied record is known."""
        applied = self.state_manager.metadata(self.partition).offset
        return None if applied is None else applied + 1

    def start(self, begin: int | None, log_end: int, committed: int | None) -> int:
        """Set `end`. Returns the offset to read from. `begin`: the begin offset of the changelog, which is returned if
        no applied record is known. `committed`: the group's committed offset of a source topic; None for other
        changelogs.
        """
        if self.is_active:
            self.end = log_end if committed is None else min(log_end, committed)
        elif self.has_limit:
            self.move_limit(committed or 0)
        self.log_end = log_end
        after_applied = self.next_offset
        if after_applied is not None:
            return after_applied
        self.may_be_window_changelog = self.partition in self.state_manager.compacted_changelogs
        self.state_manager.window_changelogs.restore_begins(self.partition, begin or 0)
        return begin or 0

    def move_limit(self, committed: int) -> None:
        """Raise the limit to this offset. Does nothing if the offset is lower than the present limit, because records
        below the limit may already be applied.
        """
        self.end = committed if self.end is None else max(self.end, committed)

    def split(self, batch: RecordBatch) -> tuple[RecordBatch | None, RecordBatch | None]:
        """Split the batch at the offset `end`. Returns two parts: the records below this offset, and the other
        records.
        """
        end = self.end
        if end is None or batch.offsets[-1] < end:
            return batch, None
        inside = bisect_left(batch.offsets, end)
        if inside == 0:
            return None, batch
        return batch.part(0, inside), batch.part(inside, len(batch))


def records_with_keys(batch: RecordBatch) -> RecordBatch | None:
    """Removes the records without a key, because stores ignore them. Returns None if no record of the batch has a key.
    Only a source topic that is used as a changelog can have records without a key.
    Source: `StoreChangelogReader.bufferChangelogRecords`.
    """
    if None not in batch.keys:
        return batch
    return batch.taken([index for index, key in enumerate(batch.keys) if key is not None])


class ChangelogOffsets(NamedTuple):
    """The offsets of one changelog in the log.

    `begin`: the begin offset; None if it is not needed. `end`: the high watermark. `committed` is None if the changelog
    is not a source topic. Otherwise, it is the group's committed offset, or 0 if no offset is committed.
    """

    begin: int | None
    end: int
    committed: int | None


class ChangelogOffsetLookup:
    """Looks up the offsets of changelogs in the log.

    - One call to the log looks up all changelogs. If a topic is missing, each task's changelogs are looked up in a
      separate call. So a task with a missing topic does not delay other tasks.
    - For each task, the result has the offsets of all its changelogs, or an error. After an error, the reader may try
      again.
    - End offsets are high watermarks, also under exactly-once (KAFKA-10167). The records of a transaction may become
      readable a moment after its commit was acknowledged. A restore up to the last stable offset would miss these
      records. A restore up to the high watermark has to wait for the end of open transactions. The wait for open
      transactions is short. When a task claims its input, the log ends the open transactions of the previous owner.

    Differs from Kafka: the end offsets of the changelogs of standbys are looked up, too. The end offsets of standbys
    are needed to compute their lags and to find missing topics.
    """

    def __init__(self, log: Log, group_id: str) -> None:
        self._log = log
        self._group_id = group_id

    def look_up(
        self, changelogs: Sequence[ChangelogMetadata]
    ) -> tuple[dict[TopicPartition, ChangelogOffsets], dict[TaskId, LogError]]:
        """Returns two mappings: the offsets of each changelog, and the error of each task with a missing offset."""
        try:
            return self._offsets(changelogs), {}
        except LogTimeout as error:
            return {}, dict.fromkeys((each.task_id for each in changelogs), error)
        except UnknownTopicOrPartition:
            return self._by_task(changelogs)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Returns the high watermarks. Raises LogTimeout, UnknownTopicOrPartition."""
        return self._log.end_offsets(partitions, IsolationLevel.READ_UNCOMMITTED)

    def committed_offsets(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Returns the group's committed offset of each partition, or 0 if no offset is committed. Raises LogTimeout."""
        committed = self._log.committed_offsets(self._group_id, partitions)
        return {each: committed[each].offset if each in committed else 0 for each in partitions}

    def deletes_by_time(self, topic: str) -> bool:
        """Returns True if the topic's `cleanup.policy` contains `delete`. Returns False if the policy is not known.
        Raises LogTimeout.
        """
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
        return {
            each.partition: ChangelogOffsets(
                begins.get(each.partition), ends[each.partition], committed.get(each.partition)
            )
            for each in changelogs
        }
