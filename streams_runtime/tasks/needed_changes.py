"""Finds the first changelog offset that a window store still needs, and the newest timestamp in the changelog.

This file has two classes:
- `NeededChanges` tracks the needed changes of one changelog.
- `WindowChangelogs` has the changelogs of a task's window stores, and finds needed changes that were deleted before a
  restore.

A window store drops windows by stream time. The log's retention or an operator may delete the first records of the
changelog, independently of stream time. The remaining records do not show whether the store still needed a deleted
record. So the Streams task tracks the first changelog offset that may belong to a window that has not expired. The task
commits this offset together with its input offsets.

Rules: a change is needed while its timestamp is above the newest timestamp minus the store's retention. A mark consists
of a changelog offset and the newest timestamp of the changes below this offset. A mark is set whenever the newest
timestamp has advanced by 1/128 of the retention or by 12 hours, whichever is shorter. So there are about 128 marks, or
more if the retention is longer than 64 days. The computed offset may be too low, by at most the number of changes
between two marks. An offset that is too low does no harm. Two marks are at most 12 hours apart, and changelogs are kept
for a day longer than windows in the stores. Until the log acknowledges a change, the offset of the change is estimated
from the last known offset. The estimate assumes that the next commit will write as many transaction markers as the last
commit.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assignor.types import TopicPartition
from streams_runtime.logs.base import RecordBatch

_MARKS = 128
_LONGEST_STEP_MS = 12 * 3_600_000
_NO_TIME_MS = -1
_AT_ONCE = 64
"""Changes are processed in groups of 64. Usually, processing a change takes 0.06 us. If a mark has to be set inside a
group, the changes of the group are processed one by one. Each change then takes 2 us.
"""


class NeededChanges:
    """The needed changes of one changelog partition. Only the task's thread uses a `NeededChanges`. `newest_ms`: the
    newest timestamp in the changelog, -1 if it is not known.
    """

    def __init__(self, retention_ms: int) -> None:
        self.retention_ms = retention_ms
        self._step_ms = max(1, min(retention_ms // _MARKS, _LONGEST_STEP_MS))
        self.clear()

    def clear(self) -> None:
        """Forget all changes, because the store is closed."""
        self.newest_ms = _NO_TIME_MS
        self._marks: deque[tuple[int, int]] = deque()
        self._next_mark_ms = 0
        self._next_offset = 0
        self._is_complete = False  # True if the marks go back to the first needed change.
        # The number of changes that were sent, and the number of marks that were set, since the last acknowledgement.
        self._sent = self._marked_since = 0
        self._markers = 0  # The estimated number of transaction markers after the last acknowledged change.

    def from_beginning(self) -> None:
        """Mark that the store is restored from the first record in the log."""
        self._is_complete = True

    def continue_from(self, needed_from: int | None, stream_time_ms: int) -> None:
        """Continue with the values that an earlier owner of the task has committed. `needed_from`: the first needed
        offset, or None if the earlier owner has committed no such offset. Does nothing if the store was restored from
        the beginning of the log. Does nothing if the stream time is not known: `stream_time_ms` is then negative.
        """
        if self._is_complete or stream_time_ms < 0:
            return
        self._is_complete = True
        first = self._next_offset if not self._marks else self._marks[0][0]
        if self._marks:
            # The earlier owner of the task wrote the changes below the first mark. So their timestamps are at most the
            # stream time of the earlier owner.
            self._marks[0] = (first, stream_time_ms)
        self._marks.appendleft((first if needed_from is None else min(first, needed_from), _NO_TIME_MS))
        self._advance(stream_time_ms)

    # --- changes

    def restored(self, batch: RecordBatch) -> None:
        self._see_all(batch.offsets, batch.timestamps_ms)
        self._next_offset = batch.offsets[-1] + 1
        # the offsets of restored changes are exact, so `acknowledged` must not move marks of restored changes
        self._marked_since = 0

    def advance_to(self, position: int) -> None:
        """Continue at this offset, because every change below it was restored."""
        self._next_offset = max(self._next_offset, position)

    def sent(self, timestamps_ms: Sequence[int]) -> None:
        first, count = self._next_offset, len(timestamps_ms)
        self._see_all(range(first, first + count), timestamps_ms)
        self._next_offset += count
        self._sent += count

    def acknowledged(self, last_offset: int) -> None:
        """Handle the log's acknowledgement of all sent changes. `last_offset`: the offset of the last sent change."""
        if not self._sent:
            return
        moved = last_offset + 1 - self._next_offset
        if moved:
            # the estimated offsets of the marks since the last acknowledgement were wrong by `moved`, so correct them
            for index in range(len(self._marks) - min(self._marked_since, len(self._marks)), len(self._marks)):
                offset, before_ms = self._marks[index]
                self._marks[index] = (offset + moved, before_ms)
            self._markers = max(0, self._markers + moved)
        self._next_offset = last_offset + 1 + self._markers
        self._sent = self._marked_since = 0

    # --- results

    @property
    def needed_from(self) -> int | None:
        """The first needed offset of the changelog; None if no change is known."""
        self._drop_expired()
        return self._marks[0][0] if self._marks else None

    @property
    def needed(self) -> int:
        """The number of offsets from `needed_from` to the end of the changelog. The store has at most this many
        windows.
        """
        first = self.needed_from
        return 0 if first is None else max(0, self._next_offset - first)

    # --- inside

    def _see_all(self, offsets: Sequence[int], timestamps_ms: Sequence[int]) -> None:
        for start in range(0, len(timestamps_ms), _AT_ONCE):
            part = timestamps_ms[start : start + _AT_ONCE]
            newest_ms = max(part)
            if newest_ms >= self._next_mark_ms:
                for offset, timestamp_ms in zip(offsets[start : start + _AT_ONCE], part, strict=True):
                    self._see(offset, timestamp_ms)
            elif newest_ms > self.newest_ms:
                self.newest_ms = newest_ms

    def _see(self, offset: int, timestamp_ms: int) -> None:
        if timestamp_ms >= self._next_mark_ms:
            self._marks.append((offset, self.newest_ms))
            self._marked_since += 1
            self._advance(timestamp_ms)
            self._drop_expired()
        elif timestamp_ms > self.newest_ms:
            self.newest_ms = timestamp_ms

    def _advance(self, timestamp_ms: int) -> None:
        self.newest_ms = max(self.newest_ms, timestamp_ms)
        self._next_mark_ms = max(self._next_mark_ms, timestamp_ms + self._step_ms)

    def _drop_expired(self) -> None:
        marks, oldest_needed_ms = self._marks, self.newest_ms - self.retention_ms + 1
        while len(marks) > 1 and marks[1][1] < oldest_needed_ms:
            marks.popleft()  # all changes below the second mark have expired


class MissingChanges(NamedTuple):
    """The changes that a window store lacks, because the log deleted them before the restore. The missing changes have
    the offsets from `needed_from` to `begin` - 1. `begin`: the first changelog offset that was restored.
    """

    store: str
    changelog: TopicPartition
    needed_from: int
    begin: int


class WindowChangelogs:
    """The changelogs of a task's window stores. `needed`: the needed changes of each changelog.

    `retentions_ms`: the retention of each window store that has a changelog of its own. `changelogs`: the changelog of
    each store.
    """

    def __init__(self, retentions_ms: Mapping[str, int], changelogs: Mapping[str, TopicPartition]) -> None:
        self._stores = {changelogs[store]: store for store in retentions_ms if store in changelogs}
        self.needed = {partition: NeededChanges(retentions_ms[store]) for partition, store in self._stores.items()}
        # The begin offset of each changelog, if the restore began there. The dict is empty after `continue_after`.
        self._begin_offsets: dict[TopicPartition, int] = {}

    def clear(self) -> None:
        """Forget all changelogs, because the stores are closed."""
        self._begin_offsets.clear()
        for needed in self.needed.values():
            needed.clear()

    def restore_begins(self, partition: TopicPartition, begin: int) -> None:
        """Mark that a restore begins at `begin`, the begin offset of the changelog. This method, `restored` and
        `advance_to` ignore partitions that are not changelogs of window stores.
        """
        if partition in self.needed:
            self._begin_offsets[partition] = begin
            self.needed[partition].from_beginning()

    def restored(self, partition: TopicPartition, batch: RecordBatch) -> None:
        if partition in self.needed:
            self.needed[partition].restored(batch)

    def advance_to(self, partition: TopicPartition, position: int) -> None:
        """Continue at this offset, because every change below it was restored."""
        if partition in self.needed:
            self.needed[partition].advance_to(position)

    def needed_from(self) -> dict[str, int]:
        """Returns the first needed changelog offset of each window store that has any change."""
        known = {self._stores[partition]: needed.needed_from for partition, needed in self.needed.items()}
        return {store: offset for store, offset in known.items() if offset is not None}

    def continue_after(self, needed_from: Mapping[str, int], stream_time_ms: int) -> list[MissingChanges]:
        """Continue the work of the task's earlier owner. The arguments are the values that the task's earlier owner has
        committed. Returns the needed changes that the log deleted before this task restored its stores. Only the first
        call after a restore returns missing changes.
        """
        missing: list[MissingChanges] = []
        for partition, changes in self.needed.items():
            store = self._stores[partition]
            needed, begin = needed_from.get(store), self._begin_offsets.get(partition)
            # `needed` is None if no offset was committed for this store. `begin` is None if the store was not restored
            # from the begin offset of the changelog.
            if needed is not None and begin is not None and needed < begin:
                missing.append(MissingChanges(store, partition, needed, begin))
            changes.continue_from(needed, stream_time_ms)
        self._begin_offsets.clear()  # a second call of `continue_after` then reports no missing changes
        return missing
