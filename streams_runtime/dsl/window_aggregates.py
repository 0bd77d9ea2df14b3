"""A stream aggregated by key and window. A window takes records until stream time has passed its end by the grace
period.

Stream time is what this processor has seen. A record without key is left out; a value of None is not, as in Kafka.
Source: `KStreamWindowAggregate` with `EmitStrategy.onWindowUpdate`. Differs from Kafka: the old value of a new window
is None, as in `stream_aggregates`. In Kafka it may be the initializer's value.
"""

from __future__ import annotations

from typing import Any

from streams_runtime.common.clock import duration_text
from streams_runtime.common.records import Record
from streams_runtime.dsl.change import Change
from streams_runtime.dsl.flush_forwarding import forwards_when_flushed
from streams_runtime.dsl.forwarding import ForwardingProcessor
from streams_runtime.dsl.fused_table_store import FusedWindowStore
from streams_runtime.dsl.materialized import WindowStoreMaker
from streams_runtime.dsl.stream_aggregates import Aggregator, Initializer, write_aggregation
from streams_runtime.dsl.table_supplier import Getter, StoredTableSupplier
from streams_runtime.dsl.time_windows import TimeWindows
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.processors.fused_loop import Given, LoopWriter
from streams_runtime.reporting.losses import DropReason
from streams_runtime.state_stores.base import ValueAndTimestamp, Windowed
from streams_runtime.state_stores.timestamped import SerdesTimestampedWindowStore
from streams_runtime.state_stores.window_keys import window_end_ms


class KStreamWindowAggregate(StoredTableSupplier):
    def __init__(self, store: WindowStoreMaker, initializer: Initializer, aggregator: Aggregator) -> None:
        super().__init__(store)
        self.windows = store.windows
        self.initializer = initializer
        self.aggregator = aggregator

    def __call__(self) -> Processor[Any, Any]:
        return WindowAggregateProcessor(
            self.store.name, self.windows, self.initializer, self.aggregator, self.sends_old_values
        )

    def getter(self, context: ProcessorContext, *, flushed: bool = False) -> Getter:
        fetch = context.state_store(self.store.name).fetch

        def get(key: Windowed[Any]) -> ValueAndTimestamp[Any] | None:
            found: ValueAndTimestamp[Any] | None = fetch(key.key, key.start_ms)
            return found

        return get


class WindowAggregateProcessor(ForwardingProcessor[Any, Any]):
    def __init__(
        self,
        store: str,
        windows: TimeWindows,
        initializer: Initializer,
        aggregator: Aggregator,
        sends_old_values: bool,
    ) -> None:
        super().__init__()
        self._store_name = store
        self._windows = windows
        self._initializer = initializer
        self._aggregator = aggregator
        self._sends_old_values = sends_old_values
        self._stream_time_ms = -1
        self._latest_ms = -1

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store = store = context.state_store(self._store_name)
        self._fetch, self._put = store.fetch, store.put
        self._held_back = forwards_when_flushed(context, store, sends_old_values=self._sends_old_values)

    def process(self, record: Record[Any, Any]) -> None:
        if record[0] is None:
            self.drop(DropReason.NULL_KEY, "null key")
            return
        timestamp_ms = record[2]
        close_ms = self._closed_by(timestamp_ms)
        size_ms = self._windows.size_ms
        for start_ms in self._windows.starts_for(timestamp_ms):
            if start_ms + size_ms > close_ms:
                self._update(record, start_ms)
            else:
                self._drop_late(start_ms, start_ms + size_ms, timestamp_ms, close_ms)

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        store = self._store
        if given.old or (self._sends_old_values and not self._held_back):
            return False
        if not isinstance(store, SerdesTimestampedWindowStore):
            return False
        size_ms = self._windows.size_ms
        start_ms, close_ms = loop.new("start_ms"), loop.new("close_ms")
        with loop.block(f"if {given.key} is None:"):
            loop.remember_position()
            loop.line(f"{loop.bind('drop', self.drop)}({loop.bind('reason', DropReason.NULL_KEY)}, 'null key')")
        with loop.block("else:"):
            processor = loop.bind("processor", self)
            with loop.block(f"if {given.timestamp_ms} > {processor}._stream_time_ms:"):
                loop.line(f"{processor}._stream_time_ms = {given.timestamp_ms}")
            loop.line(f"{close_ms} = {processor}._stream_time_ms - {self._windows.grace_ms}")
            if self._windows.advance_ms == size_ms:  # one window, and no record is from before the epoch
                loop.line(f"{start_ms} = {given.timestamp_ms} // {size_ms} * {size_ms}")
                self._fuse_window(loop, given, store, start_ms, close_ms)
            else:
                starts = f"{loop.bind('starts_for', self._windows.starts_for)}({given.timestamp_ms})"
                with loop.block(f"for {start_ms} in {starts}:"):
                    self._fuse_window(loop, given, store, start_ms, close_ms)
        return True

    def _fuse_window(
        self,
        loop: LoopWriter,
        given: Given,
        store: SerdesTimestampedWindowStore[Any, Any],
        start_ms: str,
        close_ms: str,
    ) -> None:
        size_ms = self._windows.size_ms
        with loop.block(f"if {start_ms} + {size_ms} > {close_ms}:"):
            state = FusedWindowStore(loop, store, given, start_ms)
            new, newest_ms = write_aggregation(loop, state, given, self._initializer, self._aggregator)
            if not self._held_back:
                windowed = loop.new("windowed")
                end_ms = f"{loop.bind('window_end_ms', window_end_ms)}({start_ms}, {size_ms})"
                window = f"({given.key}, {start_ms}, {end_ms})"
                loop.line(f"{windowed} = new_record({loop.bind('Windowed', Windowed)}, {window})")
                loop.forward(Given(windowed, new, newest_ms, old="None", change=loop.bind("change", Change)))
        with loop.block("else:"):
            loop.remember_position()
            late = f"{start_ms}, {start_ms} + {size_ms}, {given.timestamp_ms}, {close_ms}"
            loop.line(f"{loop.bind('drop_late', self._drop_late)}({late})")

    def _closed_by(self, timestamp_ms: int) -> int:
        """A record of this time has come: windows that end by the time that this gives are closed."""
        if timestamp_ms > self._stream_time_ms:
            self._stream_time_ms = timestamp_ms
        return self._stream_time_ms - self._windows.grace_ms

    def _drop_late(self, start_ms: int, end_ms: int, timestamp_ms: int, close_ms: int) -> None:
        """Counted once for each closed window, as in Kafka."""
        detail = ""
        if close_ms - end_ms > self._latest_ms:
            self._latest_ms = close_ms - end_ms
            late, grace = duration_text(self._latest_ms // 1_000 * 1_000), duration_text(self._windows.grace_ms)
            detail = f"(up to {late} after the window and its grace of {grace})"
        self.drop(
            DropReason.LATE,
            "expired window [%d,%d): its timestamp is %d and windows that end by %d are closed",
            start_ms,
            end_ms,
            timestamp_ms,
            close_ms,
            detail=detail,
        )

    def _update(self, record: Record[Any, Any], start_ms: int) -> None:
        key, value, timestamp_ms, headers = record
        before = self._fetch(key, start_ms)
        old = None
        if before is None:
            new = self._aggregator(key, value, self._initializer())
        else:
            so_far, old_ms = before
            if old_ms > timestamp_ms:
                timestamp_ms = old_ms
            new = self._aggregator(key, value, so_far)
            if self._sends_old_values and not self._held_back:
                old = self._fetch(key, start_ms).value if new is so_far else so_far
        self._put(key, None if new is None else ValueAndTimestamp(new, timestamp_ms), start_ms)
        if self._held_back:
            return
        windowed = Windowed(key, start_ms, window_end_ms(start_ms, self._windows.size_ms))
        self.forward(Record(windowed, Change(new, old), timestamp_ms, headers))
