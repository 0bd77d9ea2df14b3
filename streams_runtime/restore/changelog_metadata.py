"""What the changelog reader knows of one changelog, and which of its records it may apply.

    REGISTERED -> RESTORING -> COMPLETED

A standby's changelog never completes: it stays RESTORING. Source: `StoreChangelogReader.ChangelogMetadata`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from enum import StrEnum

from assignor.errors import IllegalStateError
from assignor.types import TaskId, TopicPartition
from streams_runtime.logs.base import RecordBatch
from streams_runtime.task_states import TaskType
from streams_runtime.tasks.state_manager import StateManager


class ChangelogState(StrEnum):
    """REGISTERED: its offsets are not looked up yet. RESTORING: it is read. COMPLETED: an active task's was read."""

    REGISTERED = "registered"
    RESTORING = "restoring"
    COMPLETED = "completed"


_BEFORE = {ChangelogState.RESTORING: ChangelogState.REGISTERED, ChangelogState.COMPLETED: ChangelogState.RESTORING}


class ChangelogMetadata:
    """`end`: the first offset that is not applied (yet): the fixed end of an active task's changelog, the limit of a
    standby's whose changelog is a source topic, else None. `log_end`: the end offset of the log when it was last looked
    up, None when it never was.

    `may_be_of_windows`: its first records have yet to be looked at, because it is read from the beginning, for a store
    without windows.

    `buffered`: records from `end` on, in order, that were read and not applied. `restored`: the number of records
    applied since it was registered. `retry_at_ms`: its offsets are not looked up before this time (monotonic).
    """

    __slots__ = (
        "buffered",
        "end",
        "has_limit",
        "is_active",
        "is_source",
        "log_end",
        "may_be_of_windows",
        "partition",
        "restored",
        "retry_at_ms",
        "state",
        "state_manager",
        "store",
        "task_id",
    )

    def __init__(self, partition: TopicPartition, state_manager: StateManager) -> None:
        self.partition = partition
        self.state_manager = state_manager
        self.task_id: TaskId = state_manager.task_id
        self.is_active = state_manager.task_type is TaskType.ACTIVE
        self.is_source = state_manager.changelog_as_source(partition)
        self.has_limit = self.is_source and not self.is_active
        self.store: str = state_manager.metadata(partition).store.name
        self.state = ChangelogState.REGISTERED
        self.end: int | None = None
        self.log_end: int | None = None
        self.may_be_of_windows = False
        self.buffered: deque[RecordBatch] = deque()
        self.restored = 0
        self.retry_at_ms = 0

    def __repr__(self) -> str:
        role = TaskType.ACTIVE if self.is_active else TaskType.STANDBY
        return f"{role} task {self.task_id} ({self.partition} {self.state}, end {self.end})"

    @property
    def next_offset(self) -> int | None:
        """The offset after the last applied record; None when none is known to be applied."""
        applied = self.state_manager.metadata(self.partition).offset
        return None if applied is None else applied + 1

    def start(self, begin: int | None, log_end: int, committed: int | None) -> int:
        """Go from REGISTERED to RESTORING; the offset to read from.

        `begin`: the first offset of the log, needed when no record is applied; `committed`: of a source topic.
        """
        self._to(ChangelogState.RESTORING)
        if self.is_active:
            self.end = log_end if committed is None else min(log_end, committed)
            self.state_manager.metadata(self.partition).limit = self.end
        elif self.has_limit:
            self.move_limit(committed or 0)
        self.log_ends_at(log_end)
        after_applied = self.next_offset
        if after_applied is not None:
            return after_applied
        self.may_be_of_windows = self.partition in self.state_manager.compacted_changelogs
        self.state_manager.restored_from(self.partition, begin or 0)
        return begin or 0

    def complete(self) -> None:
        self._to(ChangelogState.COMPLETED)

    def log_ends_at(self, offset: int) -> None:
        self.log_end = self.state_manager.metadata(self.partition).end_offset = offset

    def move_limit(self, committed: int) -> None:
        """The limit never goes back, since what was applied stays applied."""
        self.end = committed if self.end is None else max(self.end, committed)
        self.state_manager.metadata(self.partition).limit = self.end

    def split(self, batch: RecordBatch) -> tuple[RecordBatch | None, RecordBatch | None]:
        """The records before the end, and those from it on."""
        end = self.end
        if end is None or batch.offsets[-1] < end:
            return batch, None
        inside = bisect_left(batch.offsets, end)
        if inside == 0:
            return None, batch
        return batch.part(0, inside), batch.part(inside, len(batch))

    def _to(self, state: ChangelogState) -> None:
        if _BEFORE.get(state) is not self.state:
            raise IllegalStateError(f"changelog {self.partition} cannot go from {self.state} to {state}")
        self.state = state


def records_with_keys(batch: RecordBatch) -> RecordBatch | None:
    """The batch without records that have no key; None when nothing is left.

    Such records are in no store, and only a source topic that is used as changelog has any.
    Source: `StoreChangelogReader.bufferChangelogRecords`.
    """
    if None not in batch.keys:
        return batch
    kept = [index for index, key in enumerate(batch.keys) if key is not None]
    if not kept:
        return None
    return RecordBatch(
        batch.partition,
        [batch.offsets[index] for index in kept],
        [batch.timestamps_ms[index] for index in kept],
        [batch.keys[index] for index in kept],
        [batch.values[index] for index in kept],
        None if batch.headers is None else [batch.headers[index] for index in kept],
    )
