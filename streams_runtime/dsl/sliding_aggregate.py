"""Aggregates a stream into a table, by key and sliding window.

The left window of a record ends at the record. The right window of a record begins one millisecond after it. For a key,
these windows exist:
- the left window of each record;
- the right window of each record, if a later record is within the time difference.
So a new record updates the windows that contain it, and adds up to three windows: its left window, its right window,
and the right window of the previous record. A new window begins with the aggregate of a stored window that has the same
earlier records. Records earlier than the time difference after 1970 share one window, which begins at 0, because no
window begins before 1970. Records without key or value are left out.
Source: `KStreamSlidingWindowAggregate`.
Differs from Kafka: the old value of a new window is always None, as with other windows. In Kafka without a record
cache, it is the aggregate from which the new window begins. A window whose aggregate became None is skipped until a
record updates it; Kafka's window store with a record cache, read backward, may fail on it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streams_runtime.common.losses import DropReason
from streams_runtime.common.records import Headers
from streams_runtime.dsl.stream_aggregates import StoredWindowsOperator, late_record_dropper
from streams_runtime.processors.context import NodeContext, Receiver
from streams_runtime.state_stores.state_store import Windowed
from streams_runtime.state_stores.value_and_timestamp import EntryAccess, unpack_timestamp
from streams_runtime.state_stores.window import TimestampedWindowStore
from streams_runtime.state_stores.window_keys import window_end_ms

StoredWindows = list[tuple[int, bytes]]
"""The starts and stored values of a key's windows, sorted by time."""


class KStreamSlidingWindowAggregate(StoredWindowsOperator):
    def range_to_emit(self, last_ms: int, close_ms: int) -> tuple[int, int] | None:
        """The bounds are starts of windows."""
        return max(0, last_ms - self.store.windows.size_ms), close_ms - self.store.windows.size_ms - 1

    def aggregate_windows(
        self, entries: EntryAccess, child: Receiver | None, context: NodeContext
    ) -> Callable[[Any, Any, int, Headers], bool]:
        """As in Kafka, a late record or a record of the window that begins at 0 closes no windows."""
        store: TimestampedWindowStore[Any, Any] = context.state_store(self.store.name)
        fetch = store.stored_windows()
        difference_ms, grace_ms = self.store.windows.size_ms, self.store.windows.grace_ms
        drop_late = late_record_dropper(context, grace_ms, "[%d,%d]")
        update = self._updater(entries, child, context, drop_late)

        def sliding_aggregate(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> bool:
            if key is None or value is None:
                context.drop(DropReason.NULL_KEY_OR_VALUE, "null key or value")
                return False
            context.stream_time_ms = max(context.stream_time_ms, timestamp_ms)
            close_ms = context.stream_time_ms - grace_ms
            if timestamp_ms + difference_ms < close_ms:
                drop_late(timestamp_ms, timestamp_ms + difference_ms, timestamp_ms, close_ms)
                return False
            record = _RecordUpdates(key, value, timestamp_ms, headers, close_ms, difference_ms, update)
            # the right window of this record may exist, too, and begins at `timestamp_ms + 1`
            windows = list(fetch(key, max(0, timestamp_ms - 2 * difference_ms), timestamp_ms + 1))
            if timestamp_ms < difference_ms:
                record.update_early(windows)
                return False
            record.update(windows)
            return True

        return sliding_aggregate

    def _updater(
        self,
        entries: EntryAccess,
        child: Receiver | None,
        context: NodeContext,
        drop_late: Callable[[int, int, int, int], None],
    ) -> Callable[..., None]:
        """Returns a function that updates one window by a record. `so_far`: the stored value from which the aggregate
        begins; None for the initializer's value. `is_new`: True if the window is not in the store. `is_copy`: True to
        put `so_far` unchanged, because the record itself is not in the window.
        """
        stored_key_of, _, put, read, write, _, _ = entries
        initializer, aggregator = self.aggregation.initializer, self.aggregation.aggregator
        size_ms, sends_old_values, current = self.store.windows.size_ms, self.sends_old_values, context.current

        def update(
            record: _RecordUpdates, start_ms: int, so_far: bytes | None, is_new: bool = False, is_copy: bool = False
        ) -> None:
            newest_ms, end_ms, old = record.timestamp_ms, window_end_ms(start_ms, size_ms), None
            if not is_copy and end_ms < record.close_ms:
                drop_late(start_ms, end_ms, newest_ms, record.close_ms)
                return
            if so_far is None:
                new = aggregator(record.key, record.value, initializer())
            else:
                so_far_ms, new = read(so_far)
                if is_copy or not is_new:
                    newest_ms = max(newest_ms, so_far_ms)
                if not is_copy:
                    new = aggregator(record.key, record.value, new)
                if sends_old_values and not is_new:
                    # decode the stored value a second time, because the aggregator may change the object in place
                    old = read(so_far)[1]
            current.timestamp_ms, current.headers = record.timestamp_ms, record.headers
            put(stored_key_of(record.key, start_ms), None if new is None else write(newest_ms, new), newest_ms)
            if child is not None:
                child(Windowed(record.key, start_ms, end_ms), (new, old), newest_ms, record.headers)

        return update


@dataclass(slots=True)
class _RecordUpdates:
    """The updates of windows by one record. `close_ms`: windows that end before this time are closed. `update_window`:
    the function of `KStreamSlidingWindowAggregate._updater`.
    """

    key: Any
    value: Any
    timestamp_ms: int
    headers: Headers
    close_ms: int
    difference_ms: int
    update_window: Callable[..., None]

    def update(self, windows: StoredWindows) -> None:
        """`windows`: the stored windows from two time differences before the record to its right window."""
        time_ms, difference_ms = self.timestamp_ms, self.difference_ms
        left = right = previous_ms = None
        has_left = has_right = False
        for start_ms, stored in reversed(windows):
            end_ms, newest_ms = start_ms + difference_ms, unpack_timestamp(stored)[0]
            if start_ms == time_ms + 1:
                has_right = True
            elif end_ms > time_ms:
                right = stored if right is None else right
                self.update_window(self, start_ms, stored)
            elif end_ms == time_ms:
                has_left = True
                self.update_window(self, start_ms, stored)
                if newest_ms >= time_ms:
                    return  # an earlier record had the same timestamp, so all other windows exist
                previous_ms = newest_ms
            else:
                left, previous_ms = stored, newest_ms
                break
        self._add_right_of_previous(previous_ms, windows)
        if not has_left:
            is_left_filled = previous_ms is not None and time_ms - difference_ms <= previous_ms
            self.update_window(self, time_ms - difference_ms, left if is_left_filled else None, is_new=True)
        self._add_right(right, has_right)

    def update_early(self, windows: StoredWindows) -> None:
        """Updates the windows by a record that is less than the time difference after 1970."""
        time_ms = self.timestamp_ms
        combined = right = previous_ms = None
        has_right = False
        for start_ms, stored in windows:
            newest_ms = unpack_timestamp(stored)[0]
            if start_ms == 0:
                combined = stored
                if newest_ms < time_ms:
                    previous_ms = newest_ms
            elif start_ms <= time_ms:
                right = stored
                self.update_window(self, start_ms, stored)
            else:
                has_right = True
        if right is None:
            right = combined  # without a later window, the records after this record are those of the combined window
        self._add_right(right, has_right)
        self._add_right_of_previous(previous_ms, windows)
        self.update_window(self, 0, combined, is_new=combined is None)

    def _add_right(self, right: bytes | None, has_right: bool) -> None:
        """Adds the right window of this record if later records are in it. `right`: a window with these records."""
        if not has_right and right is not None and unpack_timestamp(right)[0] > self.timestamp_ms:
            self.update_window(self, self.timestamp_ms + 1, right, is_new=True, is_copy=True)

    def _add_right_of_previous(self, previous_ms: int | None, windows: StoredWindows) -> None:
        """Adds the right window of the previous record if this record is the first record in it."""
        if previous_ms is None or previous_ms + 1 + self.difference_ms < self.timestamp_ms:
            return
        if all(start_ms != previous_ms + 1 for start_ms, _ in windows):
            self.update_window(self, previous_ms + 1, None, is_new=True)
