"""A stream aggregated by key and window. A window takes records until stream time has passed its end by the grace
period.

Stream time is the highest timestamp that this processor has seen. A record without key is left out; a record whose
value is None is not, as in Kafka.
Source: `KStreamWindowAggregate` with `EmitStrategy.onWindowUpdate`. Differs from Kafka: the old value of a new window
is None, as in `stream_aggregates`. In Kafka it may be the initializer's value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streams_runtime.common.clock import duration_text
from streams_runtime.common.records import Headers
from streams_runtime.dsl.materialized import WindowStoreMaker
from streams_runtime.dsl.stream_aggregates import Aggregator, Initializer, aggregation
from streams_runtime.dsl.table_supplier import Getter, StoredTableSupplier
from streams_runtime.dsl.windows import TimeWindows
from streams_runtime.processors.context import NodeContext, Operator, Receiver
from streams_runtime.reporting.losses import DropReason
from streams_runtime.state_stores.base import Windowed
from streams_runtime.state_stores.window import SerdesTimestampedWindowStore
from streams_runtime.state_stores.window_keys import window_end_ms

_new_tuple = tuple.__new__
"""Makes a `Windowed` in half of the time of `Windowed(...)`."""


class KStreamWindowAggregate(StoredTableSupplier):
    def __init__(self, store: WindowStoreMaker, initializer: Initializer, aggregator: Aggregator) -> None:
        super().__init__(store)
        self.windows = store.windows
        self.initializer = initializer
        self.aggregator = aggregator

    def __call__(self) -> Operator:
        return WindowAggregateProcessor(
            self.store.name, self.windows, self.initializer, self.aggregator, self.sends_old_values
        )

    def getter(self, context: NodeContext, *, flushed: bool = False) -> Getter:
        store: SerdesTimestampedWindowStore[Any, Any] = context.state_store(self.store.name)
        entries = store.entry_access()
        stored_key_of, fetch, read = entries.place, entries.get, entries.read

        def get(key: Windowed[Any]) -> tuple[int, Any] | None:
            stored = fetch(stored_key_of(key.key, key.start_ms))
            return None if stored is None else read(stored)

        return get


class WindowAggregateProcessor(Operator):
    def __init__(
        self,
        store: str,
        windows: TimeWindows,
        initializer: Initializer,
        aggregator: Aggregator,
        sends_old_values: bool,
    ) -> None:
        self._store = store
        self._windows = windows
        self._initializer = initializer
        self._aggregator = aggregator
        self._sends_old_values = sends_old_values
        self._stream_time_ms = -1

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        entries = context.state_store(self._store).entry_access()
        held_back = context.forwards_when_flushed(entries, child, sends_old_values=self._sends_old_values)
        update = aggregation(
            entries,
            self._initializer,
            self._aggregator,
            None if held_back else context.guarded(child),  # after an error below, the other windows are updated
            context,
            wants_old=self._sends_old_values,
        )
        stored_key_of = entries.place
        drop_late = self._late_record_dropper(context)
        size_ms, grace_ms, starts_for = self._windows.size_ms, self._windows.grace_ms, self._windows.starts_for

        def window_aggregate(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None:
                context.drop(DropReason.NULL_KEY, "null key")
                return
            if timestamp_ms > self._stream_time_ms:
                self._stream_time_ms = timestamp_ms
            close_ms = self._stream_time_ms - grace_ms
            for start_ms in starts_for(timestamp_ms):
                if start_ms + size_ms <= close_ms:
                    drop_late(start_ms, timestamp_ms, close_ms)
                    continue
                windowed = None
                if not held_back:
                    windowed = _new_tuple(Windowed, (key, start_ms, window_end_ms(start_ms, size_ms)))
                update(stored_key_of(key, start_ms), windowed, key, value, timestamp_ms, headers)

        return window_aggregate

    def _late_record_dropper(self, context: NodeContext) -> Callable[[int, int, int], None]:
        """Gives the function that drops a record for a closed window. The record counts once for each closed window, as
        in Kafka.
        """
        size_ms, grace = self._windows.size_ms, duration_text(self._windows.grace_ms)
        longest_lateness_ms = -1

        def drop(start_ms: int, timestamp_ms: int, close_ms: int) -> None:
            nonlocal longest_lateness_ms
            end_ms, detail = start_ms + size_ms, ""
            if close_ms - end_ms > longest_lateness_ms:
                longest_lateness_ms = close_ms - end_ms
                late = duration_text(longest_lateness_ms // 1_000 * 1_000)
                detail = f"(up to {late} after the window and its grace of {grace})"
            context.drop(
                DropReason.LATE,
                "expired window [%d,%d): its timestamp is %d and windows that end by %d are closed",
                start_ms,
                end_ms,
                timestamp_ms,
                close_ms,
                detail=detail,
            )

        return drop
