"""Finds the first offset of a window store's changelog that is still needed, and the newest timestamp in the changelog.

    NeededChanges       Tracks the needed changes of one changelog.
    WindowChangelogs    Has the changelogs of a task's window stores, and finds needed changes that were deleted before
                        a restore.

A window store drops windows by stream time. The first records of the store's changelog are deleted independently of
stream time, by the log's retention or by an operator. The remaining records do not show if a deleted record was still
needed. So the task tracks the first offset at which the changelog may have a window that has not expired in the store.
The task commits this offset with its input offsets.

Rules: a change is needed while its timestamp is above the newest timestamp minus the store's retention. A mark consists
of a changelog offset and the newest timestamp of the changes below this offset. A mark is set when the newest timestamp
has advanced by 1/128 of the retention, but at most by 12 hours. So there are about 128 marks or, for a long retention,
one mark for each 12 hours of the retention. The computed offset may be lower than the first needed offset. The
difference is at most the number of changes between two marks. The time between two marks is shorter than the day by
which changelogs are kept longer than their stores. The offset of a change that is not acknowledged yet is estimated
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
"""Changes are processed in parts of this many changes. Only in a part in which a mark has to be set are the changes
processed one by one. Processing takes 0.06 us for each change, or 2 us in a part with a mark.
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
        self._is_complete = False  # True if the marks go back to the first needed change
        self._sent = self._marked_since = 0  # the changes sent and the marks set since the last acknowledgement
        self._markers = 0  # an estimate of the transaction markers after the last acknowledged change

    def from_beginning(self) -> None:
        """Record that the store is restored from the first record that the log has."""
        self._is_complete = True

    def continue_from(self, needed_from: int | None, stream_time_ms: int) -> None:
        """Continue with the values that an earlier owner of the task has committed. `needed_from`: None if the earlier
        owner committed no offset. Does nothing if the store was restored from the beginning, or if the stream time is
        unknown (negative).
        """
        if self._is_complete or stream_time_ms < 0:
            return
        self._is_complete = True
        first = self._next_offset if not self._marks else self._marks[0][0]
        if self._marks:
            # the earlier owner wrote the changes below the first mark, up to its stream time
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
        """Record that every change below this offset was restored."""
        self._next_offset = max(self._next_offset, position)

    def sent(self, timestamps_ms: Sequence[int]) -> None:
        first, count = self._next_offset, len(timestamps_ms)
        self._see_all(range(first, first + count), timestamps_ms)
        self._next_offset += count
        self._sent += count

    def acknowledged(self, last_offset: int) -> None:
        """Record that the log has every sent change. `last_offset`: the offset of the last sent change."""
        if not self._sent:
            return
        moved = last_offset + 1 - self._next_offset
        if moved:
            # correct the marks since the last acknowledgement, whose estimated offsets were wrong by `moved`
            for index in range(len(self._marks) - min(self._marked_since, len(self._marks)), len(self._marks)):
                offset, before_ms = self._marks[index]
                self._marks[index] = (offset + moved, before_ms)
            self._markers = max(0, self._markers + moved)
        self._next_offset = last_offset + 1 + self._markers
        self._sent = self._marked_since = 0

    # --- results

    @property
    def needed_from(self) -> int | None:
        """The first offset of the changelog that is still needed; None if no change is known."""
        self._drop_expired()
        return self._marks[0][0] if self._marks else None

    @property
    def needed(self) -> int:
        """The number of offsets from `needed_from` to the end of the changelog. The number is an upper limit for the
        number of windows in the store.
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
    """The changes that a window store lacks, because the log had deleted these changes before the store was restored.
    The missing changes have the offsets from `needed_from` to `begin` - 1. `begin` is the first offset that the store
    has.
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
        # the first offset of each changelog that was restored from the log's first offset; empty after `continue_after`
        self._begin_offsets: dict[TopicPartition, int] = {}

    def clear(self) -> None:
        """Forget all changelogs, because the stores are closed."""
        self._begin_offsets.clear()
        for needed in self.needed.values():
            needed.clear()

    def restore_begins(self, partition: TopicPartition, begin: int) -> None:
        """Record that a restore begins at `begin`, the first offset that the log has. `restore_begins`, `restored` and
        `advance_to` ignore partitions that are not changelogs of window stores.
        """
        if partition in self.needed:
            self._begin_offsets[partition] = begin
            self.needed[partition].from_beginning()

    def restored(self, partition: TopicPartition, batch: RecordBatch) -> None:
        if partition in self.needed:
            self.needed[partition].restored(batch)

    def advance_to(self, partition: TopicPartition, position: int) -> None:
        """Record that every change below this offset was restored."""
        if partition in self.needed:
            self.needed[partition].advance_to(position)

    def needed_from(self) -> dict[str, int]:
        """Returns, for each window store with a change, the first offset of its changelog that is needed."""
        known = {self._stores[partition]: needed.needed_from for partition, needed in self.needed.items()}
        return {store: offset for store, offset in known.items() if offset is not None}

    def continue_after(self, needed_from: Mapping[str, int], stream_time_ms: int) -> list[MissingChanges]:
        """Continue the work of an earlier owner of the task. The earlier owner has committed its stream time and the
        result of its method `needed_from`.

        Returns the changes that the earlier owner's stores had but that the log had deleted before these stores were
        restored. Only the first call after a restore returns the missing changes.
        """
        missing: list[MissingChanges] = []
        for partition, changes in self.needed.items():
            store = self._stores[partition]
            needed, begin = needed_from.get(store), self._begin_offsets.get(partition)
            # `needed` is None if the task had committed no offset for this store. `begin` is None if the store was not
            # restored from the first offset of the log.
            if needed is not None and begin is not None and needed < begin:
                missing.append(MissingChanges(store, partition, needed, begin))
            changes.continue_from(needed, stream_time_ms)
        self._begin_offsets.clear()  # so that a second call of `continue_after` reports no missing changes
        return missing
